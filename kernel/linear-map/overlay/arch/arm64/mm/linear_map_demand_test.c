// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the linear map on demand. Part of linear_map_demand.c, whose static
 * functions they call on tables of their own.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/set_memory.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

/* A block becomes what boot would have mapped by pages. */
static void linear_map_split_test(struct kunit *test)
{
	pgprot_t prot = pgprot_tagged(PAGE_KERNEL);
	struct page *table = alloc_page(GFP_KERNEL), *memory;
	pmd_t *pmdp = kunit_kzalloc(test, sizeof(*pmdp), GFP_KERNEL);
	unsigned long pfn;
	pte_t *ptep;

	KUNIT_ASSERT_NOT_NULL(test, pmdp);
	KUNIT_ASSERT_NOT_NULL(test, table);
	memory = alloc_pages(GFP_KERNEL | __GFP_NOWARN, PMD_SHIFT - PAGE_SHIFT);
	if (!memory) {
		__free_page(table);
		kunit_skip(test, "no memory");
	}
	pfn = page_to_pfn(memory);
	ptep = page_address(table);
	WRITE_ONCE(*pmdp, pfn_pmd(pfn, mk_pmd_sect_prot(prot)));
	demand_split(pmdp, ptep, page_to_phys(table), (unsigned long)page_address(memory));
	KUNIT_EXPECT_TRUE(test, pmd_table(*pmdp));
	KUNIT_EXPECT_EQ(test, pmd_page_paddr(*pmdp), page_to_phys(table));
	for (int i = 0; i < PTRS_PER_PTE; i++) {
		KUNIT_EXPECT_EQ(test, pte_val(ptep[i]), pte_val(pfn_pte(pfn + i, prot)));
		if (pte_val(ptep[i]) != pte_val(pfn_pte(pfn + i, prot)))
			break;
	}
	/* A second time it is left alone. */
	WRITE_ONCE(ptep[0], __pte(0));
	demand_split(pmdp, ptep, page_to_phys(table), (unsigned long)page_address(memory));
	KUNIT_EXPECT_EQ(test, pte_val(ptep[0]), 0);
	__free_pages(memory, PMD_SHIFT - PAGE_SHIFT);
	__free_page(table);
}

#define RACERS	4
#define BLOCKS	64

struct linear_map_race {
	struct completion begin;
	struct completion done;
	atomic_t running;
	pmd_t pmds[BLOCKS];
	struct page *tables[BLOCKS];
};

static int linear_map_racer(void *data)
{
	struct linear_map_race *race = data;

	wait_for_completion(&race->begin);
	for (int i = 0; i < BLOCKS; i++) {
		/* Of no memory: nothing but the tables is looked at. */
		demand_split(&race->pmds[i], page_address(race->tables[i]),
			     page_to_phys(race->tables[i]), PAGE_OFFSET);
		WARN_ON(!pmd_table(pmdp_get(&race->pmds[i])));
	}
	if (atomic_dec_and_test(&race->running))
		complete(&race->done);
	return 0;
}

/* Several accept the same blocks: each is replaced once, and all find it replaced. */
static void linear_map_race_test(struct kunit *test)
{
	struct linear_map_race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	pgprot_t prot = pgprot_tagged(PAGE_KERNEL);
	unsigned int nr = 0;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, race);
	init_completion(&race->begin);
	init_completion(&race->done);
	for (i = 0; i < BLOCKS; i++) {
		race->tables[i] = alloc_page(GFP_KERNEL);
		if (!race->tables[i])
			break;
		race->pmds[i] = pfn_pmd(i * PTRS_PER_PTE, mk_pmd_sect_prot(prot));
	}
	atomic_set(&race->running, RACERS);
	for (; i == BLOCKS && nr < RACERS; nr++) {
		if (IS_ERR(kthread_run(linear_map_racer, race, "linear_map/%u", nr)))
			break;
	}
	KUNIT_EXPECT_EQ(test, nr, RACERS);
	if (nr && atomic_sub_and_test(RACERS - nr, &race->running))
		complete(&race->done);
	complete_all(&race->begin);
	if (nr)
		wait_for_completion(&race->done);
	while (i--) {
		pte_t *ptep = page_address(race->tables[i]);

		if (nr) {
			KUNIT_EXPECT_EQ(test, pmd_page_paddr(race->pmds[i]),
					page_to_phys(race->tables[i]));
			KUNIT_EXPECT_EQ(test, pte_pfn(ptep[PTRS_PER_PTE - 1]),
					(i + 1) * PTRS_PER_PTE - 1);
		}
		__free_page(race->tables[i]);
	}
}

/* What is allocated is mapped by pages, so that the permissions of each can change. */
static void linear_map_allocated_test(struct kunit *test)
{
	unsigned int order = PMD_SHIFT - PAGE_SHIFT;
	struct page *page, *next;
	LIST_HEAD(pages);

	if (!nr_ranges)
		kunit_skip(test, "the linear map has no blocks that are to be replaced");
	for (unsigned long size = 0; size < SZ_128M; size += PMD_SIZE) {
		page = alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY, order);
		if (!page)
			break;
		list_add(&page->lru, &pages);
		KUNIT_EXPECT_FALSE(test, range_contains_unaccepted_memory(page_to_phys(page),
									  PMD_SIZE));
		next = page + (size >> PMD_SHIFT) % (1U << order);
		KUNIT_EXPECT_EQ(test, set_direct_map_invalid_noflush(next), 0);
		KUNIT_EXPECT_FALSE(test, kernel_page_present(next));
		KUNIT_EXPECT_EQ(test, set_direct_map_default_noflush(next), 0);
		KUNIT_EXPECT_TRUE(test, kernel_page_present(next));
	}
	if (list_empty(&pages))
		kunit_skip(test, "no memory");
	list_for_each_entry_safe(page, next, &pages, lru)
		__free_pages(page, order);
}

/* With rodata=full, pages of vmalloc() that become read-only do so in the linear map, too. */
static void linear_map_alias_test(struct kunit *test)
{
	const unsigned int nr = SZ_4M >> PAGE_SHIFT;
	void *area = vmalloc(nr * PAGE_SIZE);

	KUNIT_ASSERT_NOT_NULL(test, area);
	KUNIT_EXPECT_EQ(test, set_memory_ro((unsigned long)area, nr), 0);
	KUNIT_EXPECT_EQ(test, set_memory_rw((unsigned long)area, nr), 0);
	vfree(area);
}

static struct kunit_case linear_map_test_cases[] = {
	KUNIT_CASE(linear_map_split_test),
	KUNIT_CASE(linear_map_race_test),
	KUNIT_CASE(linear_map_allocated_test),
	KUNIT_CASE(linear_map_alias_test),
	{}
};

static struct kunit_suite linear_map_test_suite = {
	.name = "linear_map_demand",
	.test_cases = linear_map_test_cases,
};

kunit_test_suite(linear_map_test_suite);
