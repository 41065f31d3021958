/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the page allocator does about free pages that are zeroed.
 *
 * Each free page that holds zeroes is marked (PageZeroed), so that blocks of
 * marked and other pages can be merged and split without losing what is known
 * of either. A free block all of whose pages are marked is a zeroed block: its
 * first page says so (PageZeroedBlock) and it is kept in a list of its own. So
 * a request that needs zeroes, and one that does not, finds what suits it in
 * constant time, among blocks of one order and migratetype.
 *
 * Both marks stay on a page in the per-CPU lists. prezero_take() takes them off
 * when the page is allocated.
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

#ifdef CONFIG_PREZERO

extern unsigned int prezero_order;
extern bool prezero_verify;
extern bool prezero_hugetlb;

void prezero_take(struct page *page, unsigned int order, bool init);
void __prezero_notify_free(int nid);
void prezero_count(int nid, enum vm_event_item item, unsigned long n);
bool prezero_check(const void *addr, int nid);
void prezero_clear_page(void *addr);
int prezero_prepare(void);
bool prezero_drain_idle(struct zone *zone);
struct page *prezero_isolate_block(struct zone *zone, unsigned int min_order,
				   unsigned long reserve, unsigned int *order);
void prezero_putback_block(struct zone *zone, struct page *page,
			   unsigned int order);

/* Does somebody want the CPU, even if a kernel that is preempted lazily waits? */
static inline bool prezero_cpu_wanted(void)
{
	return need_resched() || test_thread_flag(TIF_NEED_RESCHED_LAZY);
}

/* Are all pages of the free block that begins at @page zeroed? */
static inline bool is_zeroed_block(const struct page *page)
{
	return prezero_used() && PageZeroedBlock(page);
}

/*
 * A block of @order that is in no free list is about to become part of a block:
 * take the mark off its first page.
 * Return: were all of its pages zeroed?
 */
static inline bool take_zeroed_block(struct page *page, unsigned int order)
{
	if (!prezero_used())
		return false;
	/* A page from a block of both kinds has nothing but its own mark. */
	if (!PageZeroedBlock(page))
		return !order && PageZeroed(page);
	ClearPageZeroedBlock(page);
	return true;
}

/* The flags that a page must not have while it is free. */
static inline unsigned long page_flags_check_free(void)
{
	return PAGE_FLAGS_CHECK_AT_PREP & ~(prezero_used() ? __PG_ZEROED : 0);
}

/* The free pages of a zone, without those that are not initialised yet. */
static inline unsigned long prezero_zone_free(struct zone *zone)
{
	unsigned long free = zone_page_state(zone, NR_FREE_PAGES);

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND
	free -= min(free, zone_page_state(zone, NR_DEFERRED));
#endif
	return free;
}

/* Which of the free lists of its order a block belongs in. */
static inline int free_list_index(const struct page *page, int migratetype)
{
	return migratetype + (is_zeroed_block(page) ? MIGRATE_TYPES : 0);
}

/* The free list to take from: that of @zeroed blocks or not, or what there is */
static inline struct list_head *
free_area_list(struct free_area *area, int migratetype, bool zeroed)
{
	struct list_head *plain = &area->free_list[migratetype];

	if (!prezero_used())
		return plain;
	if (zeroed)
		return list_empty(plain + MIGRATE_TYPES) ? plain :
							   plain + MIGRATE_TYPES;
	return list_empty(plain) ? plain + MIGRATE_TYPES : plain;
}

/* The free list with more blocks, for those who look for any of them. */
static inline struct list_head *
free_area_longer_list(struct free_area *area, int migratetype)
{
	return free_area_list(area, migratetype,
			      area->nr_zeroed > area->nr_free / 2);
}

/* A block goes into a free list (@n is 1) or leaves it (-1); zone lock held. */
static inline void account_zeroed_block(struct zone *zone, const struct page *page,
					unsigned int order, int n)
{
	if (is_zeroed_block(page))
		zone->free_area[order].nr_zeroed += n;
}

/* Pageblock statistics: add the zeroed blocks, false if there are @max or less */
static inline bool count_zeroed_blocks(struct free_area *area, int migratetype,
				       unsigned long *nr, unsigned long max)
{
	struct list_head *pos;

	list_for_each(pos, &area->free_list[MIGRATE_TYPES + migratetype])
		if (++*nr >= max)
			return true;
	return false;
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

/* The contents of a free block in nobody else's hands may have changed. */
static inline void prezero_forget(struct page *page, unsigned int order)
{
	if (!prezero_used())
		return;
	for (unsigned int i = 0; i < 1U << order; i++) {
		ClearPageZeroed(page + i);
		ClearPageZeroedBlock(page + i);
	}
}

/* A block that is not zeroed became free, here or on the lists of a CPU. */
static inline void prezero_notify_free(struct zone *zone, unsigned int order)
{
	if (prezero_used() && order >= READ_ONCE(prezero_order))
		__prezero_notify_free(zone_to_nid(zone));
}

#else

static inline void prezero_take(struct page *page, unsigned int order, bool init)
{
}

static inline bool is_zeroed_block(const struct page *page)
{
	return false;
}

static inline bool take_zeroed_block(struct page *page, unsigned int order)
{
	return false;
}

static inline unsigned long page_flags_check_free(void)
{
	return PAGE_FLAGS_CHECK_AT_PREP;
}

static inline int free_list_index(const struct page *page, int migratetype)
{
	return migratetype;
}

static inline struct list_head *
free_area_list(struct free_area *area, int migratetype, bool zeroed)
{
	return &area->free_list[migratetype];
}

static inline struct list_head *
free_area_longer_list(struct free_area *area, int migratetype)
{
	return &area->free_list[migratetype];
}

static inline void account_zeroed_block(struct zone *zone, const struct page *page,
					unsigned int order, int n)
{
}

static inline bool count_zeroed_blocks(struct free_area *area, int migratetype,
				       unsigned long *nr, unsigned long max)
{
	return false;
}

static inline bool prezero_wanted(gfp_t gfp)
{
	return false;
}

static inline struct page *prezero_pcp_page(struct list_head *list, bool zeroed)
{
	return list_first_entry(list, struct page, pcp_list);
}

static inline void prezero_forget(struct page *page, unsigned int order)
{
}

static inline void prezero_notify_free(struct zone *zone, unsigned int order)
{
}

#endif /* CONFIG_PREZERO */

#endif /* _MM_PREZERO_H */
