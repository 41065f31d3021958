// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what passes for movable when a pageblock is to be isolated.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/sizes.h>
#include <linux/slab.h>

/* Objects so small that their slab is one page, which is not compound. */
#define TEST_SIZE	SZ_32

static void page_isolation_slab_test(struct kunit *test)
{
	unsigned long step = 1;
	struct page *page;
	void *object;

	object = kunit_kmalloc(test, TEST_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, object);
	page = virt_to_page(object);
	if (!PageSlab(page) || PageCompound(page))
		kunit_skip(test, "no slab of one page");

	KUNIT_EXPECT_TRUE(test, page_is_unmovable(page_zone(page), page,
						  PB_ISOLATE_MODE_MEM_OFFLINE, &step));
	KUNIT_EXPECT_EQ(test, step, 1);
}

static struct kunit_case page_isolation_test_cases[] = {
	KUNIT_CASE(page_isolation_slab_test),
	{}
};

static struct kunit_suite page_isolation_test_suite = {
	.name = "page_isolation",
	.test_cases = page_isolation_test_cases,
};

kunit_test_suite(page_isolation_test_suite);
