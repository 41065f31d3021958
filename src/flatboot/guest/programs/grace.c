// SPDX-License-Identifier: GPL-2.0
/*
 * Tell how long grace periods take while a process on each CPU wants all of it.
 *
 *	grace MS
 *
 * For MS milliseconds one grace period after the other is waited for, by
 * membarrier(MEMBARRIER_CMD_GLOBAL), which is synchronize_rcu().
 *
 * Results, times in microseconds:
 *	grace.count	grace periods
 *	grace.median	of their lengths
 *	grace.worst	of their lengths
 *	grace.deferred	kB of memory deferred afterwards
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { MOST = 1 << 16 };

static long lengths[MOST];

static void *hog(void *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	for (;;)
		counter();
	return NULL;
}

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int shorter(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	long ms = argc == 2 ? atol(argv[1]) : 0, begin, start;
	size_t cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	int count = 0;

	if (ms <= 0) {
		fprintf(stderr, "usage: grace MS\n");
		return 2;
	}
	for (size_t cpu = 0; cpu < cpus; cpu++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, hog, (void *)cpu))
			fail("pthread_create");
	}
	begin = now_us();
	while (count < MOST && now_us() - begin < ms * 1000) {
		start = now_us();
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			fail("membarrier");
		lengths[count++] = now_us() - start;
	}
	qsort(lengths, (size_t)count, sizeof(*lengths), shorter);
	printf(RESULT "grace.count=%d\n", count);
	printf(RESULT "grace.median=%ld\n", lengths[count / 2]);
	printf(RESULT "grace.worst=%ld\n", lengths[count - 1]);
	printf(RESULT "grace.deferred=%ld\n",
	       number("/proc/meminfo", "Deferred:"));
	return 0;
}
