// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU: how many lines of cache had to come over from other
 * CPUs, by the address of the translated block that wanted them, up to a
 * certain one.
 *
 * A line comes over if a CPU loads from it and another stored to it since it
 * last had it, or if a CPU stores to it and others have it. That is what
 * caches that are coherent and never full would do. A line that only one CPU
 * uses, or that nobody stores to, costs nothing here: misses for want of room
 * are not seen.
 *
 * Lines are told by their virtual addresses in the kernel's half, so that one
 * that is mapped twice counts as two. Arguments and what is written: until.h,
 * blocks.h.
 *
 * On the exact clock one thread runs all CPUs: nothing here is locked.
 */
#include "blocks.h"

#define LINE_SHIFT 6
#define MAX_CPUS 320
#define NOBODY UINT32_MAX

/* Who has a line: who stored last, and all that loaded from it since. */
struct line {
	uint64_t number;
	uint64_t has[MAX_CPUS / 64];
	uint32_t have;
	uint32_t stored_by;
};

static struct line *lines;
static size_t line_count, room;
/* What a CPU's last load brought: a store that follows takes no more. */
static uint64_t brought[MAX_CPUS];

/* The place of line @number in a table of @size places, a power of two. */
static struct line *place(struct line *table, size_t size, uint64_t number)
{
	size_t at = (number * 0x9e3779b97f4a7c15) >> 20;

	while (table[at & (size - 1)].number &&
	       table[at & (size - 1)].number != number)
		at++;
	return &table[at & (size - 1)];
}

static void make_room(void)
{
	size_t size = room ? 2 * room : 1 << 16;
	struct line *table = zeroed(size, sizeof(*table));

	for (size_t i = 0; i < room; i++)
		if (lines[i].number)
			*place(table, size, lines[i].number) = lines[i];
	free(lines);
	lines = table;
	room = size;
}

static struct line *line_of(uint64_t number)
{
	struct line *line;

	if (2 * line_count >= room)
		make_room();
	line = place(lines, room, number);
	if (!line->number) {
		line->number = number;
		line->stored_by = NOBODY;
		line_count++;
	}
	return line;
}

static void accesses(unsigned int cpu, uint32_t info, uint64_t address,
		     void *data)
{
	struct block *block = data;
	uint64_t bit = 1ULL << cpu % 64;
	struct line *line;
	uint64_t *has;

	if (done || !(address >> 63) || cpu >= MAX_CPUS)
		return;
	line = line_of(address >> LINE_SHIFT);
	has = &line->has[cpu / 64];
	if (qemu_plugin_mem_is_store(info)) {
		if (line->have > !!(*has & bit)) {
			block->count += brought[cpu] != line->number;
			memset(line->has, 0, sizeof(line->has));
		}
		*has |= bit;
		line->have = 1;
		line->stored_by = cpu;
	} else if (!(*has & bit)) {
		*has |= bit;
		line->have++;
		if (line->stored_by != NOBODY && line->stored_by != cpu) {
			block->count++;
			brought[cpu] = line->number;
			return;
		}
	}
	brought[cpu] = 0;
}

static void count_for(struct block *block, struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, accesses, NO_REGISTERS,
					 BOTH_WAYS, block);
}
