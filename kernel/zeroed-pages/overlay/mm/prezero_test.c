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

/* One page, with and without a mark, for who wants zeroes and who does not */
static void prezero_take_one_test(struct kunit *test)
{
	for (int i = 0; i < 4; i++) {
		bool marked = i & 1, init = i & 2;
		struct page *page = prezero_test_pages(test);

		prezero_test_mark(page, marked);
		prezero_take(page, 0, init);
		prezero_test_done(test, page, init && !marked ? ~1UL : ~0UL);
	}
}

/* Once free pages are lent to a hypervisor no mark counts. */
static void prezero_distrust_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test);

	prezero_test_mark(page, 0xff);
	__prezero_take(page, TEST_ORDER, true, false);
	prezero_test_done(test, page, 0);
}

/* The first page of a part speaks for the part only if all of the block was zeroed. */
static void prezero_split_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test), *half = page + TEST_PAGES / 2;

	prezero_test_mark(page, 0xff);
	unmark_block_as(half, page);
	KUNIT_EXPECT_TRUE(test, is_zeroed_block(half));
	unmark_zeroed_block(page);
	unmark_block_as(half, page);
	KUNIT_EXPECT_FALSE(test, is_zeroed_block(half));
	KUNIT_EXPECT_TRUE(test, PageZeroed(half + 1));
	prezero_take(page, TEST_ORDER, true);
	prezero_test_done(test, page, 0xee);
}

/* Who wants zeroes looks at both ends of a CPU's list, and takes what there is. */
static void prezero_pcp_test(struct kunit *test)
{
	struct page *page = prezero_test_pages(test);
	LIST_HEAD(list);

	for (int i = 0; i < 3; i++)
		list_add_tail(&page[i].pcp_list, &list);
	KUNIT_EXPECT_PTR_EQ(test, prezero_pcp_page(&list, true), page);
	KUNIT_EXPECT_PTR_EQ(test, prezero_pcp_page(&list, false), page);
	SetPageZeroed(page + 2);
	KUNIT_EXPECT_PTR_EQ(test, prezero_pcp_page(&list, true), page + 2);
	KUNIT_EXPECT_PTR_EQ(test, prezero_pcp_page(&list, false), page);
	SetPageZeroed(page);
	KUNIT_EXPECT_PTR_EQ(test, prezero_pcp_page(&list, true), page);
	prezero_take(page, TEST_ORDER, true);
	for (int i = 0; i < 3; i++)
		list_del_init(&page[i].pcp_list);
	prezero_test_done(test, page, 0x05);
}

/*
 * A block in two halves, of which one is zeroed, becomes one that is not, with marks
 * on all but its first page.
 * Return: does it, or did somebody else take or clear it meanwhile?
 */
static bool prezero_test_halves(struct zone *zone, struct page *page, unsigned int order)
{
	unsigned int half = BIT(order - 1), kept = 0, added = 0;
	bool alone;

	debug_pagealloc_map_pages(page, half);
	for (int i = 0; i < half; i++) {
		ClearPageZeroed(page + half + i);
		clear_page(page_address(page + i));
		SetPageZeroed(page + i);
	}
	debug_pagealloc_unmap_pages(page, half);

	prezero_putback_block(zone, page, order - 1);
	alone = PageZeroed(page);
	prezero_putback_block(zone, page + half, order - 1);

	guard(spinlock_irqsave)(&zone->lock);
	for (int i = 0; i < half; i++) {
		kept += PageZeroed(page + i);
		added += PageZeroed(page + half + i);
	}
	return alone && !PageZeroed(page) && kept == half - 1 && !added;
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
 * Count the zeroed blocks of a free list, and their pages that are not marked, as far
 * as there is time to look at them.
 */
static void prezero_test_list(struct list_head *list, unsigned int order,
			      unsigned long *nr, unsigned long *unmarked)
{
	struct page *page;

	list_for_each_entry(page, list, buddy_list) {
		if (!PageZeroed(page))
			continue;
		if (*nr << order < TEST_LIST_PAGES)
			for (int i = 0; i < BIT(order); i++)
				*unmarked += !PageZeroed(page + i);
		(*nr)++;
	}
}

/*
 * Whatever merged, split, stole, isolated or offlined blocks until now: of zeroed
 * ones all pages are marked, and they are as many as are counted. It can be run
 * again at any time, through debugfs.
 */
static void prezero_all_lists_test(struct kunit *test)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		for (int order = 0; order < NR_PAGE_ORDERS; order++) {
			struct free_area *area = &zone->free_area[order];
			unsigned long nr = 0, unmarked = 0, nr_zeroed;

			scoped_guard(spinlock_irqsave, &zone->lock) {
				for (int mt = 0; mt < MIGRATE_TYPES; mt++)
					prezero_test_list(&area->free_list[mt], order, &nr,
							  &unmarked);
				nr_zeroed = area->nr_zeroed;
			}
			KUNIT_EXPECT_EQ_MSG(test, unmarked, 0, "%s, order %d", zone->name, order);
			KUNIT_EXPECT_EQ_MSG(test, nr, nr_zeroed, "%s, order %d",
					    zone->name, order);
		}
	}
}

/* The pages of hugetlb pools that are zeroed come first, and are as many as are counted. */
static void prezero_pools_test(struct kunit *test)
{
	int nid;

	for_each_online_node(nid)
		KUNIT_EXPECT_EQ_MSG(test, IS_ENABLED(CONFIG_HUGETLBFS) ?
				    hugetlb_prezero_wrong(nid) : 0, 0, "node %d", nid);
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
	KUNIT_CASE(prezero_take_one_test),
	KUNIT_CASE(prezero_distrust_test),
	KUNIT_CASE(prezero_split_test),
	KUNIT_CASE(prezero_pcp_test),
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
