// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU: how many instructions the guest ran, by the address of
 * the translated block they lie in, up to a certain one. Arguments and what is
 * written: until.h, blocks.h.
 *
 * Each instruction is counted by itself. Counting blocks as they begin gives
 * 0.03% too many: one that a page fault or an access to a device interrupts is
 * begun twice.
 *
 * Instructions are counted on the exact clock, where one thread runs all CPUs:
 * nothing here is locked.
 */
#include "blocks.h"

static void runs(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->count++;
}

static void count_for(struct block *block, struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, runs, NO_REGISTERS, block);
}
