// SPDX-License-Identifier: GPL-2.0-only
/*
 * topology_span_sane() of two trees, stock_sane() and our_sane(), on random
 * levels of eight CPUs: each CPU is in its own span, and spans are parts of a
 * partition, of which some are changed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "span_sane.h"

enum { LEVELS = 1000000 };

static struct cpumask spans[CPUS];

static const struct cpumask *span_of(int cpu)
{
	return &spans[cpu];
}

/* No two spans have a CPU of @map in common unless they are the same. */
static bool sane(unsigned int map)
{
	for (int i = next(map, 0); i < CPUS; i = next(map, i + 1)) {
		for (int j = next(map, 0); j < CPUS; j = next(map, j + 1)) {
			if (spans[i].bits != spans[j].bits &&
			    (spans[i].bits & spans[j].bits & map))
				return false;
		}
	}
	return true;
}

int main(void)
{
	struct sched_domain_topology_level tl = { .mask = span_of };
	unsigned long found[2] = { 0 };

	srandom(1);
	for (int level = 0; level < LEVELS; level++) {
		struct cpumask map = { random() & ((1 << CPUS) - 1) };
		unsigned int parts[CPUS] = { 0 };
		bool stock = true, ours = true;
		int part[CPUS];

		for (int cpu = 0; cpu < CPUS; cpu++) {
			part[cpu] = random() % 3;
			parts[part[cpu]] |= 1 << cpu;
		}
		for (int cpu = 0; cpu < CPUS; cpu++)
			spans[cpu].bits = parts[part[cpu]];
		for (int changes = random() % 3; changes; changes--) {
			int cpu = random() % CPUS, other = random() % CPUS;

			if (cpu != other)
				spans[cpu].bits ^= 1 << other;
		}
		for (int cpu = next(map.bits, 0); cpu < CPUS;
		     cpu = next(map.bits, cpu + 1)) {
			stock &= stock_sane(&tl, &map, cpu);
			ours &= our_sane(&tl, &map, cpu);
		}
		if (ours != sane(map.bits) || (stock && !ours)) {
			printf("map %02x: stock %d, ours %d\n", map.bits, stock,
			       ours);
			return 1;
		}
		found[ours]++;
	}
	tl.flags = SDTL_OVERLAP;
	spans[0].bits = 3;
	spans[1].bits = 6;
	if (!our_sane(&tl, &(struct cpumask){ 7 }, 0))
		return 1;
	printf("%lu %lu\n", found[0], found[1]);
	return 0;
}
