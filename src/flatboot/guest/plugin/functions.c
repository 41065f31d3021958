// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU: how many instructions the guest ran, by the address of
 * the translated block they lie in, up to a certain one.
 *
 * Arguments: out=PATH, the file to write; entry=ADDRESS, where a function
 * begins, such as the first of /init. When the block there is first translated,
 * which is right before it runs, the counts are written, a line "ADDRESS COUNT"
 * each (hexadecimal, decimal). A block that was translated again has a line
 * again. A guest that does not come so far leaves the file as it was.
 *
 * Each instruction is counted by itself. Counting blocks as they begin gives
 * 0.03% too many: one that a page fault or an access to a device interrupts is
 * begun twice.
 *
 * Instructions are counted on the exact clock, where one thread runs all CPUs:
 * nothing here is locked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_plugin.h"

struct block {
	struct block *next;
	uint64_t address;
	uint64_t count;
};

static struct block *blocks;
static const char *out;
static uint64_t entry;
/* Firmware may run at the same low address, but only before the kernel. */
static bool in_kernel;
static bool done;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void write_counts(void)
{
	FILE *file = fopen(out, "w");

	if (!file)
		fail(out);
	for (const struct block *block = blocks; block; block = block->next)
		if (block->count)
			fprintf(file, "%llx %llu\n",
				(unsigned long long)block->address,
				(unsigned long long)block->count);
	if (fclose(file))
		fail(out);
}

static void runs(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->count++;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t length = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	(void)id;
	if (done)
		return;
	in_kernel |= address >> 63;
	if (in_kernel && address == entry) {
		write_counts();
		done = true;
		return;
	}
	block = calloc(1, sizeof(*block));
	if (!block)
		fail("calloc");
	block->next = blocks;
	block->address = address;
	blocks = block;
	for (size_t i = 0; i < length; i++)
		qemu_plugin_register_vcpu_insn_exec_cb(
			qemu_plugin_tb_get_insn(tb, i), runs, NO_REGISTERS,
			block);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = argv[i] + 4;
		else if (!strncmp(argv[i], "entry=", 6))
			entry = strtoull(argv[i] + 6, NULL, 0);
	}
	if (!out || !entry) {
		fprintf(stderr, "functions: out= and entry= are needed\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
