// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of how deferred memory is cut into memory blocks and shared out between
 * zones, and of what its parameters take. Part of deferred_mem.c: they run during boot,
 * on its own ranges, and put them back. Nothing is added.
 */
#include <kunit/test.h>
#include <linux/bits.h>

/* Far above all memory. */
#define TEST_BASE	BIT_ULL(45)

static struct deferred_mem_range test_kept[DEFERRED_MEM_RANGES] __initdata;
static unsigned int test_kept_nr __initdata;

static int __init deferred_mem_test_begin(struct kunit *test)
{
	/* Then the ranges are in use. */
	if (deferred_mem_task)
		kunit_skip(test, "mem= hides memory");
	memcpy(test_kept, deferred_mem_ranges, sizeof(test_kept));
	test_kept_nr = deferred_mem_nr_ranges;
	deferred_mem_nr_ranges = 0;
	return 0;
}

static void __init deferred_mem_test_end(struct kunit *test)
{
	if (deferred_mem_task)
		return;
	memcpy(deferred_mem_ranges, test_kept, sizeof(test_kept));
	deferred_mem_nr_ranges = test_kept_nr;
	deferred_mem_kernelcore = (struct deferred_mem_share){ };
	deferred_mem_movablecore = (struct deferred_mem_share){ };
}

static u64 __init test_blocks(u64 nr)
{
	return nr * memory_block_size_bytes();
}

static void __init test_expect_range(struct kunit *test, unsigned int nr, u64 start, u64 end)
{
	struct deferred_mem_range *range = deferred_mem_ranges + nr;

	KUNIT_ASSERT_LT(test, nr, deferred_mem_nr_ranges);
	KUNIT_EXPECT_EQ(test, range->start, start);
	KUNIT_EXPECT_EQ(test, range->end, end);
}

/* What is no whole memory block is left out, and ranges come in order. */
static void __init deferred_mem_round_test(struct kunit *test)
{
	const u64 high = TEST_BASE + test_blocks(8);

	deferred_mem_hide(high + 1, high + test_blocks(3) - 1);
	deferred_mem_hide(TEST_BASE, TEST_BASE + test_blocks(2));
	deferred_mem_hide(TEST_BASE + test_blocks(4) + 1, TEST_BASE + test_blocks(5));
	deferred_mem_round();
	KUNIT_ASSERT_EQ(test, deferred_mem_nr_ranges, 2);
	test_expect_range(test, 0, TEST_BASE, TEST_BASE + test_blocks(2));
	test_expect_range(test, 1, high + test_blocks(1), high + test_blocks(2));
}

/* A reservation takes away the blocks that it touches, and no others. */
static void __init deferred_mem_keep_test(struct kunit *test)
{
	const u64 end = TEST_BASE + test_blocks(8);

	deferred_mem_hide(TEST_BASE, end);
	/* In the middle, at the start, at the end, beside it. */
	deferred_mem_keep(TEST_BASE + test_blocks(3) + 1, TEST_BASE + test_blocks(4));
	deferred_mem_keep(TEST_BASE - 1, TEST_BASE + 1);
	deferred_mem_keep(end - 1, end + 1);
	deferred_mem_keep(end, end + test_blocks(1));
	deferred_mem_round();
	KUNIT_ASSERT_EQ(test, deferred_mem_nr_ranges, 2);
	test_expect_range(test, 0, TEST_BASE + test_blocks(1), TEST_BASE + test_blocks(3));
	test_expect_range(test, 1, TEST_BASE + test_blocks(4), TEST_BASE + test_blocks(7));
}

static void __init deferred_mem_keep_all_test(struct kunit *test)
{
	deferred_mem_hide(TEST_BASE, TEST_BASE + test_blocks(2));
	deferred_mem_keep(TEST_BASE, TEST_BASE + test_blocks(2));
	deferred_mem_round();
	KUNIT_EXPECT_EQ(test, deferred_mem_nr_ranges, 0);
}

/* What there is no room for is missed, and then nobody else adds hidden memory either. */
static void __init deferred_mem_full_test(struct kunit *test)
{
	u64 refused = deferred_mem_refused, start = TEST_BASE;

	deferred_mem_mode = DEFERRED_MEM_KERNEL;
	/* This holds no block, and takes no room. */
	deferred_mem_hide(start + 1, start + MIN_MEMORY_BLOCK_SIZE);
	for (; start < TEST_BASE + test_blocks(2 * DEFERRED_MEM_RANGES); start += test_blocks(2))
		deferred_mem_hide(start, start + test_blocks(1));
	KUNIT_EXPECT_EQ(test, deferred_mem_nr_ranges, DEFERRED_MEM_RANGES);
	KUNIT_EXPECT_EQ(test, deferred_mem_refused, refused);
	KUNIT_EXPECT_TRUE(test, deferred_mem_allows(start, test_blocks(1)));
	deferred_mem_hide(start, start + test_blocks(3));
	KUNIT_EXPECT_EQ(test, deferred_mem_nr_ranges, DEFERRED_MEM_RANGES);
	KUNIT_EXPECT_EQ(test, deferred_mem_refused, refused + test_blocks(3));
	KUNIT_EXPECT_FALSE(test, deferred_mem_allows(start, test_blocks(1)));
	deferred_mem_refused = refused;
	deferred_mem_mode = DEFERRED_MEM_OFF;
}

static void __init deferred_mem_decline_test(struct kunit *test)
{
	deferred_mem_mode = DEFERRED_MEM_KERNEL;
	KUNIT_EXPECT_EQ(test, deferred_mem_limit(SZ_1G, "test"), PHYS_ADDR_MAX);
	KUNIT_EXPECT_EQ(test, deferred_mem_nr_ranges, 0);
	KUNIT_EXPECT_FALSE(test, deferred_mem_wanted());
}

struct test_split {
	struct deferred_mem_share kernelcore, movablecore;
	/* Of ten memory blocks. */
	u64 kernel;
};

#define TEST_PERCENT(v)	{ .value = (v), .percent = true, .given = true }
#define TEST_BYTES(v)	{ .value = (v), .given = true }

static void __init deferred_mem_split_test(struct kunit *test)
{
	const u64 block = memory_block_size_bytes();
	const struct test_split splits[] = {
		{ .kernel = 10 },
		{ .kernelcore = TEST_PERCENT(40), .kernel = 4 },
		{ .kernelcore = TEST_PERCENT(0), .kernel = 0 },
		{ .movablecore = TEST_PERCENT(100), .kernel = 0 },
		{ .movablecore = TEST_BYTES(3 * block), .kernel = 7 },
		/* Rounded to whole blocks of normal memory. */
		{ .kernelcore = TEST_BYTES(1), .kernel = 1 },
		{ .movablecore = TEST_BYTES(1), .kernel = 10 },
		/* What neither asks for is normal. */
		{ .kernelcore = TEST_BYTES(2 * block), .movablecore = TEST_BYTES(3 * block),
		  .kernel = 7 },
		/* Too much: kernelcore comes first. */
		{ .kernelcore = TEST_BYTES(8 * block), .movablecore = TEST_BYTES(8 * block),
		  .kernel = 8 },
		{ .kernelcore = TEST_BYTES(99 * block), .kernel = 10 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(splits); i++) {
		deferred_mem_kernelcore = splits[i].kernelcore;
		deferred_mem_movablecore = splits[i].movablecore;
		KUNIT_EXPECT_EQ_MSG(test, deferred_mem_kernel_bytes(test_blocks(10)),
				    test_blocks(splits[i].kernel), "split %u", i);
	}
}

static void __init deferred_mem_mode_test(struct kunit *test)
{
	static const struct {
		const char *value;
		int mode;
	} modes[] = {
		{ "off", DEFERRED_MEM_OFF },
		{ "kernel", DEFERRED_MEM_KERNEL },
		{ "user", DEFERRED_MEM_USER },
		{ "auto", DEFERRED_MEM_AUTO },
		{ "now", -EINVAL },
		{ "on", -EINVAL },
		{ "", -EINVAL },
		{ NULL, -EINVAL },
		{ "kern", -EINVAL },
		{ "kernels", -EINVAL },
		{ "Kernel", -EINVAL },
		{ "1", -EINVAL },
	};

	for (int i = 0; i < ARRAY_SIZE(modes); i++)
		KUNIT_EXPECT_EQ_MSG(test, deferred_mem_mode_parse(modes[i].value),
				    modes[i].mode, "deferred_mem.mode=%s", modes[i].value);
}

/* What is neither a size nor a share changes nothing. */
static void __init deferred_mem_share_test(struct kunit *test)
{
	static const struct {
		const char *value;
		struct deferred_mem_share share;
	} shares[] = {
		{ "5G", TEST_BYTES(5ULL << 30) },
		{ "3m", TEST_BYTES(3ULL << 20) },
		{ "0x1000", TEST_BYTES(4096) },
		{ "0", TEST_BYTES(0) },
		{ "101", TEST_BYTES(101) },
		{ "0%", TEST_PERCENT(0) },
		{ "50%", TEST_PERCENT(50) },
		{ "100%", TEST_PERCENT(100) },
		{ "101%" },
		{ "110%" },
		{ "-1%" },
		{ "-1G" },
		{ "lots" },
		{ "G" },
		{ "" },
		{ NULL },
		{ "%" },
		{ "50%%" },
		{ "50 %" },
		{ "50%G" },
		{ "1G%" },
		{ "1.5G" },
		{ "1GB" },
		{ "1G,50%" },
	};

	for (int i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct deferred_mem_share *wanted = &shares[i].share;
		struct deferred_mem_share share = { };
		int ret = deferred_mem_share_parse(shares[i].value, &share);

		KUNIT_EXPECT_EQ_MSG(test, ret, wanted->given ? 0 : -EINVAL, "%s",
				    shares[i].value);
		KUNIT_EXPECT_EQ_MSG(test, share.given, wanted->given, "%s", shares[i].value);
		KUNIT_EXPECT_EQ_MSG(test, share.percent, wanted->percent, "%s", shares[i].value);
		KUNIT_EXPECT_EQ_MSG(test, share.value, wanted->value, "%s", shares[i].value);
	}
}

/* The longest plan that there can be, read in pieces */
static void __init deferred_mem_plan_test(struct kunit *test)
{
	const size_t size = 2 * DEFERRED_MEM_PLAN_LINE * DEFERRED_MEM_RANGES;
	char *buf = kunit_kzalloc(test, size + 1, GFP_KERNEL);
	size_t lines = 0, total = 0;
	ssize_t got;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	if (deferred_mem_nr_ranges)
		kunit_skip(test, "there is memory to add");
	for (u64 i = 0; i < DEFERRED_MEM_RANGES; i++) {
		deferred_mem_ranges[i] = (struct deferred_mem_range){
			.start = i << 40, .movable = (i << 40) + SZ_1G, .end = (i << 40) + SZ_2G,
		};
	}
	deferred_mem_nr_ranges = DEFERRED_MEM_RANGES;
	while ((got = plan_read(NULL, NULL, NULL, buf + total, total,
				min(size - total, 1000UL))) > 0)
		total += got;
	deferred_mem_nr_ranges = 0;
	KUNIT_EXPECT_EQ(test, got, 0);
	KUNIT_EXPECT_GT(test, total, PAGE_SIZE);
	for (size_t at = 0; at < total; at++)
		lines += buf[at] == '\n';
	KUNIT_EXPECT_EQ(test, lines, 2 * DEFERRED_MEM_RANGES);
	KUNIT_EXPECT_TRUE(test, strstarts(buf, "0x0-0x3fffffff 0 kernel\n"));
	KUNIT_EXPECT_TRUE(test, strends(buf, "0x7f0040000000-0x7f007fffffff 0 movable\n"));
}

static struct kunit_case __refdata deferred_mem_test_cases[] = {
	KUNIT_CASE(deferred_mem_round_test),
	KUNIT_CASE(deferred_mem_keep_test),
	KUNIT_CASE(deferred_mem_keep_all_test),
	KUNIT_CASE(deferred_mem_full_test),
	KUNIT_CASE(deferred_mem_decline_test),
	KUNIT_CASE(deferred_mem_split_test),
	KUNIT_CASE(deferred_mem_mode_test),
	KUNIT_CASE(deferred_mem_share_test),
	KUNIT_CASE(deferred_mem_plan_test),
	{}
};

static struct kunit_suite __refdata deferred_mem_test_suite = {
	.name = "deferred_mem",
	.init = deferred_mem_test_begin,
	.exit = deferred_mem_test_end,
	.test_cases = deferred_mem_test_cases,
};

kunit_test_init_section_suite(deferred_mem_test_suite);
