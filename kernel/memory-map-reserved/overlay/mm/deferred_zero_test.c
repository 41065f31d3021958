// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of zeroing on demand. Part of deferred_zero.c, whose static functions
 * they call on tables of their own.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/preempt.h>
#include <linux/workqueue.h>

#define TEST_CHUNKS	256
/* Two CPUs have to meet within a microsecond. */
#define TEST_ROUNDS	100
/* The last chunk is not a whole one. */
#define TEST_SIZE	(TEST_CHUNKS * DEFERRED_ZERO_CHUNK - 24)

static struct deferred_table *test_table(struct kunit *test)
{
	struct deferred_table *table = kunit_kzalloc(test, sizeof(*table), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, table);
	table->size = TEST_SIZE;
	table->start = kunit_kmalloc(test, TEST_CHUNKS * DEFERRED_ZERO_CHUNK, GFP_KERNEL);
	table->zeroed = kunit_kzalloc(test, BITS_TO_LONGS(TEST_CHUNKS) * sizeof(long),
				      GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, table->start);
	KUNIT_ASSERT_NOT_NULL(test, table->zeroed);
	memset(table->start, 0xa5, TEST_CHUNKS * DEFERRED_ZERO_CHUNK);
	return table;
}

static void deferred_zero_chunk_test(struct kunit *test)
{
	struct deferred_table *table = test_table(test);
	char *second = table->start + DEFERRED_ZERO_CHUNK;

	deferred_zero_chunk(table, 1);
	KUNIT_EXPECT_EQ(test, *table->zeroed, BIT(1));
	KUNIT_EXPECT_NULL(test, memchr_inv(second, 0, DEFERRED_ZERO_CHUNK));
	KUNIT_EXPECT_EQ(test, (u8)second[-1], 0xa5);
	KUNIT_EXPECT_EQ(test, (u8)second[DEFERRED_ZERO_CHUNK], 0xa5);

	/* What was written since stays. */
	second[7] = 1;
	deferred_zero_chunk(table, 1);
	KUNIT_EXPECT_EQ(test, second[7], 1);
}

static void deferred_zero_end_test(struct kunit *test)
{
	struct deferred_table *table = test_table(test);
	char *last = table->start + (TEST_CHUNKS - 1) * DEFERRED_ZERO_CHUNK;

	deferred_zero_chunk(table, TEST_CHUNKS - 1);
	KUNIT_EXPECT_NULL(test, memchr_inv(last, 0, DEFERRED_ZERO_CHUNK - 24));
	KUNIT_EXPECT_EQ(test, (u8)table->start[TEST_SIZE], 0xa5);
}

/* Whoever is at it still leaves memory alone that was given back. */
static void deferred_zero_del_test(struct kunit *test)
{
	struct deferred_table *table = test_table(test);

	table->size = 0;
	deferred_zero_chunk(table, 0);
	deferred_zero_chunk(table, 1);
	KUNIT_EXPECT_EQ(test, *table->zeroed, 0);
	KUNIT_EXPECT_EQ(test, (u8)table->start[0], 0xa5);
	KUNIT_EXPECT_EQ(test, (u8)table->start[DEFERRED_ZERO_CHUNK], 0xa5);
}

static void deferred_zero_range_test(struct kunit *test)
{
	struct deferred_table *table = test_table(test);

	/* Memory of nobody is left alone. */
	__deferred_zero(table->start, TEST_SIZE);
	KUNIT_EXPECT_EQ(test, (u8)table->start[0], 0xa5);

	/* One byte each side of a boundary. */
	deferred_zero_range(table, DEFERRED_ZERO_CHUNK - 1, 2);
	KUNIT_EXPECT_EQ(test, *table->zeroed, BIT(0) | BIT(1));
}

/* A look-up hears of its own part. */
static void deferred_zero_missing_test(struct kunit *test)
{
	const struct deferred_table *table = test_table(test);
	const unsigned long *map = NULL;
	bool before, at[4];

	KUNIT_EXPECT_FALSE(test, deferred_zero_missing(&map, 0));
	map = table->zeroed;
	before = deferred_zero_missing(&map, DEFERRED_ZERO_CHUNK);
	deferred_zero_chunk(table, 1);
	at[0] = deferred_zero_missing(&map, DEFERRED_ZERO_CHUNK - 1);
	at[1] = deferred_zero_missing(&map, DEFERRED_ZERO_CHUNK);
	at[2] = deferred_zero_missing(&map, 2 * DEFERRED_ZERO_CHUNK - 1);
	at[3] = deferred_zero_missing(&map, 2 * DEFERRED_ZERO_CHUNK);
	/* Once all tables are zeroed nothing is missing. */
	if (!static_key_enabled(&deferred_zero_key))
		kunit_skip(test, "there is nothing to zero");
	KUNIT_EXPECT_TRUE(test, before);
	KUNIT_EXPECT_TRUE(test, at[0]);
	KUNIT_EXPECT_FALSE(test, at[1]);
	KUNIT_EXPECT_FALSE(test, at[2]);
	KUNIT_EXPECT_TRUE(test, at[3]);
}

struct deferred_zero_work {
	struct work_struct	work;
	struct deferred_table	*table;
};

static void deferred_zero_fn(struct work_struct *work)
{
	struct deferred_table *table = container_of(work, struct deferred_zero_work, work)->table;

	deferred_zero_range(table, 0, TEST_SIZE);
}

/* Return how many chunks were marked before they were zeroed, as this CPU saw it. */
static unsigned int deferred_zero_watch(const struct deferred_table *table)
{
	unsigned int early = 0;

	for (unsigned long chunk = 0; chunk < TEST_CHUNKS; chunk++) {
		size_t end = min((chunk + 1) * DEFERRED_ZERO_CHUNK, table->size);
		const char *last = table->start + end - 1;

		/* No cpu_relax(): what is looked for takes less than that may. */
		while (!test_bit_acquire(chunk, table->zeroed))
			;
		early += !!READ_ONCE(*last);
	}
	return early;
}

/* Who sees a chunk marked sees it zeroed, also on another CPU and while that goes on. */
static void deferred_zero_order_test(struct kunit *test)
{
	struct deferred_zero_work other = { .table = test_table(test) };
	unsigned int cpu, early = 0;

	migrate_disable();
	cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	INIT_WORK_ONSTACK(&other.work, deferred_zero_fn);
	for (int round = 0; round < TEST_ROUNDS && cpu < nr_cpu_ids; round++) {
		memset(other.table->start, 0xa5, TEST_SIZE);
		bitmap_zero(other.table->zeroed, TEST_CHUNKS);
		queue_work_on(cpu, system_percpu_wq, &other.work);
		early += deferred_zero_watch(other.table);
		flush_work(&other.work);
	}
	destroy_work_on_stack(&other.work);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, early, 0);
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is one CPU");
}

static struct kunit_case deferred_zero_test_cases[] = {
	KUNIT_CASE(deferred_zero_chunk_test),
	KUNIT_CASE(deferred_zero_end_test),
	KUNIT_CASE(deferred_zero_del_test),
	KUNIT_CASE(deferred_zero_range_test),
	KUNIT_CASE(deferred_zero_missing_test),
	KUNIT_CASE(deferred_zero_order_test),
	{}
};

static struct kunit_suite deferred_zero_test_suite = {
	.name = "deferred_zero",
	.test_cases = deferred_zero_test_cases,
};

kunit_test_suite(deferred_zero_test_suite);
