// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of cpuhp_setup_state_parallel(), on all CPUs that are online in boot,
 * and of what cpuhp.group= and cpuhp.defer= take. Part of cpu_group.c.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/wait.h>

#include "cpu_group.h"

static DECLARE_WAIT_QUEUE_HEAD(test_waiting);
static atomic_t test_up, test_met, test_inside, test_inside_most;
static struct cpumask test_started, test_torn_down;

/* The CPU whose startup fails; nr_cpu_ids: none. */
static unsigned int test_failing;

static int cpu_group_test_init(struct kunit *test)
{
	if (num_online_cpus() < 2)
		kunit_skip(test, "one CPU");
	atomic_set(&test_up, 0);
	atomic_set(&test_met, 0);
	atomic_set(&test_inside, 0);
	atomic_set(&test_inside_most, 0);
	cpumask_clear(&test_started);
	cpumask_clear(&test_torn_down);
	test_failing = nr_cpu_ids;
	return 0;
}

/* Returns when all online CPUs are in here, and with an error on one of them. */
static int test_startup_meets(unsigned int cpu)
{
	atomic_inc(&test_up);
	wake_up_all(&test_waiting);
	if (wait_event_timeout(test_waiting, atomic_read(&test_up) >= num_online_cpus(), 10 * HZ))
		atomic_inc(&test_met);
	if (cpu == test_failing)
		return -ENXIO;
	cpumask_set_cpu(cpu, &test_started);
	return 0;
}

static int test_teardown(unsigned int cpu)
{
	cpumask_set_cpu(cpu, &test_torn_down);
	return 0;
}

static void cpu_group_all_at_once_test(struct kunit *test)
{
	int state;

	if (!cpu_group_enabled())
		kunit_skip(test, "cpuhp.group=off");
	state = cpuhp_setup_state_parallel(CPUHP_AP_ONLINE_DYN, "cpu_group/test:online",
					   test_startup_meets, test_teardown);
	KUNIT_ASSERT_GT(test, state, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&test_met), num_online_cpus());
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&test_started, cpu_online_mask));

	cpuhp_remove_state(state);
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&test_torn_down, cpu_online_mask));
}

/* Where one fails all others are torn down, and nothing stays installed. */
static void cpu_group_rollback_test(struct kunit *test)
{
	int first, again;
	unsigned int cpu;

	if (!cpu_group_enabled())
		kunit_skip(test, "cpuhp.group=off");
	first = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "cpu_group/test:online",
					  test_startup_meets, NULL);
	KUNIT_ASSERT_GT(test, first, 0);
	cpuhp_remove_state_nocalls(first);
	for_each_online_cpu(cpu) {
		cpu_group_test_init(test);
		test_failing = cpu;
		again = cpuhp_setup_state_parallel(CPUHP_AP_ONLINE_DYN, "cpu_group/test:online",
						   test_startup_meets, test_teardown);
		KUNIT_EXPECT_EQ(test, again, -ENXIO);
		KUNIT_EXPECT_EQ(test, cpumask_weight(&test_started), num_online_cpus() - 1);
		KUNIT_EXPECT_TRUE(test, cpumask_equal(&test_torn_down, &test_started));
	}

	/* The same state is free as before. */
	again = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "cpu_group/test:online",
					  test_startup_meets, NULL);
	KUNIT_EXPECT_EQ(test, again, first);
	cpuhp_remove_state_nocalls(again);
}

static int test_startup_counts(unsigned int cpu)
{
	int inside = atomic_inc_return(&test_inside);

	if (inside > atomic_read(&test_inside_most))
		atomic_set(&test_inside_most, inside);
	fsleep(USEC_PER_MSEC);
	atomic_dec(&test_inside);
	cpumask_set_cpu(cpu, &test_started);
	return 0;
}

/* Who does not ask for it is not called on two CPUs at once. */
static void cpu_group_serial_test(struct kunit *test)
{
	int state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpu_group/test:online",
				      test_startup_counts, NULL);

	KUNIT_ASSERT_GT(test, state, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&test_inside_most), 1);
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&test_started, cpu_online_mask));
	cpuhp_remove_state_nocalls(state);
}

static struct kunit_case cpu_group_test_cases[] = {
	KUNIT_CASE(cpu_group_all_at_once_test),
	KUNIT_CASE(cpu_group_rollback_test),
	KUNIT_CASE(cpu_group_serial_test),
	{}
};

static struct kunit_suite cpu_group_test_suite = {
	.name = "cpu_group",
	.init = cpu_group_test_init,
	.test_cases = cpu_group_test_cases,
};

kunit_test_suite(cpu_group_test_suite);

static void __init cpu_group_mode_test(struct kunit *test)
{
	static const struct {
		const char *value;
		int mode;
	} modes[] = {
		{ "on", CPU_GROUP_TREE },
		{ "tree", CPU_GROUP_TREE },
		{ "flat", CPU_GROUP_FLAT },
		{ "off", CPU_GROUP_OFF },
		{ "junk", -EINVAL },
		{ "", -EINVAL },
		{ NULL, -EINVAL },
		{ "1", -EINVAL },
		{ "0", -EINVAL },
		{ "o", -EINVAL },
		{ "trees", -EINVAL },
		{ "Flat", -EINVAL },
	};

	for (int i = 0; i < ARRAY_SIZE(modes); i++)
		KUNIT_EXPECT_EQ_MSG(test, cpu_group_mode_parse(modes[i].value), modes[i].mode,
				    "cpuhp.group=%s", modes[i].value);
}

/* What is no number changes nothing; not all numbers defer some of eight CPUs. */
static void __init cpu_group_defer_test(struct kunit *test)
{
	static const struct {
		const char *value;
		int err;
		unsigned int cpus;
		bool defers;
	} numbers[] = {
		{ "0", 0, 0, false },
		{ "1", 0, 1, true },
		{ "7", 0, 7, true },
		{ "8", 0, 8, false },
		{ "9", 0, 9, false },
		{ "100", 0, 100, false },
		{ "0x4", 0, 4, true },
		{ "4294967295", 0, UINT_MAX, false },
		{ "4294967296", -ERANGE },
		{ "-1", -EINVAL },
		{ "junk", -EINVAL },
		{ "", -EINVAL },
		{ NULL, -EINVAL },
		{ "4x", -EINVAL },
		{ "50%", -EINVAL },
	};

	for (int i = 0; i < ARRAY_SIZE(numbers); i++) {
		unsigned int cpus = 0;

		KUNIT_EXPECT_EQ_MSG(test, cpu_group_defer_parse(numbers[i].value, &cpus),
				    numbers[i].err, "cpuhp.defer=%s", numbers[i].value);
		KUNIT_EXPECT_EQ_MSG(test, cpus, numbers[i].cpus, "cpuhp.defer=%s",
				    numbers[i].value);
		KUNIT_EXPECT_EQ_MSG(test, cpu_group_defers(cpus, 8), numbers[i].defers,
				    "cpuhp.defer=%s", numbers[i].value);
	}
}

static struct kunit_case __refdata cpu_group_param_test_cases[] = {
	KUNIT_CASE(cpu_group_mode_test),
	KUNIT_CASE(cpu_group_defer_test),
	{}
};

static struct kunit_suite __refdata cpu_group_param_test_suite = {
	.name = "cpu_group_param",
	.test_cases = cpu_group_param_test_cases,
};

kunit_test_init_section_suite(cpu_group_param_test_suite);
