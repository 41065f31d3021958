/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_CPU_GROUP_H
#define _LINUX_CPU_GROUP_H

#include <linux/cpumask_types.h>
#include <linux/types.h>

#ifdef CONFIG_CPUHP_GROUP

extern bool cpu_group_up;

/**
 * cpu_group_coming_up - are CPUs coming up as a group?
 *
 * A callback that looks at all online CPUs whenever one of them comes online
 * leaves that to the end of the group, where it is done once for all of them:
 * see cpu_group_finish().
 *
 * Context: CPU hotplug callbacks, and whoever else holds the hotplug lock.
 *
 * Return: true from before the first callback of the group until after the
 * last one.
 */
static inline bool cpu_group_coming_up(void)
{
	return cpu_group_up;
}

void cpu_group_start_deferred(void);

void arch_cpu_group_begin(void);
void arch_cpu_group_online(void);

/* What a group leaves to its end. The hotplug lock is held for writing. */
void sched_cpus_activated(const struct cpumask *cpus);
void workqueue_cpus_online(void);
void kthreads_cpus_online(void);
void page_alloc_cpus_online(void);

/* After the last group. The hotplug lock is held for reading. */
void workqueue_update_topology(void);

#else

static inline bool cpu_group_coming_up(void) { return false; }
static inline void cpu_group_start_deferred(void) { }

#endif /* CONFIG_CPUHP_GROUP */
#endif /* _LINUX_CPU_GROUP_H */
