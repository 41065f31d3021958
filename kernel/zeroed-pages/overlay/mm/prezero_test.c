// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of marks on zeroed pages. Part of prezero.c, whose static functions
 * they call, on pages of their own where they can.
 */
#include <kunit/test.h>

#define TEST_ORDER	3
#define TEST_PAGES	BIT(TEST_ORDER)
#define TEST_DIRT	0xa5
#define TEST_FREE_ORDER	(PAGE_ALLOC_COSTLY_ORDER + 1)

/* Others use free memory, too. */
#define TEST_TRIES	5

/* How many pages of a list are looked at with its lock held. */
#define TEST_LIST_PAGES	BIT(18)

/* Pages that hold other than zeroes, so that it shows which were cleared. */
static struct page *prezero_test_pages(struct kunit *test)
{
	struct page *page = alloc_pages(GFP_KERNEL, TEST_ORDER);

	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page_address(page), TEST_DIRT, PAGE_SIZE << TEST_ORDER);
	return page;
}

/* Free them, after a look whether none but the @untouched are cleared, and no mark is left. */
static void prezero_test_done(struct kunit *test, struct page *page, unsigned long untouched)
{
	for (int i = 0; i < TEST_PAGES; i++) {
		u8 expected = test_bit(i, &untouched) ? TEST_DIRT : 0;

		KUNIT_EXPECT_NULL_MSG(test, memchr_inv(page_address(page + i), expected, PAGE_SIZE),
				      "page %d", i);
		KUNIT_EXPECT_FALSE(test, PageZeroed(page + i));
		KUNIT_EXPECT_FALSE(test, PageZeroedBlock(page + i));
		page[i].flags.f &= ~__PG_ZEROED;
	}
	__free_pages(page, TEST_ORDER);
}

static void prezero_test_mark(struct page *page, unsigned long marks)
{
	for (int i = 0; i < TEST_PAGES; i++)
		if (test_bit(i, &marks))
			SetPageZeroed(page + i);
}

/* Pages with a mark are as good as cleared, the others are cleared. */
static void prezero_take_mixed_test(struct kunit *test)
{
	static const unsigned long marks[] = { 0x00, 0x01, 0x80, 0x5a, 0x3c, 0xc3, 0xff };

	for (int i = 0; i < ARRAY_SIZE(marks); i++) {
		struct page *page = prezero_test_pages(test);

		prezero_test_mark(page, marks[i]);
		prezero_take(page, TEST_ORDER, true);
		prezero_test_done(test, page, marks[i]);
	}
}

/* Who does not want zeroes gets what there is. */
static void prezero_take_any_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test);

	prezero_test_mark(page, 0x5a);
	prezero_take(page, TEST_ORDER, false);
	prezero_test_done(test, page, 0xff);
}

static void prezero_take_block_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test);

	prezero_test_mark(page, 0xff);
	SetPageZeroedBlock(page);
	prezero_take(page, TEST_ORDER, true);
	prezero_test_done(test, page, 0xff);
}

/* Of a block that is merged with another, all of it has to be known as zeroed. */
static void prezero_merge_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test);

	KUNIT_EXPECT_FALSE(test, take_zeroed_block(page, 0));
	prezero_test_mark(page, 0xff);
	KUNIT_EXPECT_TRUE(test, take_zeroed_block(page, 0));
	KUNIT_EXPECT_FALSE(test, take_zeroed_block(page, 1));
	KUNIT_EXPECT_EQ(test, free_list_index(page, MIGRATE_MOVABLE), MIGRATE_MOVABLE);

	SetPageZeroedBlock(page);
	KUNIT_EXPECT_EQ(test, free_list_index(page, MIGRATE_MOVABLE),
			MIGRATE_TYPES + MIGRATE_MOVABLE);
	KUNIT_EXPECT_TRUE(test, take_zeroed_block(page, TEST_ORDER));
	KUNIT_EXPECT_FALSE(test, take_zeroed_block(page, TEST_ORDER));
	prezero_forget(page, TEST_ORDER);
	prezero_test_done(test, page, 0xff);
}

/* Who wants zeroes takes from one list, others from the other, or from what there is. */
static void prezero_list_test(struct kunit *test)
{
	struct free_area *area = kunit_kzalloc(test, sizeof(*area), GFP_KERNEL);
	struct list_head *plain, *zeroed, one, two;

	KUNIT_ASSERT_NOT_NULL(test, area);
	plain = &area->free_list[MIGRATE_MOVABLE];
	zeroed = &area->free_list[MIGRATE_TYPES + MIGRATE_MOVABLE];
	INIT_LIST_HEAD(plain);
	INIT_LIST_HEAD(zeroed);
	KUNIT_EXPECT_TRUE(test, free_area_empty(area, MIGRATE_MOVABLE));

	list_add(&one, zeroed);
	KUNIT_EXPECT_FALSE(test, free_area_empty(area, MIGRATE_MOVABLE));
	KUNIT_EXPECT_PTR_EQ(test, free_area_list(area, MIGRATE_MOVABLE, true), zeroed);
	KUNIT_EXPECT_PTR_EQ(test, free_area_list(area, MIGRATE_MOVABLE, false), zeroed);

	list_add(&two, plain);
	KUNIT_EXPECT_PTR_EQ(test, free_area_list(area, MIGRATE_MOVABLE, true), zeroed);
	KUNIT_EXPECT_PTR_EQ(test, free_area_list(area, MIGRATE_MOVABLE, false), plain);

	list_del(&one);
	KUNIT_EXPECT_PTR_EQ(test, free_area_list(area, MIGRATE_MOVABLE, true), plain);
}

/*
 * A block in two halves, of which one is zeroed, becomes one that is not, with marks.
 * Return: does it, or did somebody else take or clear it meanwhile?
 */
static bool prezero_test_halves(struct zone *zone, struct page *page, unsigned int order)
{
	unsigned int half = BIT(order - 1), kept = 0, added = 0;
	bool alone;

	prezero_forget(page, order);
	debug_pagealloc_map_pages(page, half);
	for (int i = 0; i < half; i++) {
		prezero_clear_page(page_address(page + i));
		SetPageZeroed(page + i);
	}
	debug_pagealloc_unmap_pages(page, half);
	SetPageZeroedBlock(page);

	prezero_putback_block(zone, page, order - 1);
	alone = PageZeroedBlock(page);
	prezero_putback_block(zone, page + half, order - 1);

	guard(spinlock_irqsave)(&zone->lock);
	for (int i = 0; i < half; i++) {
		kept += PageZeroed(page + i);
		added += PageZeroed(page + half + i);
	}
	return alone && !PageZeroedBlock(page) && kept == half && !added;
}

/*
 * Free a block that counts as other than zeroed. Its order is one that goes past the
 * lists of CPUs. Return: the zone it is in
 */
static struct zone *prezero_test_free(struct kunit *test)
{
	struct page *page = alloc_pages(GFP_KERNEL, TEST_FREE_ORDER);
	struct zone *zone;

	KUNIT_ASSERT_NOT_NULL(test, page);
	zone = page_zone(page);
	__free_pages(page, TEST_FREE_ORDER);
	return zone;
}

static void prezero_isolate_test(struct kunit *test)
{
	unsigned int order, tries;

	for (tries = 0; tries < TEST_TRIES; tries++) {
		struct zone *zone = prezero_test_free(test);
		struct page *page;

		page = prezero_isolate_block(zone, TEST_ORDER, 0, &order);
		if (!page)
			continue;
		KUNIT_EXPECT_FALSE(test, is_free_buddy_page(page));
		if (order > pageblock_order + 1) {
			prezero_putback_block(zone, page, order);
			kunit_skip(test, "blocks are larger than two pageblocks");
		}
		if (prezero_test_halves(zone, page, order))
			break;
	}
	KUNIT_EXPECT_LT(test, tries, TEST_TRIES);
}

/*
 * Return: pages without a mark in a list of zeroed blocks, as far as there is time
 * to look at them, or blocks in the wrong list
 */
static unsigned long prezero_test_list(struct list_head *list, unsigned int order,
				       bool zeroed, unsigned long *nr)
{
	unsigned long wrong = 0;
	struct page *page;

	list_for_each_entry(page, list, buddy_list) {
		wrong += PageZeroedBlock(page) != zeroed;
		if (zeroed && *nr << order < TEST_LIST_PAGES)
			for (int i = 0; i < BIT(order); i++)
				wrong += !PageZeroed(page + i);
		(*nr)++;
	}
	return wrong;
}

/*
 * Whatever merged, split, stole, isolated or offlined blocks until now: each is in
 * the list where it belongs. It can be run again at any time, through debugfs.
 */
static void prezero_all_lists_test(struct kunit *test)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		for (int order = 0; order < NR_PAGE_ORDERS; order++) {
			struct free_area *area = &zone->free_area[order];
			unsigned long nr[2] = {}, wrong = 0, nr_zeroed, nr_free;

			scoped_guard(spinlock_irqsave, &zone->lock) {
				for (int i = 0; i < NR_FREE_LISTS; i++) {
					bool zeroed = i >= MIGRATE_TYPES;

					wrong += prezero_test_list(&area->free_list[i], order,
								   zeroed, &nr[zeroed]);
				}
				nr_zeroed = area->nr_zeroed;
				nr_free = area->nr_free;
			}
			KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "%s, order %d", zone->name, order);
			KUNIT_EXPECT_EQ_MSG(test, nr[1], nr_zeroed, "%s, order %d",
					    zone->name, order);
			KUNIT_EXPECT_EQ_MSG(test, nr[0] + nr[1], nr_free, "%s, order %d",
					    zone->name, order);
		}
	}
}

/* The pages of hugetlb pools that are zeroed come first, and are as many as are counted. */
static void prezero_pools_test(struct kunit *test)
{
	int nid;

	for_each_online_node(nid)
		KUNIT_EXPECT_EQ_MSG(test, hugetlb_prezero_wrong(nid), 0, "node %d", nid);
}

/* Marks outlive who made them, so they are not made where they never were. */
static int prezero_test_used(struct kunit *test)
{
	if (!prezero_used())
		kunit_skip(test, "prezero was never on");
	return 0;
}

/* With verify the marks on pages that hold dirt would be found out. */
static int prezero_test_init(struct kunit *test)
{
	prezero_test_used(test);
	if (READ_ONCE(prezero_verify))
		kunit_skip(test, "prezero.verify is on");
	return 0;
}

static struct kunit_case prezero_test_cases[] = {
	KUNIT_CASE(prezero_take_mixed_test),
	KUNIT_CASE(prezero_take_any_test),
	KUNIT_CASE(prezero_take_block_test),
	KUNIT_CASE(prezero_merge_test),
	KUNIT_CASE(prezero_list_test),
	{}
};

static struct kunit_case prezero_free_test_cases[] = {
	KUNIT_CASE(prezero_isolate_test),
	KUNIT_CASE(prezero_all_lists_test),
	KUNIT_CASE(prezero_pools_test),
	{}
};

static struct kunit_suite prezero_test_suite = {
	.name = "prezero",
	.init = prezero_test_init,
	.test_cases = prezero_test_cases,
};

/* Of blocks of the page allocator itself, right also with verify. */
static struct kunit_suite prezero_free_test_suite = {
	.name = "prezero_free",
	.init = prezero_test_used,
	.test_cases = prezero_free_test_cases,
};

kunit_test_suites(&prezero_test_suite, &prezero_free_test_suite);
