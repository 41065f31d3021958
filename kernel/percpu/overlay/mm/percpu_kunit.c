// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what the per-CPU allocator hands out.
 */
#include <kunit/test.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/string.h>

#define TEST_AREAS	96
#define TEST_STEPS	512
#define TEST_SIZE	1024
#define TEST_DIRT	0xa5

struct percpu_test_area {
	void __percpu	*ptr;
	size_t		size;
};

static void percpu_test_fill(struct kunit *test, const struct percpu_test_area *area)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		void *ptr = per_cpu_ptr(area->ptr, cpu);

		KUNIT_EXPECT_NULL_MSG(test, memchr_inv(ptr, 0, area->size), "CPU %u", cpu);
		memset(ptr, TEST_DIRT, area->size);
	}
}

/* An area is clear on each CPU, also where there was another in its place or in a part of it. */
static void percpu_area_is_clear_test(struct kunit *test)
{
	struct percpu_test_area *areas;
	struct rnd_state rnd;
	unsigned int i;

	areas = kunit_kcalloc(test, TEST_AREAS, sizeof(*areas), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, areas);
	prandom_seed_state(&rnd, 1);
	for (i = 0; i < TEST_STEPS; i++) {
		struct percpu_test_area *area = &areas[prandom_u32_state(&rnd) % TEST_AREAS];
		bool atomic = prandom_u32_state(&rnd) % 4 == 0;

		if (area->ptr) {
			free_percpu(area->ptr);
			area->ptr = NULL;
			continue;
		}
		area->size = 1 + prandom_u32_state(&rnd) % TEST_SIZE;
		area->ptr = __alloc_percpu_gfp(area->size, 1, atomic ? GFP_NOWAIT : GFP_KERNEL);
		if (area->ptr)
			percpu_test_fill(test, area);
		else
			KUNIT_EXPECT_TRUE(test, atomic);
	}
	for (i = 0; i < TEST_AREAS; i++)
		free_percpu(areas[i].ptr);
}

static struct kunit_case percpu_test_cases[] = {
	KUNIT_CASE(percpu_area_is_clear_test),
	{}
};

static struct kunit_suite percpu_test_suite = {
	.name = "percpu",
	.test_cases = percpu_test_cases,
};

kunit_test_suite(percpu_test_suite);
