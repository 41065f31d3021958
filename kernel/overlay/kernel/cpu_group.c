// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that come up in groups, behind boot.
 *
 * Boot waits for every CPU, and most of it can start with a few. With
 * cpuhp.defer=N boot brings up N CPUs, spread over the nodes. A thread brings up
 * the rest once the first process runs, in groups that double the machine, so
 * that what a group costs whatever its size is paid few times: a write lock of
 * CPU hotplug and the RCU grace period that comes with it, a rebuild of the
 * scheduler domains, a stop_machine() for the memory types.
 *
 * A group goes through four stages, all CPUs through one before any enters the
 * next:
 *
 *   1. Prepared and kicked, where the architecture lets CPUs start at the same
 *      time: they come alive and wait.
 *   2. Released, one after another, and brought up as far as a CPU goes
 *      without running tasks: online, but not active.
 *   3. What must be right before user space runs there and stops the machine:
 *      arch_cpu_group_online(). Kernel threads may have run before, as they do
 *      in boot and resume.
 *   4. Activated. Then what follows from the set of online CPUs is done once.
 *
 * A CPU that fails leaves its group and is taken down; the others go on.
 *
 * Locks: lock_device_hotplug(), as sysfs does, so that nobody sees a CPU that
 * is online and a device that is not; cpu_add_remove_lock, from before the
 * first CPU is kicked until all are online, so that neither kexec nor suspend
 * finds a CPU that spins; and inside it the hotplug lock for writing.
 */
#define pr_fmt(fmt) "cpu: " fmt

#include <linux/cpu.h>
#include <linux/cpu_group.h>
#include <linux/cpuset.h>
#include <linux/device.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/nodemask.h>
#include <linux/sched/isolation.h>
#include <linux/sched/smt.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmstat.h>

#include "cpu_group.h"

#define CREATE_TRACE_POINTS
#include <trace/events/cpu_group.h>

/* How long a group may take to come alive: what mainline gives each CPU. */
#define CPU_GROUP_ALIVE_NS	(10ULL * NSEC_PER_SEC)

/*
 * The largest group. A larger one costs less for each CPU, and makes readers of
 * the hotplug lock wait longer: most of a millisecond for each CPU.
 */
#define CPU_GROUP_MOST	32U

/* Written with the hotplug lock held for writing. */
bool cpu_group_up;
static ktime_t cpu_group_deadline;

/* N of cpuhp.defer=N; 0: nothing is deferred. */
static unsigned int cpu_group_defer __initdata;

/* CPUs that boot left for later, and did not come up yet. Written under cpu_add_remove_lock. */
static struct cpumask cpu_group_deferred;

/* The directory that holds "deferred", to wake who polls it. */
static struct device *cpu_group_dev;

static int __init cpu_group_defer_param(char *arg)
{
	unsigned int cpus;

	if (!arg || kstrtouint(arg, 0, &cpus)) {
		pr_warn("cpuhp.defer=%s is not a number of CPUs: no CPU is deferred\n", arg ?: "");
		return 0;
	}
	cpu_group_defer = cpus;
	return 0;
}
early_param("cpuhp.defer", cpu_group_defer_param);

#ifdef CONFIG_CPUHP_DEFER_FAULTS
static struct cpumask cpu_group_silent;

static int __init cpu_group_silent_param(char *arg)
{
	if (!arg || cpulist_parse(arg, &cpu_group_silent))
		pr_warn("cpuhp.silent=%s is not a list of CPUs\n", arg ?: "");
	return 0;
}
early_param("cpuhp.silent", cpu_group_silent_param);

/* The CPUs of cpuhp.silent= are prepared, but nobody ever wakes them. */
bool cpu_group_fault_silent(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &cpu_group_silent);
}

static char cpu_group_fail[128] __initdata;

static int __init cpu_group_fail_param(char *arg)
{
	strscpy(cpu_group_fail, arg ?: "");
	return 0;
}
early_param("cpuhp.fail", cpu_group_fail_param);

/* Per-CPU data is not there yet when the parameters are read. */
static void __init cpu_group_set_faults(void)
{
	char *next = cpu_group_fail, *fault;
	unsigned int cpu, state;

	while ((fault = strsep(&next, ",")) && *fault) {
		if (sscanf(fault, "%u:%u", &cpu, &state) != 2 || cpu_fail_at(cpu, state))
			pr_warn("cpuhp.fail=%s is not CPU:STATE of a CPU and a state that may fail\n",
				fault);
	}
}
#else
static inline void cpu_group_set_faults(void) { }
#endif

/* Add CPUs of @from to @to, as many of each node as can be, until @to has @nr. */
static void __init cpu_group_spread(struct cpumask *to, const struct cpumask *from,
				    unsigned int nr)
{
	static unsigned int taken[MAX_NUMNODES] __initdata;
	static struct cpumask left __initdata;
	unsigned int cpu, nodes, share = 0;
	nodemask_t seen = NODE_MASK_NONE;

	memset(taken, 0, sizeof(taken));
	for_each_cpu(cpu, to)
		taken[max(cpu_to_node(cpu), 0)]++;
	for_each_cpu(cpu, from)
		node_set(max(cpu_to_node(cpu), 0), seen);
	nodes = nodes_weight(seen);

	cpumask_andnot(&left, from, to);
	while (cpumask_weight(to) < nr && !cpumask_empty(&left)) {
		/* Rounded down, so that no node is left out for another's remainder. */
		share += max((nr - cpumask_weight(to)) / nodes, 1U);
		for_each_cpu(cpu, &left) {
			unsigned int node = max(cpu_to_node(cpu), 0);

			if (taken[node] >= share)
				continue;
			taken[node]++;
			cpumask_set_cpu(cpu, to);
			cpumask_clear_cpu(cpu, &left);
			if (cpumask_weight(to) == nr)
				return;
		}
	}
}

/**
 * cpu_group_split - which CPUs does boot bring up?
 * @max_cpus: how many CPUs the machine shall have, of maxcpus=; on return how
 *	many of them boot brings up
 *
 * The rest of the CPUs that boot would bring up is left for
 * cpu_group_start_deferred().
 *
 * Context: boot, before any other CPU is up.
 *
 * Return: the CPUs to choose from.
 */
const struct cpumask * __init cpu_group_split(unsigned int *max_cpus)
{
	static struct cpumask now __initdata, first __initdata, second __initdata;
	static struct cpumask busy __initdata;
	unsigned int cpu, room = *max_cpus;

	cpu_group_set_faults();
	if (!cpu_group_defer || cpu_group_defer >= min(room, num_present_cpus()))
		return cpu_present_mask;

	/*
	 * The same CPUs as without deferral: if threads of a core cannot come
	 * up at the same time, maxcpus= counts the first ones first.
	 */
	cpumask_copy(&now, cpu_online_mask);
	room -= cpumask_weight(&now);
	for_each_cpu_andnot(cpu, cpu_present_mask, cpu_online_mask) {
		if (!topology_is_primary_thread(cpu))
			cpumask_set_cpu(cpu, &second);
		else if (room && room--)
			cpumask_set_cpu(cpu, &first);
	}
	for_each_cpu(cpu, &second)
		if (!room || !room--)
			cpumask_clear_cpu(cpu, &second);
	cpumask_or(&cpu_group_deferred, &first, &second);

	/* Isolated CPUs come last, and one must be there that is not isolated. */
	cpumask_and(&busy, housekeeping_cpumask(HK_TYPE_DOMAIN),
		    housekeeping_cpumask(HK_TYPE_KERNEL_NOISE));
	if (!cpumask_intersects(&now, &busy)) {
		cpumask_and(&busy, &busy, &cpu_group_deferred);
		cpu_group_spread(&now, &busy, cpumask_weight(&now) + 1);
	}
	cpumask_and(&busy, &busy, &first);
	cpu_group_spread(&now, &busy, cpu_group_defer);
	cpu_group_spread(&now, &first, cpu_group_defer);
	cpu_group_spread(&now, &second, cpu_group_defer);
	cpumask_andnot(&cpu_group_deferred, &cpu_group_deferred, &now);

	*max_cpus = cpumask_weight(&now);
	return &now;
}

/**
 * cpu_group_forget - a CPU is up: it is deferred no longer
 * @cpu: the CPU, which user space may have brought up ahead of its group
 *
 * Context: cpu_add_remove_lock held.
 */
void cpu_group_forget(unsigned int cpu)
{
	cpumask_clear_cpu(cpu, &cpu_group_deferred);
}

/**
 * cpu_group_sync_deadline - until when may a CPU take to come alive?
 * @otherwise: the answer for a CPU that comes alone
 *
 * The CPUs of a group are woken together, so they share one time limit: many
 * that never answer cost no more than one.
 */
ktime_t cpu_group_sync_deadline(ktime_t otherwise)
{
	return cpu_group_deadline ?: otherwise;
}

void __weak arch_cpu_group_begin(void) { }
void __weak arch_cpu_group_online(void) { }

/* What depends on the set of online CPUs, once for all of @cpus. */
static void cpu_group_finish(const struct cpumask *cpus)
{
	sched_cpus_activated(cpus);
	workqueue_cpus_online();
	refresh_zone_stat_thresholds();
}

static void cpu_group_failed(unsigned int cpu, int err, struct cpumask *group)
{
	/* Switched off by the SMT control: it was up once, as it has to be, and is down again. */
	if (err != -EPERM && err != -ECANCELED)
		pr_err("CPU%u did not come up behind boot: error %d\n", cpu, err);
	cpumask_clear_cpu(cpu, group);
}

/* Move each CPU of @group to @target; those that fail leave it, some to @inactive. */
static void cpu_group_stage(struct cpumask *group, enum cpuhp_state target,
			    struct cpumask *inactive)
{
	unsigned int cpu;

	for_each_cpu(cpu, group) {
		int err = cpu_up_cpuslocked(cpu, 0, target);

		if (err) {
			if (!cpu_up_undo(cpu))
				cpumask_set_cpu(cpu, inactive);
			cpu_group_failed(cpu, err, group);
		}
	}
}

/*
 * Bring up @group. On return it holds the CPUs that came up.
 *
 * Return: 0, or -EBUSY if CPU hotplug is disabled now, and nothing was done.
 */
static int cpu_group_bring_up(struct cpumask *group)
{
	unsigned int cpu, wanted = cpumask_weight(group), first = cpumask_first(group);
	static struct cpumask inactive;
	u64 locked;
	int err;

	lock_device_hotplug();
	for_each_cpu(cpu, group) {
		err = try_online_node(cpu_to_node(cpu));
		if (err)
			cpu_group_failed(cpu, err, group);
	}
	cpu_maps_update_begin();

	/* User space may have been quicker, and may have taken them down again. */
	cpumask_and(group, group, &cpu_group_deferred);
	for_each_cpu(cpu, group) {
		err = cpu_up_check(cpu);
		if (err == -EBUSY)
			goto out;
		if (err)
			cpu_group_failed(cpu, err, group);
	}
	err = 0;
	if (cpumask_empty(group))
		goto out;

	trace_cpu_group_begin(first, wanted);
	cpus_write_lock();
	locked = ktime_get_ns();
	cpu_group_up = true;
	cpumask_clear(&inactive);
	arch_cpu_group_begin();

	if (cpu_up_in_parallel()) {
		cpu_group_stage(group, CPUHP_BP_KICK_AP, &inactive);
		cpu_group_deadline = ktime_add_ns(ktime_get(), CPU_GROUP_ALIVE_NS);
	}
	cpu_group_stage(group, CPUHP_AP_ACTIVE - 1, &inactive);
	cpu_group_deadline = 0;

	arch_cpu_group_online();

	for_each_cpu(cpu, group) {
		err = cpu_up_cpuslocked(cpu, 0, CPUHP_ONLINE);
		if (err) {
			cpumask_set_cpu(cpu, &inactive);
			cpu_group_failed(cpu, err, group);
		}
	}
	err = 0;
	cpu_group_up = false;
	cpu_group_finish(group);
	locked = ktime_get_ns() - locked;
	cpus_write_unlock();
	arch_smt_update();

	/* Online, and not to be activated: rolled back no further than that. */
	for_each_cpu(cpu, &inactive)
		cpu_down_inactive(cpu);

	for_each_cpu(cpu, group) {
		struct device *dev = get_cpu_device(cpu);

		dev_clear_offline(dev);
		kobject_uevent(&dev->kobj, KOBJ_ONLINE);
	}
	trace_cpu_group_end(first, cpumask_weight(group), wanted - cpumask_weight(group), locked);
out:
	cpu_maps_update_done();
	unlock_device_hotplug();
	return err;
}

/* The next @nr deferred CPUs; of a core's threads, none together with the first. */
static void cpu_group_next(struct cpumask *group, unsigned int nr)
{
	bool primary = false;
	unsigned int cpu;

	cpumask_clear(group);
	cpu_maps_update_begin();
	for_each_cpu(cpu, &cpu_group_deferred)
		primary |= topology_is_primary_thread(cpu);
	for_each_cpu(cpu, &cpu_group_deferred) {
		if (primary && !topology_is_primary_thread(cpu))
			continue;
		if (!nr--)
			break;
		cpumask_set_cpu(cpu, group);
	}
	cpu_maps_update_done();
}

static int cpu_group_thread(void *unused)
{
	unsigned int wanted = cpumask_weight(&cpu_group_deferred), up = 0;
	unsigned int size = min(num_online_cpus(), CPU_GROUP_MOST), groups = 0;
	static struct cpumask group, tried;

	/* The first process is about to start: let it. */
	schedule_timeout_idle(1);

	while (!cpumask_empty(&cpu_group_deferred)) {
		cpu_group_next(&group, size);
		cpumask_copy(&tried, &group);
		if (cpu_group_bring_up(&group)) {
			/* A PCI driver is probing; or to sleep, or to another kernel. */
			schedule_timeout_idle(HZ / 50);
			continue;
		}
		cpu_maps_update_begin();
		cpumask_andnot(&cpu_group_deferred, &cpu_group_deferred, &tried);
		cpu_maps_update_done();
		if (cpu_group_dev)
			sysfs_notify(&cpu_group_dev->kobj, NULL, "deferred");
		size = min(size * 2, CPU_GROUP_MOST);
		up += cpumask_weight(&group);
		groups++;
		cond_resched();
	}

	/* User space may have brought up the last one. */
	if (cpu_group_dev)
		sysfs_notify(&cpu_group_dev->kobj, NULL, "deferred");
	cpus_read_lock();
	workqueue_update_topology();
	cpus_read_unlock();
	pr_info("%u of %u CPUs came up behind boot, in %u groups\n",
		up, wanted, groups);
	return 0;
}

/**
 * cpu_group_start_deferred - bring up the CPUs that boot left
 *
 * Context: the first process is about to be started.
 */
void cpu_group_start_deferred(void)
{
	struct task_struct *task;

	if (cpumask_empty(&cpu_group_deferred))
		return;
	pr_info("CPUs %*pbl come up behind boot\n", cpumask_pr_args(&cpu_group_deferred));
	task = kthread_run(cpu_group_thread, NULL, "cpu_group");
	if (IS_ERR(task))
		pr_err("no thread for the deferred CPUs: bring them up through sysfs\n");
}

#ifdef CONFIG_SYSFS
static ssize_t deferred_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(&cpu_group_deferred));
}
static DEVICE_ATTR_RO(deferred);

static int __init cpu_group_sysfs_init(void)
{
	struct device *dev = bus_get_dev_root(&cpu_subsys);
	int err;

	if (!dev)
		return -ENODEV;
	err = device_create_file(dev, &dev_attr_deferred);
	if (err) {
		put_device(dev);
		return err;
	}
	cpu_group_dev = dev;
	return 0;
}
device_initcall(cpu_group_sysfs_init);
#endif /* CONFIG_SYSFS */
