/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory map on demand: what the rest of mm/ calls.
 */
#ifndef __MM_DEFERRED_INIT_H
#define __MM_DEFERRED_INIT_H

#include <linux/deferred_init.h>
#include <linux/gfp_types.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/mmzone.h>
#include <linux/vmstat.h>

struct alloc_context;

/* True while blocks of the memory map may be left to initialise. */
DECLARE_STATIC_KEY_FALSE(deferred_init_key);

static inline bool deferred_init_active(void)
{
	return IS_ENABLED(CONFIG_DEFERRED_INIT_ON_DEMAND) &&
	       static_branch_unlikely(&deferred_init_key);
}

void __deferred_init_reserve(struct zone *zone, unsigned int alloc_flags);
bool __deferred_init_grow(struct zone *zone, unsigned int alloc_flags);
bool __deferred_init_wait(gfp_t gfp_mask, const struct alloc_context *ac);
bool __deferred_init_zone_pending(struct zone *zone, unsigned long pfn);
bool deferred_init_claimable(unsigned long pfn);

/**
 * deferred_init_zone_pending - is @pfn free memory of @zone, not initialised?
 * @zone: the zone
 * @pfn: any pfn
 *
 * Context: any, including NMI.
 * Return: as deferred_init_pending().
 */
static inline bool deferred_init_zone_pending(struct zone *zone,
					      unsigned long pfn)
{
	return deferred_init_active() && __deferred_init_zone_pending(zone, pfn);
}

/**
 * deferred_init_zone_pages - pages of a zone that are free but not initialised
 * @zone: the zone
 *
 * They are part of NR_FREE_PAGES, so the buddy allocator holds this many fewer.
 *
 * Context: any.
 * Return: the number of pages, always whole blocks of the largest order.
 */
static inline unsigned long deferred_init_zone_pages(struct zone *zone)
{
	return deferred_init_active() ? zone_page_state(zone, NR_DEFERRED) : 0;
}

/**
 * deferred_init_check - have the next allocation check the reserve of a zone
 * @zone: the zone
 *
 * Called when a pageblock leaves its free lists, and when these have nothing of the
 * migratetype that is asked for.
 *
 * Context: any.
 */
static inline void deferred_init_check(struct zone *zone)
{
	if (deferred_init_active() && !test_bit(ZONE_DEFERRED_CHECK, &zone->flags))
		set_bit(ZONE_DEFERRED_CHECK, &zone->flags);
}

/**
 * deferred_init_reserve - keep a reserve of initialised free pages in a zone
 * @zone: the zone that is about to be allocated from
 * @alloc_flags: ALLOC_* flags of the allocation
 *
 * Called before the allocator looks at a zone, so that it finds whole blocks
 * in the free lists and need not fall back to another migratetype or zone. Nearly
 * all allocations are served from pageblocks that are broken up already, and test
 * no more than a flag.
 *
 * Context: any in which zone->lock may be taken; not called with it held.
 */
static inline void deferred_init_reserve(struct zone *zone, unsigned int alloc_flags)
{
	if (deferred_init_active() && test_bit(ZONE_DEFERRED_CHECK, &zone->flags))
		__deferred_init_reserve(zone, alloc_flags);
}

/**
 * deferred_init_grow - initialise one more block of a zone
 * @zone: the zone in which an allocation found no page
 * @alloc_flags: ALLOC_* flags of the allocation
 *
 * Context: any in which zone->lock may be taken; not called with it held.
 * Return: true if the zone has got a free block of the largest order: try again.
 */
static inline bool deferred_init_grow(struct zone *zone, unsigned int alloc_flags)
{
	return deferred_init_active() && __deferred_init_grow(zone, alloc_flags);
}

/**
 * deferred_init_wait - wait for blocks that others are initialising
 * @gfp_mask: of the allocation
 * @ac: the zones that it tried, all in vain
 *
 * When the last blocks of a zone are claimed but not freed yet, an allocation
 * may find neither a page nor a block to initialise, although there is memory.
 * If it can sleep, it sleeps for a tick.
 *
 * Context: that of the allocation.
 * Return: true if the allocation should try its zones again.
 */
static inline bool deferred_init_wait(gfp_t gfp_mask, const struct alloc_context *ac)
{
	return deferred_init_active() && __deferred_init_wait(gfp_mask, ac);
}

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

void __init deferred_init_setup(void);
void __meminit deferred_init_decline(const char *reason);
bool __init deferred_init_late(void);
void deferred_init_range(unsigned long start_pfn, unsigned long nr_pages);

#else

static inline void deferred_init_setup(void)
{
}

static inline void deferred_init_decline(const char *reason)
{
}

static inline bool deferred_init_late(void)
{
	return false;
}

static inline void deferred_init_range(unsigned long start_pfn,
				       unsigned long nr_pages)
{
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* __MM_DEFERRED_INIT_H */
