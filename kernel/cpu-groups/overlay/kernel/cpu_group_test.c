// SPDX-License-Identifier: GPL-2.0
/*
 * Failures and witnesses of CPU bring-up, for tests.
 *
 * cpuhp.fail= and cpuhp.silent= make CPUs fail, cpuhp.slow= makes them slow.
 * With cpuhp.meet=K two states are there before CPUs come up: in the first, which
 * is parallel, CPUs of a group wait until K of them are in it; in the second, which
 * is not, CPUs count how many of them are. Files of debugfs tell what was seen.
 */
#define pr_fmt(fmt) "cpu: " fmt

#include <linux/atomic.h>
#include <linux/cpu_group.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "cpu_group.h"

static struct cpumask test_silent;
static char test_fail[128] __initdata;

static int __init test_cpus_param(const char *name, const char *arg, struct cpumask *cpus)
{
	if (!arg || cpulist_parse(arg, cpus))
		pr_warn("cpuhp.%s=%s is not a list of CPUs\n", name, arg ?: "");
	return 0;
}

static int __init test_silent_param(char *arg)
{
	return test_cpus_param("silent", arg, &test_silent);
}
early_param("cpuhp.silent", test_silent_param);

/* The CPUs of cpuhp.silent= are prepared, but nobody ever wakes them. */
bool cpu_group_fault_silent(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &test_silent);
}

static struct cpumask test_slow;

static int __init test_slow_param(char *arg)
{
	return test_cpus_param("slow", arg, &test_slow);
}
early_param("cpuhp.slow", test_slow_param);

/*
 * The CPUs of cpuhp.slow= take so long to come alive that who waits for them does so
 * asleep. Nothing but another CPU's ticks can be relied on here.
 */
void cpu_group_fault_slow(unsigned int cpu)
{
	unsigned long end = jiffies + max(HZ / 50, 2);

	while (cpumask_test_cpu(cpu, &test_slow) && time_before(jiffies, end))
		cpu_relax();
}

static int __init test_fail_param(char *arg)
{
	strscpy(test_fail, arg ?: "");
	return 0;
}
early_param("cpuhp.fail", test_fail_param);

/* Per-CPU data is not there yet when the parameters are read. */
void __init cpu_group_test_faults(void)
{
	char *next = test_fail, *fault;
	unsigned int cpu, state;

	while ((fault = strsep(&next, ",")) && *fault) {
		if (sscanf(fault, "%u:%u", &cpu, &state) != 2 || cpu_fail_at(cpu, state))
			pr_warn("cpuhp.fail=%s is not CPU:STATE of a CPU and a state that may fail\n",
				fault);
	}
}

/* How many CPUs wait for each other; 0: none. */
static u32 test_meet;

static int __init test_meet_param(char *arg)
{
	if (!arg || kstrtou32(arg, 0, &test_meet))
		pr_warn("cpuhp.meet=%s is not a number of CPUs\n", arg ?: "");
	return 0;
}
early_param("cpuhp.meet", test_meet_param);

static DECLARE_WAIT_QUEUE_HEAD(test_waiting);
static atomic_t test_arrived;
static atomic_t test_met, test_alone;

/* Returns when all @test_meet CPUs of this CPU's turn are in here. */
static int test_meet_online(unsigned int cpu)
{
	u32 ticket, last;

	if (!cpu_group_coming_up())
		return 0;

	ticket = atomic_inc_return(&test_arrived);
	last = roundup(ticket, test_meet);
	wake_up_all(&test_waiting);
	if (wait_event_timeout(test_waiting, atomic_read(&test_arrived) >= last, 5 * HZ))
		atomic_inc(&test_met);
	else
		atomic_inc(&test_alone);
	return 0;
}

static atomic_t test_inside, test_inside_most, test_serial;

/* Long enough for another CPU to come in, if none keeps it out. */
static int test_serial_online(unsigned int cpu)
{
	if (!cpu_group_coming_up())
		return 0;

	atomic_inc(&test_serial);
	/* Only serial callbacks write it: no race, or a wrong number shows one. */
	atomic_set(&test_inside_most, max(atomic_inc_return(&test_inside),
					  atomic_read(&test_inside_most)));
	fsleep(USEC_PER_MSEC);
	atomic_dec(&test_inside);
	return 0;
}

static int __init test_states_init(void)
{
	if (!test_meet)
		return 0;
	WARN_ON(cpuhp_setup_state_parallel(CPUHP_AP_ONLINE_DYN, "cpu_group/meet:online",
					   test_meet_online, NULL) < 0);
	WARN_ON(cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpu_group/serial:online",
				  test_serial_online, NULL) < 0);
	return 0;
}
early_initcall(test_states_init);

static int __init test_files_init(void)
{
	struct dentry *dir;

	if (!test_meet)
		return 0;
	dir = debugfs_create_dir("cpu_group", NULL);
	debugfs_create_atomic_t("met", 0400, dir, &test_met);
	debugfs_create_atomic_t("alone", 0400, dir, &test_alone);
	debugfs_create_atomic_t("serial", 0400, dir, &test_serial);
	debugfs_create_atomic_t("serial_most", 0400, dir, &test_inside_most);
	return 0;
}
late_initcall(test_files_init);
