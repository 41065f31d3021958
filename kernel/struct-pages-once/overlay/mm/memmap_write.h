/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Struct pages written once: what early boot and memory hotplug call.
 */
#ifndef __MM_MEMMAP_WRITE_H
#define __MM_MEMMAP_WRITE_H

#include <linux/init.h>
#include <linux/mmzone.h>

/**
 * enum memmap_page_kind - what struct pages are written as
 * @MEMMAP_PAGE_USED: allocated by memblock, or about to be freed one by one
 * @MEMMAP_PAGE_RESERVED: reserved
 * @MEMMAP_PAGE_OFFLINE: added, and not online yet
 * @MEMMAP_PAGE_FREE: free, as the buddy allocator keeps them
 */
enum memmap_page_kind {
	MEMMAP_PAGE_USED,
	MEMMAP_PAGE_RESERVED,
	MEMMAP_PAGE_OFFLINE,
	MEMMAP_PAGE_FREE,
};

void __meminit memmap_write(struct zone *zone, unsigned long pfn,
			    unsigned long nr_pages, enum memmap_page_kind kind);
void __meminit memmap_write_run(struct zone *zone, unsigned long pfn,
				unsigned long nr_pages, enum meminit_context context);
unsigned long __init memmap_write_pageblock(int nid, unsigned long pfn, unsigned long end_pfn,
					    enum memmap_page_kind kind);

/**
 * memmap_write_pages - how many struct pages to write in one go
 * @zone: their zone
 * @pfn: the first pfn
 * @end_pfn: end of the range that is being initialised
 *
 * Context: any.
 * Return: the pages of a pageblock, or 1.
 */
static __always_inline unsigned long
memmap_write_pages(struct zone *zone, unsigned long pfn, unsigned long end_pfn)
{
	if (!IS_ENABLED(CONFIG_MEMMAP_WRITE_ONCE) || !pageblock_aligned(pfn) ||
	    end_pfn - pfn < pageblock_nr_pages || zone_is_zone_device(zone))
		return 1;
	return pageblock_nr_pages;
}

#endif /* __MM_MEMMAP_WRITE_H */
