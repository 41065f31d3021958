/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the page allocator does about free pages that are zeroed.
 *
 * Each free page that holds zeroes is marked (PageZeroed), so that blocks of
 * marked and other pages can be merged and split without losing what is known of
 * them. Only the first page of a block speaks for all of the block: its mark goes
 * if the block is merged with one that is not zeroed, or is a part of such a one.
 * Zeroed blocks are at the tail of the free list that they would be in anyway.
 *
 * Marks stay on pages in the per-CPU lists. prezero_take() takes them off, and
 * looks at each page, when pages are allocated.
 */
#ifndef _MM_PREZERO_H
#define _MM_PREZERO_H

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/page-flags.h>
#include <linux/prezero.h>
#include <linux/sched.h>
#include <linux/vmstat.h>

extern bool prezero_verify;

void prezero_take(struct page *page, unsigned int order, bool init);
void __prezero_notify_free(int nid);
struct hugetlb_zeroing *prezero_hugetlb(int nid);
bool prezero_check(const void *addr);
struct page *prezero_isolate_block(struct zone *zone, unsigned int min_order,
				   unsigned long reserve, unsigned int *order);
void prezero_putback_block(struct zone *zone, struct page *page,
			   unsigned int order);

/* Does somebody want the CPU, even if a kernel that is preempted lazily waits? */
static inline bool prezero_cpu_wanted(void)
{
	return need_resched() || test_thread_flag(TIF_NEED_RESCHED_LAZY);
}

/*
 * Are all pages of the free block that begins at @page zeroed? Not by PageZeroed(),
 * which reads the flags first and then tests them: each free asks three times.
 */
static inline bool is_zeroed_block(const struct page *page)
{
	return prezero_used() && page->flags.f & __PG_ZEROED;
}

/* Not all pages of the block that begins at @page are. */
static inline void unmark_zeroed_block(struct page *page)
{
	if (is_zeroed_block(page))
		ClearPageZeroed(page);
}

/*
 * A page that begins to speak for a block loses its mark if @other has none: the
 * first page of the block that it was split from, or of the half behind it.
 */
static inline void unmark_block_as(struct page *page, const struct page *other)
{
	if (is_zeroed_block(page) && !PageZeroed(other))
		ClearPageZeroed(page);
}

/*
 * A block goes into a free list (@n is 1) or leaves it (-1); zone lock held.
 * Return: whether it is zeroed.
 */
static inline bool account_zeroed_block(struct free_area *area,
					const struct page *page, int n)
{
#ifdef CONFIG_PREZERO
	if (is_zeroed_block(page)) {
		area->nr_zeroed += n;
		return true;
	}
#endif
	return false;
}

/* The flags that a page must not have while it is free. */
static inline unsigned long page_flags_check_free(void)
{
	return PAGE_FLAGS_CHECK_AT_PREP & ~(prezero_used() ? __PG_ZEROED : 0);
}

/* Does who asks with @gfp want zeroes, and may there be pages that are? */
static inline bool prezero_wanted(gfp_t gfp)
{
	return prezero_used() && want_init_on_alloc(gfp);
}

/*
 * A page from a per-CPU list that is not empty. Pages are refilled at one end
 * and freed at the other, so that a look at both is enough to find what suits.
 */
static inline struct page *prezero_pcp_page(struct list_head *list, bool zeroed)
{
	struct page *first = list_first_entry(list, struct page, pcp_list);
	struct page *last;

	if (!prezero_used() || PageZeroed(first) == zeroed)
		return first;
	last = list_last_entry(list, struct page, pcp_list);
	return PageZeroed(last) == zeroed ? last : first;
}

/* A block became free: is there anything to clear? */
static inline void prezero_notify_free(struct zone *zone, const struct page *page,
				       unsigned int order)
{
	if (prezero_used() && order > PAGE_ALLOC_COSTLY_ORDER && !PageZeroed(page))
		__prezero_notify_free(zone_to_nid(zone));
}

#endif /* _MM_PREZERO_H */
