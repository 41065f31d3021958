// SPDX-License-Identifier: GPL-2.0
/*
 * Touch MIB of fresh memory page by page, and tell how long each touch took.
 *
 *	latency MIB
 *
 * Results, times in ticks of the raw counter:
 *	latency.pages	pages touched
 *	latency.worst	the longest touch
 *	latency.2^N	touches that took at least 2^N and less than 2^(N+1)
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "guest.h"

enum { PAGE = 4096, CLASSES = 64 };

int main(int argc, char **argv)
{
	unsigned long size = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	unsigned long count[CLASSES] = { 0 };
	uint64_t worst = 0;
	char *memory;
	int class;

	if (size == 0) {
		fprintf(stderr, "latency: say how many MiB to touch\n");
		return 2;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("latency: mmap");
		return 1;
	}
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (unsigned long at = 0; at < size; at += PAGE) {
		uint64_t start = counter(), took;

		*(volatile char *)(memory + at) = 1;
		took = counter() - start;
		worst = took > worst ? took : worst;
		count[63 - __builtin_clzll(took | 1)]++;
	}
	printf(RESULT "latency.pages=%lu\n", size / PAGE);
	printf(RESULT "latency.worst=%llu\n", (unsigned long long)worst);
	for (class = 0; class < CLASSES; class ++)
		if (count[class])
			printf(RESULT "latency.2^%d=%lu\n", class,
			       count[class]);
	return 0;
}
