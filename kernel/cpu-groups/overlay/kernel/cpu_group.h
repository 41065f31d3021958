/* SPDX-License-Identifier: GPL-2.0 */
/* Between kernel/cpu.c and kernel/cpu_group.c. */
#ifndef _KERNEL_CPU_GROUP_H
#define _KERNEL_CPU_GROUP_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/types.h>

int cpu_up_cpuslocked(unsigned int cpu, int tasks_frozen, enum cpuhp_state target);

#ifdef CONFIG_CPUHP_GROUP

/**
 * struct cpu_group_wait - one wait for the hotplug threads of several CPUs
 * @left:	threads that are not done, and the waiter until it waits
 * @done:	completed by the last of them
 * @help:	CPUs that are not released yet, which those that are done release; or NULL
 */
struct cpu_group_wait {
	atomic_t		left;
	struct completion	done;
	struct cpumask		*help;
};

/* kernel/cpu.c; all under cpu_add_remove_lock */
int cpu_up_check(unsigned int cpu);
void cpu_up_undo(unsigned int cpu);
void cpu_up_kick(unsigned int cpu, enum cpuhp_state target, struct cpu_group_wait *group);
int cpu_up_kicked(unsigned int cpu);
bool cpu_up_in_parallel(void);

/* kernel/cpu_group.c */
bool cpu_group_enabled(void);
void cpu_group_wait_init(struct cpu_group_wait *group);
void cpu_group_wait_add(struct cpu_group_wait *group);
void cpu_group_wait(struct cpu_group_wait *group);
bool cpu_group_complete(struct cpu_group_wait *group);
void cpu_group_callback_begin(struct cpu_group_wait *group, bool parallel);
void cpu_group_callback_end(struct cpu_group_wait *group, bool parallel);
void cpu_group_prepare_begin(bool parallel);
void cpu_group_prepare_end(bool parallel);
void cpu_group_help(struct cpu_group_wait *group);
bool cpu_group_boot(const struct cpumask *mask, unsigned int ncpus, enum cpuhp_state target);
ktime_t cpu_group_sync_deadline(unsigned int cpu, ktime_t otherwise);
void cpu_group_forget(unsigned int cpu);
const struct cpumask *cpu_group_split(unsigned int *max_cpus);

#else

struct cpu_group_wait;

static inline bool cpu_group_complete(struct cpu_group_wait *group)
{
	return false;
}

static inline void cpu_group_callback_begin(struct cpu_group_wait *group, bool parallel) { }
static inline void cpu_group_callback_end(struct cpu_group_wait *group, bool parallel) { }
static inline void cpu_group_prepare_begin(bool parallel) { }
static inline void cpu_group_prepare_end(bool parallel) { }
static inline void cpu_group_help(struct cpu_group_wait *group) { }

static inline bool cpu_group_boot(const struct cpumask *mask, unsigned int ncpus,
				  enum cpuhp_state target)
{
	return false;
}

static inline ktime_t cpu_group_sync_deadline(unsigned int cpu, ktime_t otherwise)
{
	return otherwise;
}

static inline void cpu_group_forget(unsigned int cpu) { }

static inline const struct cpumask *cpu_group_split(unsigned int *max_cpus)
{
	return cpu_present_mask;
}

#endif /* CONFIG_CPUHP_GROUP */

#ifdef CONFIG_CPUHP_GROUP_TEST
void cpu_group_test_faults(void);
bool cpu_group_fault_silent(unsigned int cpu);
void cpu_group_fault_slow(unsigned int cpu);
int cpu_fail_at(unsigned int cpu, enum cpuhp_state state);
#else
static inline void cpu_group_test_faults(void) { }
static inline bool cpu_group_fault_silent(unsigned int cpu) { return false; }
static inline void cpu_group_fault_slow(unsigned int cpu) { }
#endif

#endif /* _KERNEL_CPU_GROUP_H */
