// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of zeroing on demand. Part of deferred_zero.c, whose static functions
 * they call on tables of their own.
 */
#include <kunit/test.h>

#define TEST_CHUNKS	4
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

static struct kunit_case deferred_zero_test_cases[] = {
	KUNIT_CASE(deferred_zero_chunk_test),
	KUNIT_CASE(deferred_zero_end_test),
	KUNIT_CASE(deferred_zero_range_test),
	{}
};

static struct kunit_suite deferred_zero_test_suite = {
	.name = "deferred_zero",
	.test_cases = deferred_zero_test_cases,
};

kunit_test_suite(deferred_zero_test_suite);
