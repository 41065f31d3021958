// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of pools that are not built yet. Part of hugetlb_deferred.c, whose
 * static functions they call.
 */
#include <kunit/test.h>

#define TEST_UNITS	200

static DECLARE_BITMAP(test_unbuilt, TEST_UNITS);
static DECLARE_BITMAP(test_building, TEST_UNITS);

/* A range of no pool, of which nothing is built */
static struct hugetlb_range hugetlb_test_range(void)
{
	bitmap_fill(test_unbuilt, TEST_UNITS);
	bitmap_zero(test_building, TEST_UNITS);
	return (struct hugetlb_range){
		.nr_units	= TEST_UNITS,
		.nr_unbuilt	= TEST_UNITS,
		.end		= TEST_UNITS,
		.unbuilt	= test_unbuilt,
		.building	= test_building,
	};
}

/* Return: how many bitmaps of a range say something else than its counts, or both */
static unsigned int hugetlb_test_wrong_range(const struct hugetlb_range *range)
{
	unsigned int nr = range->nr_units;

	return (bitmap_weight(range->unbuilt, nr) != range->nr_unbuilt) +
	       (bitmap_weight(range->building, nr) != range->nr_building) +
	       bitmap_intersects(range->unbuilt, range->building, nr) +
	       (find_next_bit(range->unbuilt, nr, range->end) < nr);
}

/* Failed expectations allocate memory, so none is checked with hugetlb_lock held. */
static unsigned long hugetlb_test_claim(struct hugetlb_range *range, unsigned long start,
					unsigned long end, unsigned long max,
					unsigned long *unit)
{
	guard(spinlock_irq)(&hugetlb_lock);
	return hugetlb_claim(range, start, end, max, unit);
}

static void hugetlb_claim_test(struct kunit *test)
{
	struct hugetlb_range range = hugetlb_test_range();
	unsigned long unit = 0;

	/* As many as asked for, from where to look. */
	KUNIT_EXPECT_EQ(test, hugetlb_test_claim(&range, 10, TEST_UNITS, 3, &unit), 3);
	KUNIT_EXPECT_EQ(test, unit, 10);
	/* No further than where somebody builds, nor than where to stop. */
	KUNIT_EXPECT_EQ(test, hugetlb_test_claim(&range, 7, TEST_UNITS, TEST_UNITS, &unit), 3);
	KUNIT_EXPECT_EQ(test, unit, 7);
	KUNIT_EXPECT_EQ(test, hugetlb_test_claim(&range, 7, 20, TEST_UNITS, &unit), 7);
	KUNIT_EXPECT_EQ(test, unit, 13);
	/* Nothing twice. */
	KUNIT_EXPECT_EQ(test, hugetlb_test_claim(&range, 7, 20, 1, &unit), 0);
	KUNIT_EXPECT_EQ(test, hugetlb_test_wrong_range(&range), 0);
	KUNIT_EXPECT_EQ(test, range.nr_building, 13);

	while (hugetlb_test_claim(&range, 0, TEST_UNITS, 64, &unit))
		;
	KUNIT_EXPECT_EQ(test, range.nr_unbuilt, 0);
	KUNIT_EXPECT_EQ(test, range.nr_building, TEST_UNITS);
	KUNIT_EXPECT_EQ(test, hugetlb_test_wrong_range(&range), 0);
}

/*
 * Return: how many counts are wrong. What is free is in the list of its node, or
 * not built.
 */
static unsigned int hugetlb_wrong_counts(void)
{
	unsigned long units = 0;
	unsigned int wrong = 0;
	struct hstate *h;

	guard(spinlock_irq)(&hugetlb_lock);
	for (struct hugetlb_range *range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		wrong += hugetlb_test_wrong_range(range);
		units += range->nr_unbuilt + range->nr_building;
	}
	wrong += units != hugetlb_units_left;
	for_each_hstate(h) {
		unsigned long nr = 0, nr_free = 0;
		int nid;

		for_each_node_state(nid, N_MEMORY) {
			wrong += h->free_huge_pages_node[nid] !=
				 list_count_nodes(&h->hugepage_freelists[nid]) +
				 hugetlb_deferred_unbuilt(h, nid);
			nr += h->nr_huge_pages_node[nid];
			nr_free += h->free_huge_pages_node[nid];
		}
		wrong += nr != h->nr_huge_pages;
		wrong += nr_free != h->free_huge_pages;
	}
	return wrong;
}

static void hugetlb_counts_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, hugetlb_wrong_counts(), 0);
}

/*
 * A range of some pool with units that are pending and not built. NULL while the
 * kernel boots, as pools are what the command line says then; a test that is
 * skipped once would be skipped when debugfs asks as well.
 */
static struct hugetlb_range *hugetlb_test_pending(struct kunit *test)
{
	struct hugetlb_range *range;

	if (system_state < SYSTEM_RUNNING)
		return NULL;
	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++)
		if (range->pending && READ_ONCE(range->nr_unbuilt) > 1)
			return range;
	kunit_skip(test, "no page is left to build");
}

static void hugetlb_build_test(struct kunit *test)
{
	struct hugetlb_range *range = hugetlb_test_pending(test);
	unsigned long before;
	bool built;

	if (!range)
		return;
	before = hugetlb_deferred_unbuilt(range->h, NUMA_NO_NODE);
	spin_lock_irq(&hugetlb_lock);
	built = hugetlb_build_next(range, DEFERRED_INIT_DEMAND);
	spin_unlock_irq(&hugetlb_lock);
	KUNIT_EXPECT_TRUE(test, built);
	KUNIT_EXPECT_LT(test, hugetlb_deferred_unbuilt(range->h, NUMA_NO_NODE), before);
	KUNIT_EXPECT_EQ(test, hugetlb_wrong_counts(), 0);
}

/* A pool gives up what is not built before what is, and that is memory again. */
static void hugetlb_shrink_test(struct kunit *test)
{
	struct hugetlb_range *range = hugetlb_test_pending(test);
	unsigned long huge, nr, unbuilt, pending;
	struct zone *zone;
	struct hstate *h;
	nodemask_t node;
	bool released;

	if (!range)
		return;
	zone = range->zone;
	h = range->h;
	huge = hugetlb_unit_huge(h);
	node = nodemask_of_node(zone_to_nid(zone));
	mutex_lock(&h->resize_lock);
	spin_lock_irq(&hugetlb_lock);
	nr = h->nr_huge_pages;
	unbuilt = hugetlb_deferred_unbuilt(h, NUMA_NO_NODE);
	pending = zone_page_state(zone, NR_DEFERRED);
	released = __hugetlb_deferred_release(h, nr - h->surplus_huge_pages - huge, &node);
	if (released)
		h->max_huge_pages -= huge;
	spin_unlock_irq(&hugetlb_lock);
	mutex_unlock(&h->resize_lock);
	KUNIT_EXPECT_TRUE(test, released);
	KUNIT_EXPECT_EQ(test, h->nr_huge_pages, nr - huge);
	KUNIT_EXPECT_EQ(test, hugetlb_deferred_unbuilt(h, NUMA_NO_NODE), unbuilt - huge);
	KUNIT_EXPECT_GE(test, zone_page_state(zone, NR_DEFERRED), pending);
	KUNIT_EXPECT_EQ(test, hugetlb_wrong_counts(), 0);
}

#ifdef CONFIG_MEMORY_FAILURE
/* A page breaks that nobody has written a struct page for. */
static void hugetlb_poison_test(struct kunit *test)
{
	struct hugetlb_range *range = hugetlb_test_pending(test);
	unsigned long unit, pfn;

	if (!range)
		return;
	scoped_guard(spinlock_irq, &hugetlb_lock)
		unit = find_last_bit(range->unbuilt, range->nr_units);
	pfn = hugetlb_unit_pfn(range, unit) + hugetlb_unit_pages(range->h) - 1;
	KUNIT_EXPECT_EQ(test, memory_failure(pfn, MF_SW_SIMULATED), 0);
	KUNIT_EXPECT_TRUE(test, PageHWPoison(pfn_to_page(pfn)));
	KUNIT_EXPECT_FALSE(test, test_bit(unit, range->unbuilt));
	KUNIT_EXPECT_EQ(test, hugetlb_wrong_counts(), 0);
	/* The other pages of the unit are as good as ever. */
	KUNIT_EXPECT_EQ(test, unpoison_memory(pfn), 0);
	KUNIT_EXPECT_EQ(test, hugetlb_wrong_counts(), 0);
}
#endif

static struct kunit_case hugetlb_deferred_test_cases[] = {
	KUNIT_CASE(hugetlb_claim_test),
	KUNIT_CASE(hugetlb_counts_test),
	KUNIT_CASE(hugetlb_build_test),
	KUNIT_CASE(hugetlb_shrink_test),
#ifdef CONFIG_MEMORY_FAILURE
	KUNIT_CASE(hugetlb_poison_test),
#endif
	{}
};

static struct kunit_suite hugetlb_deferred_test_suite = {
	.name = "hugetlb_deferred",
	.test_cases = hugetlb_deferred_test_cases,
};

kunit_test_suite(hugetlb_deferred_test_suite);
