/* SPDX-License-Identifier: GPL-2.0 */
/* Between kernel/cpu.c and kernel/cpu_group.c. */
#ifndef _KERNEL_CPU_GROUP_H
#define _KERNEL_CPU_GROUP_H

#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/types.h>

int cpu_up_cpuslocked(unsigned int cpu, int tasks_frozen, enum cpuhp_state target);

#ifdef CONFIG_CPUHP_DEFER

/* kernel/cpu.c; all under cpu_add_remove_lock */
int cpu_up_check(unsigned int cpu);
bool cpu_up_undo(unsigned int cpu);
void cpu_down_inactive(unsigned int cpu);
bool cpu_up_in_parallel(void);

/* kernel/cpu_group.c */
ktime_t cpu_group_sync_deadline(ktime_t otherwise);
void cpu_group_forget(unsigned int cpu);
const struct cpumask *cpu_group_split(unsigned int *max_cpus);

#else

static inline ktime_t cpu_group_sync_deadline(ktime_t otherwise)
{
	return otherwise;
}

static inline void cpu_group_forget(unsigned int cpu) { }

static inline const struct cpumask *cpu_group_split(unsigned int *max_cpus)
{
	return cpu_present_mask;
}

#endif /* CONFIG_CPUHP_DEFER */

#ifdef CONFIG_CPUHP_DEFER_FAULTS
bool cpu_group_fault_silent(unsigned int cpu);
int cpu_fail_at(unsigned int cpu, enum cpuhp_state state);
#else
static inline bool cpu_group_fault_silent(unsigned int cpu) { return false; }
#endif

#endif /* _KERNEL_CPU_GROUP_H */
