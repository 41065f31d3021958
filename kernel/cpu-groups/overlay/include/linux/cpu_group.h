/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_CPU_GROUP_H
#define _LINUX_CPU_GROUP_H

#include <linux/cpumask.h>
#include <linux/notifier.h>
#include <linux/types.h>

/* Priorities of what makes a CPU: its device is made first. */
enum cpu_group_make {
	CPU_GROUP_MAKE_FILES,
	CPU_GROUP_MAKE_FIRMWARE,
	CPU_GROUP_MAKE_DEVICE,
};

#ifdef CONFIG_CPUHP_GROUP

extern bool cpu_group_up;
extern struct cpumask cpu_group_later_mask;

/**
 * cpu_group_later - is what belongs to a CPU made later?
 * @cpu: a possible CPU
 *
 * Boot makes much for each possible CPU that nobody needs before that CPU comes
 * up: its devices, what firmware says of it, files. For CPUs that boot leaves for later
 * (cpuhp.defer=) that is left to a notifier: see cpu_group_register_maker().
 *
 * Context: any. The answer turns from true to false before the notifiers are
 * called, with device_hotplug_lock held. Who may ask while they run, which
 * initcalls do not, has to know by itself what it has made.
 *
 * Return: true if the CPU will be made.
 */
static inline bool cpu_group_later(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &cpu_group_later_mask);
}

/**
 * cpu_group_register_maker - have a function called for each CPU made later
 * @maker: its priority is one of enum cpu_group_make; its function is called with
 *	the number of the CPU as action, and returns notifier_from_errno()
 *
 * The function is called once for each CPU before that comes up, in process
 * context, with device_hotplug_lock held and no lock of CPU hotplug. After one that
 * returns an error no other is called, and the CPU does not come up, so only that of
 * its device does.
 *
 * Context: initcalls and before. There is no way to unregister.
 */
void cpu_group_register_maker(struct notifier_block *maker);

/**
 * cpu_group_make_now - have a CPU made ahead of its group
 * @cpu: a possible CPU; nothing is done unless it is made later
 *
 * Context: process context, device_hotplug_lock held.
 *
 * Return: 0, or the error of the maker that failed.
 */
int cpu_group_make_now(unsigned int cpu);

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

int cpu_group_await(const struct cpumask *cpus);
void cpu_group_start_deferred(void);

bool arch_cpu_group_tree(void);
const char *arch_cpu_group_wants_all(void);
bool arch_cpu_group_later(void);
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
static inline bool cpu_group_later(unsigned int cpu) { return false; }
static inline void cpu_group_register_maker(struct notifier_block *maker) { }
static inline int cpu_group_make_now(unsigned int cpu) { return 0; }
static inline int cpu_group_await(const struct cpumask *cpus) { return 0; }
static inline void cpu_group_start_deferred(void) { }

#endif /* CONFIG_CPUHP_GROUP */
#endif /* _LINUX_CPU_GROUP_H */
