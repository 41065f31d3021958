// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that come up in groups, in boot and behind it.
 *
 * A group goes through four stages, all CPUs through one before any enters the
 * next:
 *
 *   1. Prepared and kicked, where the architecture lets CPUs start at the same
 *      time: they come alive and wait.
 *   2. Released, one after another: online, with nothing but the idle task and
 *      the stopper to run. In a tree, each that is released then takes others
 *      of the group through these two stages, and the waker waits for the last.
 *   3. Behind boot, what stops the machine and must be right before anything
 *      runs there: arch_cpu_group_online().
 *   4. The hotplug threads of all of them are woken, run their online callbacks
 *      at the same time, and make their CPUs active. A callback that is not
 *      marked parallel runs on one CPU at a time, and no other of its kind
 *      beside it. The waker waits once, for the last of them. Then what follows
 *      from the set of online CPUs is done once.
 *
 * A CPU that fails leaves its group and is taken down; the others go on.
 *
 * In boot all CPUs are a group. As boot waits for every CPU, and most of it can
 * start with a few, cpuhp.defer=N has it bring up N of them, spread over the
 * nodes. A thread brings up the rest once the first process runs, in groups that
 * double the machine, so that what a group costs whatever its size is paid few
 * times: a write lock of CPU hotplug and the RCU grace period that comes with
 * it, a rebuild of the scheduler domains, a stop_machine() for the memory types.
 *
 * On x86 a deferred CPU is possible and present until its group comes up, and
 * little more: as one that is not enabled yet, it has no device. What else boot
 * would make for it is made just before: see cpu_group_later().
 *
 * Locks: lock_device_hotplug(), as sysfs does, so that nobody sees a CPU that
 * is online and a device that is not (in boot there are no devices yet);
 * cpu_add_remove_lock, from before the first CPU is kicked until all are online,
 * so that neither kexec nor suspend finds a CPU that spins; and inside it the
 * hotplug lock for writing.
 */
#define pr_fmt(fmt) "cpu: " fmt

#include <linux/cond_resched_lazy.h>
#include <linux/cpu.h>
#include <linux/cpu_group.h>
#include <linux/cpuidle.h>
#include <linux/cpuset.h>
#include <linux/device.h>
#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/nodemask.h>
#include <linux/sched/isolation.h>
#include <linux/sched/smt.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/topology.h>
#include <linux/vmstat.h>
#include <linux/wait.h>

#include "cpu_group.h"
#include "smpboot.h"

#define CREATE_TRACE_POINTS
#include <trace/events/cpu_group.h>

/* How long a group may take to come alive: what mainline gives each CPU. */
#define CPU_GROUP_ALIVE_NS	(10ULL * NSEC_PER_SEC)

/*
 * The largest group. A larger one costs less for each CPU, and makes readers of
 * the hotplug lock wait longer: most of a millisecond for each CPU.
 */
#define CPU_GROUP_MOST	32U

/* How often it is tried to take CPUs down again: for ten seconds. */
#define CPU_GROUP_TRIES	500U

/* Written with the hotplug lock held for writing. */
bool cpu_group_up;
static ktime_t cpu_group_deadline;

/* Of callbacks that are not marked parallel, one runs in a group. */
static DEFINE_MUTEX(cpu_group_serial);

/*
 * How the CPUs of a group are brought up: one by one; released by one CPU, then
 * all at the same time; or prepared and released by those that are up.
 */
static enum {
	CPU_GROUP_OFF,
	CPU_GROUP_FLAT,
	CPU_GROUP_TREE,
} cpu_group_mode __ro_after_init = CPU_GROUP_TREE;

/* Returns -EINVAL if it is no mode */
static int __init cpu_group_mode_parse(const char *arg)
{
	if (arg && (!strcmp(arg, "on") || !strcmp(arg, "tree")))
		return CPU_GROUP_TREE;
	if (arg && !strcmp(arg, "flat"))
		return CPU_GROUP_FLAT;
	if (arg && !strcmp(arg, "off"))
		return CPU_GROUP_OFF;
	return -EINVAL;
}

static int __init cpu_group_param(char *arg)
{
	int mode = cpu_group_mode_parse(arg);

	if (mode < 0)
		pr_warn("cpuhp.group=%s is none of on, flat, tree, off\n", arg ?: "");
	else
		cpu_group_mode = mode;
	return 0;
}
early_param("cpuhp.group", cpu_group_param);

/* Several CPUs prepare others. Written like cpu_group_up. */
static bool cpu_group_growing;

/* In a tree: what bringing up a CPU came to, if it failed, and when it was kicked. */
static DEFINE_PER_CPU(int, cpu_group_error);
static DEFINE_PER_CPU(ktime_t, cpu_group_kicked);

/* One of the tree did not answer in time. */
static bool cpu_group_silent;

/* Do CPUs of a group run callbacks at the same time? */
bool cpu_group_enabled(void)
{
	return cpu_group_mode != CPU_GROUP_OFF;
}

void cpu_group_wait_init(struct cpu_group_wait *group)
{
	atomic_set(&group->left, 1);
	init_completion(&group->done);
	group->help = NULL;
}

/* One more thread to wait for; before it is woken. */
void cpu_group_wait_add(struct cpu_group_wait *group)
{
	atomic_inc(&group->left);
}

void cpu_group_wait(struct cpu_group_wait *group)
{
	unsigned int left = atomic_dec_return(&group->left);

	if (left)
		wait_for_completion(&group->done);
	trace_cpu_group_waited(left);
}

/* A thread is done. Returns whether it belongs to a @group. */
bool cpu_group_complete(struct cpu_group_wait *group)
{
	if (!group)
		return false;
	if (atomic_dec_and_test(&group->left))
		complete(&group->done);
	return true;
}

void cpu_group_callback_begin(struct cpu_group_wait *group, bool parallel)
{
	if (group && !parallel)
		mutex_lock(&cpu_group_serial);
}

void cpu_group_callback_end(struct cpu_group_wait *group, bool parallel)
{
	if (group && !parallel)
		mutex_unlock(&cpu_group_serial);
}

/* N of cpuhp.defer=N; 0: nothing is deferred. */
static unsigned int cpu_group_defer __initdata;

/* CPUs that boot left for later, and did not come up yet. Written under cpu_add_remove_lock. */
static struct cpumask cpu_group_deferred;

/* A thread brings them up; who needs one of them waits. */
static bool cpu_group_coming;
static DECLARE_WAIT_QUEUE_HEAD(cpu_group_awaited);

/* Of those, the ones for which boot made less. A bit is cleared with device_hotplug_lock held. */
struct cpumask cpu_group_later_mask __read_mostly;

static BLOCKING_NOTIFIER_HEAD(cpu_group_makers);

/* The directory that holds "deferred", to wake who polls it. */
static struct device *cpu_group_dev;

/* Returns an error, and leaves @cpus alone, if it is no number */
static int __init cpu_group_defer_parse(const char *arg, unsigned int *cpus)
{
	return arg ? kstrtouint(arg, 0, cpus) : -EINVAL;
}

static int __init cpu_group_defer_param(char *arg)
{
	if (cpu_group_defer_parse(arg, &cpu_group_defer))
		pr_warn("cpuhp.defer=%s is not a number of CPUs: no CPU is deferred\n", arg ?: "");
	return 0;
}
early_param("cpuhp.defer", cpu_group_defer_param);

/* Does boot leave some of @cpus for later if it brings up @defer of them? */
static bool __init cpu_group_defers(unsigned int defer, unsigned int cpus)
{
	return defer && defer < cpus;
}

void cpu_group_prepare_begin(bool parallel)
{
	if (cpu_group_growing && !parallel)
		mutex_lock(&cpu_group_serial);
}

void cpu_group_prepare_end(bool parallel)
{
	if (cpu_group_growing && !parallel)
		mutex_unlock(&cpu_group_serial);
}

/*
 * Release CPUs of @group that nobody has taken, until none is left; in the
 * hotplug thread of a CPU that is released and runs nothing else yet. What
 * starts CPUs one at a time does so in CPUHP_BRINGUP_CPU, under the lock of
 * interrupt descriptors: see cpu_group_release().
 */
static void cpu_group_take(struct cpu_group_wait *group)
{
	unsigned int cpu;

	for_each_cpu(cpu, group->help) {
		int err = 0;

		if (!cpumask_test_and_clear_cpu(cpu, group->help))
			continue;
		if (cpu_up_in_parallel())
			err = cpu_up_cpuslocked(cpu, 0, CPUHP_BP_KICK_AP);
		per_cpu(cpu_group_kicked, cpu) = ktime_get();
		err = err ?: cpu_up_cpuslocked(cpu, 0, CPUHP_AP_ONLINE_IDLE);
		per_cpu(cpu_group_error, cpu) = err;
		if (err == -EIO)
			WRITE_ONCE(cpu_group_silent, true);
		if (!err)
			cpu_up_kick(cpu, CPUHP_AP_ONLINE_IDLE, group);
	}
}

/* The hotplug thread of a CPU has nothing more to do. */
void cpu_group_help(struct cpu_group_wait *group)
{
	if (group && group->help)
		cpu_group_take(group);
}

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
	const char *why;

	cpu_group_test_faults();
	if (!cpu_group_defers(cpu_group_defer, min(room, num_present_cpus())))
		return cpu_present_mask;
	why = arch_cpu_group_wants_all();
	if (why) {
		pr_notice("no CPU is deferred: %s\n", why);
		return cpu_present_mask;
	}

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
	if (arch_cpu_group_later())
		cpumask_copy(&cpu_group_later_mask, &cpu_group_deferred);

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
	wake_up_all(&cpu_group_awaited);
}

/**
 * cpu_group_sync_deadline - until when may a CPU take to come alive?
 * @cpu: the CPU
 * @otherwise: the answer for a CPU that comes alone
 *
 * The CPUs of a group are woken together, so they share one time limit: many
 * that never answer cost little more than one. In a tree the first of them has
 * all of it, and those that are kicked after that a tenth.
 */
ktime_t cpu_group_sync_deadline(unsigned int cpu, ktime_t otherwise)
{
	u64 limit = CPU_GROUP_ALIVE_NS;

	if (!cpu_group_growing)
		return cpu_group_deadline ?: otherwise;
	if (READ_ONCE(cpu_group_silent))
		limit /= 10;
	return ktime_add_ns(per_cpu(cpu_group_kicked, cpu), limit);
}

/* May a CPU that has not run its online callbacks prepare and kick others? */
bool __weak arch_cpu_group_tree(void) { return false; }

/* Why boot has to bring up all CPUs; NULL if it need not. */
const char * __init __weak arch_cpu_group_wants_all(void) { return NULL; }

/*
 * May a CPU that is present be without a device until its group comes up? On arm64
 * drivers expect one of each.
 */
bool __init __weak arch_cpu_group_later(void) { return false; }

void __weak arch_cpu_group_begin(void) { }
void __weak arch_cpu_group_online(void) { }

/* What depends on the set of online CPUs, once for all of @cpus. */
static void cpu_group_finish(const struct cpumask *cpus)
{
	sched_cpus_activated(cpus);
	workqueue_cpus_online();
	kthreads_cpus_online();
	page_alloc_cpus_online();
	/* In boot this is still to come, for all CPUs. */
	if (system_state == SYSTEM_RUNNING)
		refresh_zone_stat_thresholds();
}

static void cpu_group_failed(unsigned int cpu, int err, struct cpumask *group)
{
	/* Switched off by the SMT control: it was up once, as it has to be, and is down again. */
	if (err != -EPERM && err != -ECANCELED)
		pr_err("CPU%u did not come up: error %d\n", cpu, err);
	cpumask_clear_cpu(cpu, group);
}

/* try_online_node() takes a lock for writing, which looks at every possible CPU. */
static int cpu_group_online_node(unsigned int cpu)
{
	int node = cpu_to_node(cpu);

	return node_online(node) ? 0 : try_online_node(node);
}

/* Move each CPU of @group to @target; those that fail leave it. */
static void cpu_group_stage(struct cpumask *group, enum cpuhp_state target)
{
	unsigned int cpu;

	for_each_cpu(cpu, group) {
		int err = cpu_up_cpuslocked(cpu, 0, target);

		if (err) {
			cpu_up_undo(cpu);
			cpu_group_failed(cpu, err, group);
		}
	}
}

/* Stages 1 and 2 by all CPUs of @group that have them behind them. */
static void cpu_group_grow(struct cpumask *group)
{
	static struct cpumask help;
	struct cpu_group_wait wait;
	unsigned int cpu;

	cpumask_copy(&help, group);
	cpu_group_wait_init(&wait);
	wait.help = &help;
	cpu_group_silent = false;
	cpu_group_growing = true;
	cpu_group_take(&wait);
	cpu_group_wait(&wait);
	cpu_group_growing = false;

	for_each_cpu(cpu, group) {
		int err = per_cpu(cpu_group_error, cpu) ?: cpu_up_kicked(cpu);

		if (err) {
			cpu_up_undo(cpu);
			cpu_group_failed(cpu, err, group);
		}
	}
}

/* Do CPUs that are released release others? */
static bool cpu_group_grows(void)
{
	if (cpu_group_mode != CPU_GROUP_TREE || !arch_cpu_group_tree())
		return false;
	/*
	 * Who waits for a CPU sleeps. Where a thread of each CPU runs the timers,
	 * that of a CPU that is just released is parked and nothing would wake it.
	 */
	if (force_irqthreads())
		return false;
	/*
	 * A CPU whose kick is a state of its own, and that must start alone,
	 * still reads after it who it is.
	 */
	return cpu_up_in_parallel() || !IS_ENABLED(CONFIG_HOTPLUG_SPLIT_STARTUP);
}

/* Stages 1 and 2 */
static void cpu_group_release(struct cpumask *group)
{
	if (cpu_group_grows()) {
		cpu_group_grow(group);
		return;
	}
	if (cpu_up_in_parallel()) {
		cpu_group_stage(group, CPUHP_BP_KICK_AP);
		cpu_group_deadline = ktime_add_ns(ktime_get(), CPU_GROUP_ALIVE_NS);
	}
	cpu_group_stage(group, CPUHP_AP_ONLINE_IDLE);
	cpu_group_deadline = 0;
}

/* Stage 4 */
static void cpu_group_online(struct cpumask *group)
{
	struct cpu_group_wait wait;
	unsigned int cpu;

	if (!cpu_group_enabled()) {
		cpu_group_stage(group, CPUHP_ONLINE);
		return;
	}

	cpu_group_wait_init(&wait);
	for_each_cpu(cpu, group)
		cpu_up_kick(cpu, CPUHP_ONLINE, &wait);
	cpu_group_wait(&wait);

	for_each_cpu(cpu, group) {
		int err = cpu_up_kicked(cpu);

		if (err) {
			cpu_up_undo(cpu);
			cpu_group_failed(cpu, err, group);
		}
	}
}

/**
 * cpu_group_boot - bring up the CPUs of boot as a group
 * @mask: the CPUs
 * @ncpus: how many of them, the online ones included
 * @target: CPUHP_BP_KICK_AP, where CPUs start in parallel, or CPUHP_ONLINE
 *
 * Context: boot, before user space, drivers and the scheduler domains.
 *
 * Return: false if the CPUs have to be brought to @target one by one, and nothing
 * was done.
 */
bool __init cpu_group_boot(const struct cpumask *mask, unsigned int ncpus, enum cpuhp_state target)
{
	static struct cpumask group __initdata;
	unsigned int cpu, wanted, first;
	u64 locked;

	if (!cpu_group_enabled())
		return false;
	/* The group is kicked when it is brought up. */
	if (target != CPUHP_ONLINE)
		return true;

	cpumask_clear(&group);
	for_each_cpu(cpu, mask) {
		int err;

		if (!cpu_online(cpu)) {
			cpumask_set_cpu(cpu, &group);
			err = cpu_up_check(cpu) ?: cpu_group_online_node(cpu);
			if (err)
				cpu_group_failed(cpu, err, &group);
		}
		if (!--ncpus)
			break;
	}

	if (cpumask_empty(&group))
		return true;

	wanted = cpumask_weight(&group);
	first = cpumask_first(&group);
	cpu_maps_update_begin();
	trace_cpu_group_begin(first, wanted);
	cpus_write_lock();
	locked = ktime_get_ns();
	cpu_group_up = true;
	cpu_group_release(&group);
	cpu_group_online(&group);
	cpu_group_up = false;
	cpu_group_finish(&group);
	locked = ktime_get_ns() - locked;
	cpus_write_unlock();
	arch_smt_update();
	trace_cpu_group_end(first, cpumask_weight(&group), wanted - cpumask_weight(&group), locked);
	cpu_maps_update_done();
	return true;
}

void __init cpu_group_register_maker(struct notifier_block *maker)
{
	blocking_notifier_chain_register(&cpu_group_makers, maker);
}

int cpu_group_make_now(unsigned int cpu)
{
	int err;

	if (!cpumask_test_and_clear_cpu(cpu, &cpu_group_later_mask))
		return 0;
	err = notifier_to_errno(blocking_notifier_call_chain(&cpu_group_makers, cpu, NULL));
	if (err)
		cpumask_set_cpu(cpu, &cpu_group_later_mask);
	return err;
}

/*
 * Who hibernates holds lock_device_hotplug() and waits for kernel threads to
 * freeze, so none may be waiting for it then.
 */
static DEFINE_MUTEX(cpu_group_pm_lock);
static bool cpu_group_hibernates;

/* Waits for the group that is on its way. */
static int cpu_group_pm(struct notifier_block *nb, unsigned long action, void *arg)
{
	guard(mutex)(&cpu_group_pm_lock);
	if (action == PM_HIBERNATION_PREPARE || action == PM_RESTORE_PREPARE)
		cpu_group_hibernates = true;
	if (action == PM_POST_HIBERNATION || action == PM_POST_RESTORE)
		cpu_group_hibernates = false;
	return NOTIFY_DONE;
}

static struct notifier_block cpu_group_pm_nb = {
	.notifier_call = cpu_group_pm,
};

/* Returns whether it has the lock of devices. */
static bool cpu_group_lock(void)
{
	mutex_lock(&cpu_group_pm_lock);
	if (!cpu_group_hibernates) {
		lock_device_hotplug();
		return true;
	}
	mutex_unlock(&cpu_group_pm_lock);
	return false;
}

static void cpu_group_unlock(void)
{
	unlock_device_hotplug();
	mutex_unlock(&cpu_group_pm_lock);
}

/*
 * Bring up @group. On return it holds the CPUs that came up.
 *
 * Return: 0, or -EBUSY if CPU hotplug is disabled now, and nothing is up.
 */
static int cpu_group_bring_up(struct cpumask *group)
{
	unsigned int cpu, wanted = cpumask_weight(group), first = cpumask_first(group);
	u64 locked;
	int err;

	if (!cpu_group_lock())
		return -EBUSY;
	for_each_cpu(cpu, group) {
		err = cpu_group_online_node(cpu);
		/* With a device it can be brought up when there is memory again. */
		err = cpu_group_make_now(cpu) ?: err ?: PTR_ERR_OR_ZERO(idle_thread_get(cpu));
		if (err)
			cpu_group_failed(cpu, err, group);
		cond_resched_lazy();
	}
	cpu_maps_update_begin();

	/* User space may have been quicker, and may have taken them down again. */
	cpumask_and(group, group, &cpu_group_deferred);
	cpumask_and(group, group, cpu_present_mask);
	for_each_cpu(cpu, group) {
		err = cpu_up_check(cpu);
		if (err == -EBUSY)
			goto out;
		/* Its device is still to come: hot-added, or firmware did not let it. */
		if (!err && !get_cpu_device(cpu))
			err = -ENODEV;
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
	arch_cpu_group_begin();
	cpu_group_release(group);
	arch_cpu_group_online();
	cpu_group_online(group);
	cpu_group_up = false;
	cpu_group_finish(group);
	locked = ktime_get_ns() - locked;
	cpus_write_unlock();
	arch_smt_update();

	for_each_cpu(cpu, group) {
		struct device *dev = get_cpu_device(cpu);

		dev_clear_offline(dev);
		kobject_uevent(&dev->kobj, KOBJ_ONLINE);
	}
	trace_cpu_group_end(first, cpumask_weight(group), wanted - cpumask_weight(group), locked);
out:
	cpu_maps_update_done();
	cpu_group_unlock();
	return err;
}

/*
 * The next @nr deferred CPUs: of a core's threads none comes together with the
 * first, and of those that may come now the isolated ones come last. Those that are
 * no longer present, as a hypervisor took them back, are forgotten.
 */
static void cpu_group_next(struct cpumask *group, unsigned int nr)
{
	static struct cpumask first, busy;
	const struct cpumask *from;
	unsigned int cpu;

	cpumask_clear(group);
	cpumask_clear(&first);
	cpu_maps_update_begin();
	cpumask_and(&cpu_group_deferred, &cpu_group_deferred, cpu_present_mask);
	for_each_cpu(cpu, &cpu_group_deferred)
		if (topology_is_primary_thread(cpu))
			cpumask_set_cpu(cpu, &first);
	from = cpumask_empty(&first) ? &cpu_group_deferred : &first;
	/* Cpusets replace the masks. */
	scoped_guard(rcu) {
		cpumask_and(&busy, from, housekeeping_cpumask(HK_TYPE_DOMAIN));
		cpumask_and(&busy, &busy, housekeeping_cpumask(HK_TYPE_KERNEL_NOISE));
	}
	if (!cpumask_empty(&busy))
		from = &busy;
	for_each_cpu(cpu, from) {
		if (!nr--)
			break;
		cpumask_set_cpu(cpu, group);
	}
	cpu_maps_update_done();
}

/* Some are up, or given up. */
static void cpu_group_tell(void)
{
	wake_up_all(&cpu_group_awaited);
	if (cpu_group_dev)
		sysfs_notify(&cpu_group_dev->kobj, NULL, "deferred");
}

/* Is one of @cpus up, or none about to be? A CPU is up for cpusets once it is not deferred. */
static bool cpu_group_there(const struct cpumask *cpus)
{
	unsigned int cpu;
	bool none = true;

	if (!READ_ONCE(cpu_group_coming))
		return true;
	for_each_cpu_and(cpu, cpus, cpu_possible_mask) {
		/* Data race: whoever clears a bit wakes the waiter after that. */
		if (!data_race(cpumask_test_cpu(cpu, &cpu_group_deferred))) {
			if (cpu_active(cpu))
				return true;
		} else {
			none = false;
		}
	}
	return none;
}

/**
 * cpu_group_await - wait for CPUs that are still to come
 * @cpus: CPUs of which a task is to run on one
 *
 * Returns at once if one of them is up, or none is about to come up behind boot. So
 * whoever asks for CPUs by their numbers, which are all there on a machine whose boot
 * brings up all, need not know that boot did not.
 *
 * Context: a system call; sleeps, for as long as CPU hotplug is disabled. No lock may
 * be held that brings up CPUs or freezes tasks.
 *
 * Return: 0, or -ERESTARTSYS if the task is killed.
 */
int cpu_group_await(const struct cpumask *cpus)
{
	return wait_event_state(cpu_group_awaited, cpu_group_there(cpus),
				(TASK_KILLABLE | TASK_FREEZABLE));
}

/*
 * Threads of a core that nosmt leaves down sleep as deeply as the idle driver knows
 * only if they were up once since it is there; in boot it saw to those it knew of.
 */
static void cpu_group_rescan_siblings(void)
{
	enum cpuhp_smt_control control;
	unsigned int tries = 0;
	int err;

	if (!IS_ENABLED(CONFIG_X86) || !cpuidle_get_driver())
		return;
	while (!cpu_group_lock()) {
		try_to_freeze();
		schedule_timeout_idle(HZ / 50);
	}
	control = cpu_smt_control;
	err = arch_cpu_rescan_dead_smt_siblings();
	/* They are up, and stay so if CPU hotplug was disabled just then. */
	while (err == -EBUSY && tries++ < CPU_GROUP_TRIES) {
		schedule_timeout_idle(HZ / 50);
		err = cpuhp_smt_disable(control);
	}
	cpu_group_unlock();
	if (err)
		pr_warn("nosmt: threads of cores may be up (%d)\n", err);
}

static int cpu_group_thread(void *unused)
{
	unsigned int wanted = cpumask_weight(&cpu_group_deferred), up = 0;
	unsigned int size = min(num_online_cpus(), CPU_GROUP_MOST), groups = 0;
	static struct cpumask group, tried;

	/* An image of hibernation may be resumed by the initramfs. */
	set_freezable();

	/* The first process is about to start: let it. */
	schedule_timeout_idle(1);

	while (!cpumask_empty(&cpu_group_deferred)) {
		try_to_freeze();
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
		cpu_group_tell();
		size = min(size * 2, CPU_GROUP_MOST);
		up += cpumask_weight(&group);
		groups++;
		cond_resched();
	}

	cpu_group_rescan_siblings();
	unregister_pm_notifier(&cpu_group_pm_nb);

	/* User space may have brought up the last one. */
	WRITE_ONCE(cpu_group_coming, false);
	cpu_group_tell();
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
	unsigned int cpu;

	if (cpumask_empty(&cpu_group_deferred))
		return;
	pr_info("CPUs %*pbl come up behind boot\n", cpumask_pr_args(&cpu_group_deferred));
	WRITE_ONCE(cpu_group_coming, true);
	register_pm_notifier(&cpu_group_pm_nb);
	task = kthread_run(cpu_group_thread, NULL, "cpu_group");
	if (!IS_ERR(task))
		return;
	unregister_pm_notifier(&cpu_group_pm_nb);
	WRITE_ONCE(cpu_group_coming, false);
	wake_up_all(&cpu_group_awaited);
	pr_err("no thread for the deferred CPUs: bring them up through sysfs\n");
	lock_device_hotplug();
	for_each_cpu(cpu, &cpu_group_deferred)
		cpu_group_make_now(cpu);
	unlock_device_hotplug();
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

#ifdef CONFIG_CPUHP_GROUP_KUNIT_TEST
#include "cpu_group_kunit.c"
#endif
