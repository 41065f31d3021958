// SPDX-License-Identifier: GPL-2.0-only
/*
 * Struct pages written once.
 *
 * deferred_init_write() makes one struct page and copies it to all that are alike.
 * Here early boot and memory hotplug do the same with whole pageblocks, whatever
 * deferred_init= says: those of memory in use, of reserved memory, of free memory
 * that boot waits for, and of memory that is added.
 */
#include <linux/kexec_handover.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>

#include "deferred_init.h"
#include "deferred_write.h"
#include "internal.h"
#include "mm_init.h"
#include "page_alloc.h"

/**
 * deferred_write_run - write struct pages when memory is found or added
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 * @context: how they get into the buddy allocator
 *
 * Context: boot, or memory hotplug.
 */
void __meminit deferred_write_run(struct zone *zone, unsigned long pfn,
				  unsigned long nr_pages, enum meminit_context context)
{
	static const enum deferred_page_kind kinds[] = {
		[MEMINIT_EARLY]		= DEFERRED_PAGE_USED,
		[MEMINIT_HOTPLUG]	= DEFERRED_PAGE_OFFLINE,
		[MEMINIT_DEFERRED]	= DEFERRED_PAGE_FREE,
	};

	deferred_init_write(zone, pfn, nr_pages, kinds[context]);
}

/**
 * deferred_write_reserved - write the struct pages of a reserved pageblock
 * @nid: their node
 * @pfn: the first pfn, of a section of boot
 * @end_pfn: end of what is reserved
 *
 * Context: boot, before memblock hands memory over.
 * Return: how many were written; 0 if that of @pfn is left to the caller.
 */
unsigned long __init deferred_write_reserved(int nid, unsigned long pfn,
					     unsigned long end_pfn)
{
	const unsigned long last_pfn = pfn + pageblock_nr_pages - 1;
	enum migratetype migratetype;
	struct zone *zone, *end;

	if (!pageblock_aligned(pfn) || last_pfn >= end_pfn || !node_online(nid) ||
	    pfn < NODE_DATA(nid)->first_deferred_pfn)
		return 0;

	zone = NODE_DATA(nid)->node_zones;
	end = zone + MAX_NR_ZONES;
	while (zone < end && !zone_spans_pfn(zone, pfn))
		zone++;
	if (zone == end || !zone_spans_pfn(zone, last_pfn))
		return 0;

	deferred_init_write(zone, pfn, pageblock_nr_pages, DEFERRED_PAGE_RESERVED);
	migratetype = kho_scratch_migratetype(pfn, MIGRATE_MOVABLE);
	init_pageblock_migratetype(pfn_to_page(pfn), migratetype, false);
	return pageblock_nr_pages;
}

/**
 * deferred_write_free - write struct pages that boot waits for, as those of free pages
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 *
 * Context: boot.
 * Return: true.
 */
bool __init deferred_write_free(struct zone *zone, unsigned long pfn, unsigned long nr_pages)
{
	deferred_init_write(zone, pfn, nr_pages, DEFERRED_PAGE_FREE);
	return true;
}

/**
 * deferred_write_release - hand a block of fresh struct pages to the buddy allocator
 * @page: first page of a block of the largest order, written by deferred_write_free()
 *
 * Context: boot, with memory that is not in managed_pages yet.
 * Return: true.
 */
bool __init deferred_write_release(struct page *page)
{
	atomic_long_add(MAX_ORDER_NR_PAGES, &page_zone(page)->managed_pages);
	__free_pages_core(page, MAX_PAGE_ORDER, MEMINIT_DEFERRED);
	return true;
}
