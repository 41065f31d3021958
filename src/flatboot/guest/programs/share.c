// SPDX-License-Identifier: GPL-2.0
/*
 * Keep a CPU busy for MS milliseconds and tell how much of it there was.
 *
 *	share MS
 *
 * A turn of the loop is always the same instructions, so on the exact clock the
 * turns tell how many of the CPU's instructions were this program's.
 *
 * Results:
 *	share.turns	of the loop
 *	share.ticks	of the raw counter that they took
 *	share.worst	ticks of the longest turn, without the CPU
 *	share.deferred	kB of memory deferred afterwards
 */
#include <stdio.h>
#include <stdlib.h>

#include "files.h"
#include "guest.h"

/* The ticks of @ms milliseconds. */
static uint64_t ticks_of(long ms)
{
	uint64_t start = counter();

	nap(10);
	return (counter() - start) / 10 * (uint64_t)ms;
}

int main(int argc, char **argv)
{
	long ms = argc == 2 ? atol(argv[1]) : 0;
	uint64_t start, end, last, now, worst = 0;
	unsigned long turns = 0;

	if (ms <= 0) {
		fprintf(stderr, "usage: share MS\n");
		return 2;
	}
	end = ticks_of(ms);
	start = last = counter();
	end += start;
	do {
		now = counter();
		worst = now - last > worst ? now - last : worst;
		last = now;
		turns++;
	} while (now < end);
	printf(RESULT "share.turns=%lu\n", turns);
	printf(RESULT "share.ticks=%llu\n", (unsigned long long)(now - start));
	printf(RESULT "share.worst=%llu\n", (unsigned long long)worst);
	printf(RESULT "share.deferred=%ld\n",
	       number("/proc/meminfo", "Deferred:"));
	return 0;
}
