// SPDX-License-Identifier: GPL-2.0
/*
 * Adds memory blocks one by one, as user space can, or has the kernel add them.
 *
 *	blocks ADDRESS MIB [kernel]
 *
 * From ADDRESS on each block is told to the probe file and brought online, as
 * normal memory, by its state file; or, where there is no probe file, told to
 * that of deferred memory, which does both. With "kernel" the kernel is told
 * after the first four that no more are going to come, and adds the rest.
 * Results:
 *	blocks.ticks	of the raw counter that it took, without the first four,
 *			whose code is new to an emulator
 * and of blocks one by one:
 *	blocks.added	how many
 *	blocks.first	ticks for the first eight
 *	blocks.last	and for the last eight
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "guest.h"

#define BLOCKS "/sys/devices/system/memory/"
#define DEFERRED "/sys/kernel/deferred_mem_init/"

/* Blocks before the clock runs, those that are told apart, and most of all. */
enum { WARM = 4, FEW = 8, MOST = 1 << 16 };

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
	put(DEFERRED "add", text);
}

/* The kernel wakes who polls the file when the state changes. */
static void add_rest(void)
{
	struct pollfd file = { .events = POLLPRI };
	char state[32];
	ssize_t got;

	file.fd = open(DEFERRED "state", O_RDONLY);
	put(DEFERRED "state", "done");
	while ((got = pread(file.fd, state, sizeof(state) - 1, 0)) > 0) {
		state[got] = '\0';
		if (!strcmp(state, "complete\n"))
			break;
		poll(&file, 1, -1);
	}
	close(file.fd);
}

static void tell(const char *what, uint64_t value)
{
	printf(RESULT "blocks.%s=%llu\n", what, (unsigned long long)value);
}

int main(int argc, char **argv)
{
	int probes = access(BLOCKS "probe", W_OK) == 0;
	int kernel = argc == 4 && !strcmp(argv[3], "kernel");
	unsigned long long address, end, size;
	unsigned long added = 0, most;

	if (argc != 3 && !kernel) {
		fputs("usage: blocks ADDRESS MIB [kernel]\n", stderr);
		return 2;
	}
	address = strtoull(argv[1], NULL, 0);
	end = address + (strtoull(argv[2], NULL, 0) << 20);
	size = strtoull(text_of(BLOCKS "block_size_bytes"), NULL, 16);
	if (end - address < FEW * size) {
		fputs("blocks: there are too few of them\n", stderr);
		return 2;
	}
	most = kernel ? WARM : MOST;
	ticks[0] = counter();
	for (; address < end && added < most; address += size) {
		if (probes)
			probe(address, size);
		else
			add(address);
		ticks[++added] = counter();
	}
	if (kernel) {
		add_rest();
		tell("ticks", counter() - ticks[WARM]);
		return 0;
	}
	tell("ticks", ticks[added] - ticks[WARM]);
	tell("first", ticks[FEW] - ticks[0]);
	tell("last", ticks[added] - ticks[added - FEW]);
	tell("added", added);
	return 0;
}
