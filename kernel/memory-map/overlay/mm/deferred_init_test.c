// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the block states of the memory map on demand, of the end of its
 * maps, and of what deferred_init= takes. Part of deferred_init.c, whose static
 * functions they call on maps of their own, so that no struct page is touched; all
 * but deferred_maps, which completes the machine's own.
 */
#include <kunit/test.h>
#include <linux/delay.h>

#define TEST_BLOCKS	1000UL
#define TEST_BASE_PFN	(16UL * MAX_ORDER_NR_PAGES)

static struct deferred_map *test_map(struct kunit *test)
{
	size_t bytes = BITS_TO_LONGS(TEST_BLOCKS) * sizeof(long);
	struct deferred_map *map = kunit_kzalloc(test, sizeof(*map), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, map);
	map->base_pfn = TEST_BASE_PFN;
	map->nr_blocks = TEST_BLOCKS;
	map->unclaimed = kunit_kzalloc(test, bytes, GFP_KERNEL);
	map->pending = kunit_kzalloc(test, bytes, GFP_KERNEL);
	map->reserved = kunit_kzalloc(test, bytes, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, map->unclaimed);
	KUNIT_ASSERT_NOT_NULL(test, map->pending);
	KUNIT_ASSERT_NOT_NULL(test, map->reserved);
	return map;
}

static void deferred_test_set(struct deferred_map *map, unsigned long first,
			      unsigned long nr)
{
	bitmap_set(map->unclaimed, first, nr);
	bitmap_set(map->pending, first, nr);
}

static void deferred_claim_next_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);

	deferred_test_set(map, 3, 2);
	deferred_test_set(map, 999, 1);

	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 3);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 4);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 999);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), TEST_BLOCKS);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), TEST_BLOCKS);
	/* A claim alone makes no struct page readable. */
	KUNIT_EXPECT_EQ(test, bitmap_weight(map->pending, TEST_BLOCKS), 3);
}

static void deferred_claim_bounds_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);

	deferred_test_set(map, 10, 20);

	KUNIT_EXPECT_EQ(test, deferred_claim(map, 0, 10), 10);
	KUNIT_EXPECT_TRUE(test, test_bit(10, map->unclaimed));
	KUNIT_EXPECT_EQ(test, deferred_claim(map, 15, 16), 15);
	KUNIT_EXPECT_EQ(test, deferred_claim(map, 15, 16), 16);
	/* Claims out of order do not hide what lies below them. */
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 10);
}

static void deferred_claim_given_back_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);

	deferred_test_set(map, 3, 2);
	deferred_test_set(map, 9, 1);
	atomic_long_set(&map->remaining, 3);

	clear_bit(4, map->unclaimed);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 3);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 9);
	set_bit(4, map->unclaimed);
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), 4);
	/* Claimed blocks that are not in the free lists yet end the search, too. */
	KUNIT_EXPECT_EQ(test, deferred_claim_next(map), TEST_BLOCKS);
}

static void deferred_pending_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);
	unsigned long pfn = TEST_BASE_PFN + 7 * MAX_ORDER_NR_PAGES;
	unsigned long end_pfn = TEST_BASE_PFN + TEST_BLOCKS * MAX_ORDER_NR_PAGES;

	deferred_test_set(map, 7, 1);
	deferred_test_set(map, TEST_BLOCKS - 1, 1);

	KUNIT_EXPECT_FALSE(test, deferred_map_pending(NULL, pfn));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, 0));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, TEST_BASE_PFN - 1));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, pfn - 1));
	KUNIT_EXPECT_TRUE(test, deferred_map_pending(map, pfn));
	KUNIT_EXPECT_TRUE(test, deferred_map_pending(map, pfn + MAX_ORDER_NR_PAGES - 1));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, pfn + MAX_ORDER_NR_PAGES));
	KUNIT_EXPECT_TRUE(test, deferred_map_pending(map, end_pfn - 1));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, end_pfn));
	KUNIT_EXPECT_FALSE(test, deferred_map_pending(map, ULONG_MAX));
}

static void deferred_state_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);
	unsigned long pfn = TEST_BASE_PFN + 7 * MAX_ORDER_NR_PAGES;
	unsigned long end_pfn = pfn + MAX_ORDER_NR_PAGES;

	deferred_test_set(map, 7, 1);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, pfn, end_pfn), DEFERRED_RANGE_PENDING);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, end_pfn - 1, ULONG_MAX),
			DEFERRED_RANGE_PENDING);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, 0, pfn), DEFERRED_RANGE_DONE);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, end_pfn, ULONG_MAX), DEFERRED_RANGE_DONE);

	/* As deferred_init_block() goes on: claimed, readable, and in the free lists. */
	clear_bit(7, map->unclaimed);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, pfn, end_pfn), DEFERRED_RANGE_PENDING);
	atomic_inc(&map->busy);
	clear_bit(7, map->pending);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, pfn, end_pfn), DEFERRED_RANGE_BUSY);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, 0, TEST_BASE_PFN), DEFERRED_RANGE_DONE);
	atomic_dec(&map->busy);
	KUNIT_EXPECT_EQ(test, deferred_map_state(map, pfn, end_pfn), DEFERRED_RANGE_DONE);
}

struct claim_test_thread {
	struct deferred_map	*map;
	unsigned long		claimed;
	struct completion	done;
};

static int claim_test_thread(void *data)
{
	struct claim_test_thread *thread = data;

	while (deferred_claim_next(thread->map) < TEST_BLOCKS) {
		thread->claimed++;
		cond_resched();
	}
	complete(&thread->done);
	return 0;
}

static void deferred_claim_race_test(struct kunit *test)
{
	struct deferred_map *map = test_map(test);
	struct claim_test_thread *threads;
	struct task_struct *task;
	unsigned long total = 0;
	int i;

	threads = kunit_kcalloc(test, 4, sizeof(*threads), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, threads);
	deferred_test_set(map, 0, TEST_BLOCKS);

	for (i = 0; i < 4; i++) {
		threads[i].map = map;
		init_completion(&threads[i].done);
		task = kthread_run(claim_test_thread, &threads[i], "deferred_test/%d", i);
		if (IS_ERR(task))
			complete(&threads[i].done);
	}
	for (i = 0; i < 4; i++) {
		wait_for_completion(&threads[i].done);
		total += threads[i].claimed;
	}
	KUNIT_EXPECT_EQ(test, total, TEST_BLOCKS);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(map->unclaimed, TEST_BLOCKS));
}

static struct kunit_case deferred_init_test_cases[] = {
	KUNIT_CASE(deferred_claim_next_test),
	KUNIT_CASE(deferred_claim_bounds_test),
	KUNIT_CASE(deferred_claim_given_back_test),
	KUNIT_CASE(deferred_pending_test),
	KUNIT_CASE(deferred_state_test),
	KUNIT_CASE(deferred_claim_race_test),
	{}
};

static struct kunit_suite deferred_init_test_suite = {
	.name = "deferred_init",
	.test_cases = deferred_init_test_cases,
};

/* How long who reads a map stays with it. */
#define TEST_READ_MS	2

struct deferred_test_reader {
	struct work_struct	work;
	struct zone		*zone;
	unsigned long		reads;
};

static bool deferred_test_read_map(struct zone *zone)
{
	struct deferred_map *map;

	guard(rcu)();
	map = rcu_dereference(zone->deferred_map);
	if (!map)
		return false;
	mdelay(TEST_READ_MS);
	/* KASAN tells if it was freed meanwhile. */
	READ_ONCE(*READ_ONCE(map->pending));
	return true;
}

static void deferred_test_read(struct work_struct *work)
{
	struct deferred_test_reader *reader =
		container_of(work, struct deferred_test_reader, work);

	while (deferred_test_read_map(reader->zone)) {
		reader->reads++;
		cond_resched();
	}
}

/*
 * The maps are freed once nobody reads them any more. That is once only, and not
 * while the kernel boots: a test that is to be run again must not be skipped.
 */
static void deferred_free_maps_test(struct kunit *test)
{
	struct deferred_test_reader reader = { };
	struct deferred_map *map;

	if (system_state != SYSTEM_RUNNING)
		return;
	scoped_guard(rwsem_read, &deferred_maps_rwsem) {
		map = deferred_first_map();
		if (map)
			reader.zone = map->zone;
	}
	KUNIT_ASSERT_NOT_NULL_MSG(test, map, "all is initialised");

	INIT_WORK_ONSTACK(&reader.work, deferred_test_read);
	queue_work(system_dfl_wq, &reader.work);
	KUNIT_EXPECT_EQ(test, deferred_init_complete(), 0);
	flush_work(&reader.work);
	destroy_work_on_stack(&reader.work);
	KUNIT_EXPECT_GT(test, reader.reads, 0);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(reader.zone->deferred_map));
}

/* A suite of its own, to be run again by itself. */
static struct kunit_case deferred_maps_test_cases[] = {
	KUNIT_CASE(deferred_free_maps_test),
	{}
};

static struct kunit_suite deferred_maps_test_suite = {
	.name = "deferred_maps",
	.test_cases = deferred_maps_test_cases,
};

kunit_test_suites(&deferred_init_test_suite, &deferred_maps_test_suite);

static void __init deferred_init_mode_test(struct kunit *test)
{
	static const struct {
		const char *value;
		int mode;
	} modes[] = {
		{ "wait", DEFERRED_MODE_WAIT },
		{ "background", DEFERRED_MODE_BACKGROUND },
		{ "lazy", DEFERRED_MODE_LAZY },
		{ "sometimes", -EINVAL },
		{ "", -EINVAL },
		{ NULL, -EINVAL },
		{ "laz", -EINVAL },
		{ "lazyy", -EINVAL },
		{ "Lazy", -EINVAL },
		{ " lazy", -EINVAL },
		{ "lazy,wait", -EINVAL },
		{ "1", -EINVAL },
	};

	for (int i = 0; i < ARRAY_SIZE(modes); i++)
		KUNIT_EXPECT_EQ_MSG(test, deferred_init_mode_parse(modes[i].value),
				    modes[i].mode, "deferred_init=%s", modes[i].value);
}

static struct kunit_case __refdata deferred_init_param_test_cases[] = {
	KUNIT_CASE(deferred_init_mode_test),
	{}
};

static struct kunit_suite __refdata deferred_init_param_test_suite = {
	.name = "deferred_init_param",
	.test_cases = deferred_init_param_test_cases,
};

kunit_test_init_section_suite(deferred_init_param_test_suite);
