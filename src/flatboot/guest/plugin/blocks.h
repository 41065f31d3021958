/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts by the address of the translated block that is counted for, up to the
 * end: a line "ADDRESS COUNT" each (hexadecimal, decimal). A block that was
 * translated again has a line again, and one without a count has none. The
 * first line is the end with none, as an empty file says that there was no end.
 *
 * A plugin that includes this has count_for(), which has @insn counted for
 * @block when it runs.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "qemu_plugin.h"
#include "until.h"

struct block {
	struct block *next;
	uint64_t address;
	uint64_t count;
};

static struct block *blocks;

static void count_for(struct block *block, struct qemu_plugin_insn *insn);

static inline void write_counts(void)
{
	FILE *file = opened();

	fprintf(file, "%llx 0\n", (unsigned long long)entry);
	for (const struct block *block = blocks; block; block = block->next)
		if (block->count)
			fprintf(file, "%llx %llu\n",
				(unsigned long long)block->address,
				(unsigned long long)block->count);
	closed(file);
}

static inline void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	(void)id;
	if (done)
		return;
	if (ends_at(qemu_plugin_tb_vaddr(tb))) {
		write_counts();
		done = true;
		return;
	}
	block = zeroed(1, sizeof(*block));
	block->next = blocks;
	block->address = qemu_plugin_tb_vaddr(tb);
	blocks = block;
	for (size_t i = 0; i < length; i++)
		count_for(block, qemu_plugin_tb_get_insn(tb, i));
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		takes(argv[i]);
	if (!out || !entry) {
		fprintf(stderr, "out= and entry= are needed\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}

#endif
