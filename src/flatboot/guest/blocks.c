// SPDX-License-Identifier: GPL-2.0
/*
 * Adds memory blocks one by one, as user space can.
 *
 *	blocks ADDRESS MIB
 *
 * From ADDRESS on each block is told to the probe file and brought online, as
 * normal memory, by its state file; or, where there is no probe file, told to
 * that of deferred memory, which does both. Results:
 *	blocks.added	how many
 *	blocks.ticks	of the raw counter that it took
 *	blocks.first	of it for the first eight
 *	blocks.last	and for the last eight
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "guest.h"

#define BLOCKS "/sys/devices/system/memory/"
#define DEFERRED_ADD "/sys/kernel/deferred_mem_init/add"

/* Blocks of which the first and the last are told apart, and most of all. */
enum { FEW = 8, MOST = 1 << 16 };

/* Before each block, and after the last. */
static uint64_t ticks[MOST + 1];

static void probe(unsigned long long address, unsigned long long size)
{
	char path[128], text[32];

	snprintf(text, sizeof(text), "%#llx", address);
	put(BLOCKS "probe", text);
	snprintf(path, sizeof(path), BLOCKS "memory%llu/state", address / size);
	put(path, "online_kernel");
}

static void add(unsigned long long address)
{
	char text[32];

	snprintf(text, sizeof(text), "%#llx kernel", address);
	put(DEFERRED_ADD, text);
}

static void tell(const char *what, uint64_t value)
{
	printf(RESULT "blocks.%s=%llu\n", what, (unsigned long long)value);
}

int main(int argc, char **argv)
{
	int probes = access(BLOCKS "probe", W_OK) == 0;
	unsigned long long address, end, size;
	unsigned long added = 0, few;

	if (argc != 3) {
		fputs("usage: blocks ADDRESS MIB\n", stderr);
		return 2;
	}
	address = strtoull(argv[1], NULL, 0);
	end = address + (strtoull(argv[2], NULL, 0) << 20);
	size = strtoull(text_of(BLOCKS "block_size_bytes"), NULL, 16);
	ticks[0] = counter();
	for (; address < end && added < MOST; address += size) {
		if (probes)
			probe(address, size);
		else
			add(address);
		ticks[++added] = counter();
	}
	few = added < FEW ? added : FEW;
	tell("ticks", ticks[added] - ticks[0]);
	tell("first", ticks[few] - ticks[0]);
	tell("last", ticks[added] - ticks[added - few]);
	tell("added", added);
	return 0;
}
