/* SPDX-License-Identifier: GPL-2.0-only */
/* As much of the kernel as topology_span_sane() needs, for eight CPUs. */
#include <stdbool.h>

enum { CPUS = 8, SDTL_OVERLAP = 1 };

struct cpumask {
	unsigned int bits;
};

struct sched_domain_topology_level {
	const struct cpumask *(*mask)(int cpu);
	int flags;
};

bool stock_sane(struct sched_domain_topology_level *tl,
		const struct cpumask *map, int cpu);
bool our_sane(struct sched_domain_topology_level *tl, const struct cpumask *map,
	      int cpu);

static inline int next(unsigned int bits, int cpu)
{
	while (cpu < CPUS && !(bits >> cpu & 1))
		cpu++;
	return cpu;
}

#define cpumask_first_and(a, b) next((a)->bits &(b)->bits, 0)
#define cpumask_equal(a, b) ((a)->bits == (b)->bits)
#define cpumask_intersects(a, b) (((a)->bits & (b)->bits) != 0)
#define for_each_cpu_and(cpu, a, b)                                \
	for ((cpu) = next((a)->bits & (b)->bits, 0); (cpu) < CPUS; \
	     (cpu) = next((a)->bits & (b)->bits, (cpu) + 1))
#define for_each_cpu_from(cpu, a)                        \
	for ((cpu) = next((a)->bits, cpu); (cpu) < CPUS; \
	     (cpu) = next((a)->bits, (cpu) + 1))
