/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Struct pages written once: what early boot and memory hotplug call.
 */
#ifndef __MM_DEFERRED_WRITE_H
#define __MM_DEFERRED_WRITE_H

#include <linux/init.h>
#include <linux/mmzone.h>

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

void __meminit deferred_write_run(struct zone *zone, unsigned long pfn,
				  unsigned long nr_pages, enum meminit_context context);
unsigned long __init deferred_write_reserved(int nid, unsigned long pfn,
					     unsigned long end_pfn);
bool __init deferred_write_free(struct zone *zone, unsigned long pfn, unsigned long nr_pages);
bool __init deferred_write_release(struct page *page);

/**
 * deferred_write_pages - how many struct pages to write in one go
 * @zone: their zone
 * @pfn: the first pfn
 * @end_pfn: end of the range that is being initialised
 *
 * Context: any.
 * Return: the pages of a pageblock, or 1.
 */
static inline unsigned long deferred_write_pages(struct zone *zone, unsigned long pfn,
						 unsigned long end_pfn)
{
	if (!pageblock_aligned(pfn) || end_pfn - pfn < pageblock_nr_pages ||
	    zone_is_zone_device(zone))
		return 1;
	return pageblock_nr_pages;
}

#else

static inline void deferred_write_run(struct zone *zone, unsigned long pfn,
				      unsigned long nr_pages,
				      enum meminit_context context)
{
}

static inline unsigned long deferred_write_reserved(int nid, unsigned long pfn,
						    unsigned long end_pfn)
{
	return 0;
}

static inline bool deferred_write_free(struct zone *zone, unsigned long pfn,
				       unsigned long nr_pages)
{
	return false;
}

static inline bool deferred_write_release(struct page *page)
{
	return false;
}

static inline unsigned long deferred_write_pages(struct zone *zone, unsigned long pfn,
						 unsigned long end_pfn)
{
	return 1;
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* __MM_DEFERRED_WRITE_H */
