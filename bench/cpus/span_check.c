// SPDX-License-Identifier: GPL-2.0
/*
 * What topology_span_sane() does in Linux 6.12, on this machine and by its own
 * clock: for each topology level the masks of any two CPUs have to be equal or
 * without a CPU in common.
 *
 *     span_check CPUS NODES
 *
 * prints two numbers: pairs of masks, and the nanoseconds that all of them
 * took.
 *
 * As in the kernel, a mask has a bit for each CPU, its address is in the
 * per-CPU area of its CPU, which lies a power of two from the next one, and it
 * is asked for through a function pointer, which takes a retpoline, twice for
 * each of the two CPUs.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define BITS 64
/* SMT, cluster, cores, package, node: those above may overlap. */
#define LEVELS 5
#define AREA (256UL << 10)
#define FIRST_OF_LEVELS 4096
#define MASK_ALIGN 256

static unsigned int cpus, words;
static char *areas;

static unsigned long **slot(unsigned int level, unsigned int cpu)
{
	return (unsigned long **)(areas + cpu * AREA + FIRST_OF_LEVELS) + level;
}

#define MASK_OF(level)                                      \
	static __attribute__((noinline))                    \
	const unsigned long *mask_##level(unsigned int cpu) \
	{                                                   \
		return *slot(level, cpu);                   \
	}

MASK_OF(0)
MASK_OF(1)
MASK_OF(2)
MASK_OF(3)
MASK_OF(4)

static const unsigned long *(*const masks[LEVELS])(unsigned int) = {
	mask_0, mask_1, mask_2, mask_3, mask_4,
};

static __attribute__((noinline)) bool equal(const unsigned long *a,
					    const unsigned long *b)
{
	for (unsigned int word = 0; word < words; word++) {
		if (a[word] != b[word])
			return false;
	}
	return true;
}

static __attribute__((noinline)) bool meet(const unsigned long *a,
					   const unsigned long *b)
{
	for (unsigned int word = 0; word < words; word++) {
		if (a[word] & b[word])
			return true;
	}
	return false;
}

/* So many CPUs share something with @cpu, from a multiple of that on. */
static unsigned long *new_mask(unsigned int cpu, unsigned int together)
{
	unsigned long *mask = aligned_alloc(
		MASK_ALIGN, (words * sizeof(long) + MASK_ALIGN - 1) /
				    MASK_ALIGN * MASK_ALIGN);
	unsigned int first = cpu - cpu % together;

	if (!mask)
		exit(1);
	for (unsigned int word = 0; word < words; word++)
		mask[word] = 0;
	for (unsigned int other = first;
	     other < first + together && other < cpus; other++)
		mask[other / BITS] |= 1UL << other % BITS;
	return mask;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned long long pairs = 0;
	unsigned int together[LEVELS] = { 2, 2 };
	long long start;

	if (argc != 3 || atoi(argv[1]) < 2 || atoi(argv[2]) < 1 ||
	    atoi(argv[2]) > atoi(argv[1]))
		return 2;
	cpus = atoi(argv[1]);
	words = (cpus + BITS - 1) / BITS;
	for (unsigned int level = 2; level < LEVELS; level++)
		together[level] = (cpus + atoi(argv[2]) - 1) / atoi(argv[2]);
	areas = mmap(NULL, cpus * AREA, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (areas == MAP_FAILED)
		return 1;
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		for (unsigned int level = 0; level < LEVELS; level++)
			*slot(level, cpu) = new_mask(cpu, together[level]);
	}
	start = now();
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		for (unsigned int level = 0; level < LEVELS; level++) {
			for (unsigned int other = cpu + 1; other < cpus;
			     other++) {
				pairs++;
				if (!equal(masks[level](cpu),
					   masks[level](other)) &&
				    meet(masks[level](cpu),
					 masks[level](other)))
					return 3;
			}
		}
	}
	printf("%llu %lld\n", pairs, now() - start);
	return 0;
}
