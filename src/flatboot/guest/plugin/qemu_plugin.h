/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What our plugins use of QEMU's interface for TCG plugins: Debian's QEMU comes
 * without qemu-plugin.h.
 *
 * QEMU refuses a plugin of another version: API_VERSION is 1 before QEMU 9, and
 * 2 from there on. Version 2 took the inline addition away; the callbacks used
 * here are the same in both. Tried with QEMU 7.2 only: there the callback gives
 * the counts of the inline addition, and in the same time.
 */
#ifndef QEMU_PLUGIN_H
#define QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef API_VERSION
#define API_VERSION 1
#endif

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_insn;
struct qemu_plugin_tb;

/* enum qemu_plugin_cb_flags: the callback looks at no register. */
enum { NO_REGISTERS };

/* enum qemu_plugin_mem_rw. QEMU 7.2 calls back for stores if asked for loads.
 */
enum { BOTH_WAYS = 3 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
/*
 * Up to QEMU 9.0 it takes the first argument alone and returns a pointer to the
 * bytes; later ones copy them and return how many there are.
 */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn,
				void *bytes, size_t length);
void qemu_plugin_register_vcpu_tb_trans_cb(
	uint64_t id,
	void (*translated)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*runs)(unsigned int cpu,
						       void *data),
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*runs)(unsigned int cpu,
							 void *data),
					    int flags, void *data);
bool qemu_plugin_mem_is_store(uint32_t info);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*accesses)(unsigned int cpu,
						       uint32_t info,
						       uint64_t address,
						       void *data),
				      int flags, int which, void *data);

EXPORT int qemu_plugin_version = API_VERSION;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc,
			       char **argv);

#endif
