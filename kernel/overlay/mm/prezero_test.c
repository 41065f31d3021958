// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of marks on zeroed pages. Part of prezero.c, whose static functions
 * they call on pages of their own.
 */
#include <kunit/test.h>

#define TEST_ORDER	3
#define TEST_PAGES	BIT(TEST_ORDER)
#define TEST_DIRT	0xa5

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

static int prezero_test_begin(struct kunit_suite *suite)
{
	static_branch_inc(&prezero_key);
	return 0;
}

static void prezero_test_end(struct kunit_suite *suite)
{
	static_branch_dec(&prezero_key);
}

/* With verify the marks on pages that hold dirt would be found out. */
static int prezero_test_init(struct kunit *test)
{
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

static struct kunit_suite prezero_test_suite = {
	.name = "prezero",
	.suite_init = prezero_test_begin,
	.suite_exit = prezero_test_end,
	.init = prezero_test_init,
	.test_cases = prezero_test_cases,
};

kunit_test_suite(prezero_test_suite);
