/* SPDX-License-Identifier: GPL-2.0 */
/* Where threads run, and where memory lies; for programs with _GNU_SOURCE. */
#ifndef FLATBOOT_GUEST_PLACES_H
#define FLATBOOT_GUEST_PLACES_H

#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>

#include "files.h"

/* Run the calling thread on @cpu from here on. */
static inline void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fail("sched_setaffinity");
}

/* Fresh memory of @size bytes, at a multiple of 2 MiB, with @advice. */
static inline char *aligned_area(size_t size, int advice)
{
	const size_t huge = 2 << 20;
	char *area = mmap(NULL, size + huge, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	area += -(uintptr_t)area & (huge - 1);
	madvise(area, size, advice);
	return area;
}

#endif
