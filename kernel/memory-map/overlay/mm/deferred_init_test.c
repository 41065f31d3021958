// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the block states of the memory map on demand, of its completion,
 * and of what deferred_init= takes. Part of deferred_init.c, whose static functions
 * they call on state of their own, so that no struct page is touched; all but
 * deferred_init_complete, which completes the machine's own.
 */
#include <kunit/test.h>

static struct mem_section_usage *test_usage(struct kunit *test)
{
	struct mem_section_usage *usage = kunit_kzalloc(test, sizeof(*usage), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, usage);
	return usage;
}

static void deferred_claim_test(struct kunit *test)
{
	struct mem_section_deferred *deferred = &test_usage(test)->deferred;

	bitmap_fill(deferred->free, SECTION_BLOCKS);
	KUNIT_EXPECT_EQ(test, deferred_claim(deferred, 0, 0), 0);
	KUNIT_EXPECT_TRUE(test, test_bit(0, deferred->free));
	KUNIT_EXPECT_EQ(test, deferred_claim(deferred, SECTION_BLOCKS - 1, SECTION_BLOCKS),
			SECTION_BLOCKS - 1);
	KUNIT_EXPECT_EQ(test, deferred_claim(deferred, SECTION_BLOCKS - 1, SECTION_BLOCKS),
			SECTION_BLOCKS);
	/* Claims out of order do not hide what lies below them. */
	for (int i = 0; i < SECTION_BLOCKS - 1; i++)
		KUNIT_EXPECT_EQ(test, deferred_claim(deferred, 0, SECTION_BLOCKS), i);
	KUNIT_EXPECT_EQ(test, deferred_claim(deferred, 0, SECTION_BLOCKS), SECTION_BLOCKS);
	/* One that was given back is found again. */
	set_bit(0, deferred->free);
	KUNIT_EXPECT_EQ(test, deferred_claim(deferred, 0, SECTION_BLOCKS), 0);
}

static void deferred_valid_test(struct kunit *test)
{
	struct mem_section_usage *usage = test_usage(test);
	unsigned long pfn = PAGES_PER_SECTION, last = pfn + MAX_ORDER_NR_PAGES - 1;
	unsigned long nr = MAX_ORDER_NR_PAGES / PAGES_PER_SUBSECTION;

	KUNIT_EXPECT_TRUE(test, deferred_usage_pending(usage, pfn));
	KUNIT_EXPECT_TRUE(test, deferred_usage_pending(usage, last));
	deferred_set_valid(usage, pfn);
	KUNIT_EXPECT_FALSE(test, deferred_usage_pending(usage, pfn));
	KUNIT_EXPECT_FALSE(test, deferred_usage_pending(usage, last));
	/* Nothing beside it */
	KUNIT_EXPECT_EQ(test, bitmap_weight(usage->subsection_map, SUBSECTIONS_PER_SECTION), nr);
}

static void deferred_done_test(struct kunit *test)
{
	struct mem_section_usage *usage = test_usage(test);
	struct mem_section *ms = __pfn_to_section(0);
	/* Too large for the stack, and not looked into */
	struct zone *zone = kunit_kzalloc(test, sizeof(*zone), GFP_KERNEL);

	/* Section 0 is never deferred, so that nothing becomes of its mark. */
	if (!early_section(ms))
		kunit_skip(test, "section 0 is not of boot");
	KUNIT_ASSERT_NOT_NULL(test, zone);
	usage->deferred.zone = zone;
	atomic_set(&usage->deferred.nr_left, 2);
	bitmap_set(usage->deferred.left, 0, min(2UL, SECTION_BLOCKS));
	deferred_block_done(usage, 0);
	KUNIT_EXPECT_PTR_EQ(test, usage->deferred.zone, zone);
	KUNIT_EXPECT_FALSE(test, test_bit(0, usage->deferred.left));
	deferred_block_done(usage, (SECTION_BLOCKS - 1) * MAX_ORDER_NR_PAGES);
	KUNIT_EXPECT_NULL(test, usage->deferred.zone);
}

static void deferred_pfn_test(struct kunit *test)
{
	unsigned long first = 16 * PAGES_PER_SECTION, next = first + PAGES_PER_SECTION;

	KUNIT_EXPECT_EQ(test, deferred_block(first), 0);
	KUNIT_EXPECT_EQ(test, deferred_block(next - 1), SECTION_BLOCKS - 1);
	KUNIT_EXPECT_EQ(test, deferred_block_pfn(next - 1, 0), first);
	KUNIT_EXPECT_EQ(test, deferred_block_pfn(first, SECTION_BLOCKS - 1),
			next - MAX_ORDER_NR_PAGES);
	KUNIT_EXPECT_EQ(test, deferred_piece_end(first, next + 1), next);
	KUNIT_EXPECT_EQ(test, deferred_piece_end(next - 1, next + 1), next);
	KUNIT_EXPECT_EQ(test, deferred_piece_end(first, first + 1), first + 1);
	KUNIT_EXPECT_FALSE(test, deferred_init_pending(ULONG_MAX));
	KUNIT_EXPECT_FALSE(test, deferred_init_pending(1UL << MAX_PHYSMEM_BITS >> PAGE_SHIFT));
}

struct claim_test_thread {
	struct mem_section_deferred	*sections;
	unsigned long			claimed;
	struct completion		done;
};

#define TEST_SECTIONS	64

static int claim_test_thread(void *data)
{
	struct claim_test_thread *thread = data;
	struct mem_section_deferred *deferred = thread->sections;

	while (deferred < thread->sections + TEST_SECTIONS) {
		if (deferred_claim(deferred, 0, SECTION_BLOCKS) < SECTION_BLOCKS)
			thread->claimed++;
		else
			deferred++;
		cond_resched();
	}
	complete(&thread->done);
	return 0;
}

static void deferred_claim_race_test(struct kunit *test)
{
	struct mem_section_deferred *sections;
	struct claim_test_thread *threads;
	struct task_struct *task;
	unsigned long total = 0;
	int i;

	sections = kunit_kcalloc(test, TEST_SECTIONS, sizeof(*sections), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sections);
	threads = kunit_kcalloc(test, 4, sizeof(*threads), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, threads);
	for (i = 0; i < TEST_SECTIONS; i++)
		bitmap_fill(sections[i].free, SECTION_BLOCKS);

	for (i = 0; i < 4; i++) {
		threads[i].sections = sections;
		init_completion(&threads[i].done);
		task = kthread_run(claim_test_thread, &threads[i], "deferred_test/%d", i);
		if (IS_ERR(task))
			complete(&threads[i].done);
	}
	for (i = 0; i < 4; i++) {
		wait_for_completion(&threads[i].done);
		total += threads[i].claimed;
	}
	KUNIT_EXPECT_EQ(test, total, TEST_SECTIONS * SECTION_BLOCKS);
}

static struct kunit_case deferred_init_test_cases[] = {
	KUNIT_CASE(deferred_claim_test),
	KUNIT_CASE(deferred_valid_test),
	KUNIT_CASE(deferred_done_test),
	KUNIT_CASE(deferred_pfn_test),
	KUNIT_CASE(deferred_claim_race_test),
	{}
};

static struct kunit_suite deferred_init_test_suite = {
	.name = "deferred_init",
	.test_cases = deferred_init_test_cases,
};

/*
 * Nothing is missing, and nobody looks for it, once all is initialised. That is once
 * only, and not while the kernel boots: a test that is to be run again must not be
 * skipped.
 */
static void deferred_complete_test(struct kunit *test)
{
	struct zone *zone;
	unsigned long nr;

	if (system_state != SYSTEM_RUNNING)
		return;
	KUNIT_ASSERT_TRUE_MSG(test, static_key_enabled(&deferred_init_key),
			      "all is initialised");
	KUNIT_EXPECT_EQ(test, deferred_init_complete(), 0);
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&deferred_init_key));
	for_each_populated_zone(zone)
		KUNIT_EXPECT_EQ(test, zone_page_state(zone, NR_DEFERRED), 0);
	for_each_present_section_nr(0, nr) {
		KUNIT_ASSERT_NULL(test, deferred_usage(section_nr_to_pfn(nr)));
		KUNIT_ASSERT_TRUE(test, early_section(__nr_to_section(nr)));
	}
}

/* A suite of its own, to be run again by itself. */
static struct kunit_case deferred_complete_test_cases[] = {
	KUNIT_CASE(deferred_complete_test),
	{}
};

static struct kunit_suite deferred_complete_test_suite = {
	.name = "deferred_init_complete",
	.test_cases = deferred_complete_test_cases,
};

kunit_test_suites(&deferred_init_test_suite, &deferred_complete_test_suite);

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

static void __init deferred_init_decline_test(struct kunit *test)
{
	enum deferred_init_mode mode = deferred_init_mode;

	deferred_init_mode = DEFERRED_MODE_LAZY;
	deferred_init_decline("a test");
	KUNIT_EXPECT_EQ(test, deferred_init_mode, DEFERRED_MODE_WAIT);
	KUNIT_EXPECT_FALSE(test, deferred_init_wanted());
	deferred_init_mode = mode;
}

static struct kunit_case __refdata deferred_init_param_test_cases[] = {
	KUNIT_CASE(deferred_init_mode_test),
	KUNIT_CASE(deferred_init_decline_test),
	{}
};

static struct kunit_suite __refdata deferred_init_param_test_suite = {
	.name = "deferred_init_param",
	.test_cases = deferred_init_param_test_cases,
};

kunit_test_init_section_suite(deferred_init_param_test_suite);
