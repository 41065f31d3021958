// SPDX-License-Identifier: GPL-2.0-only
/*
 * Struct pages written once.
 *
 * What a struct page will be is known before it is written, and those of a pageblock
 * are alike but for their place: one is made, and copied to all. Early boot and memory
 * hotplug do that with whole pageblocks: those of memory in use, of reserved memory,
 * of free memory that boot waits for, and of memory that is added.
 */
#include <linux/kexec_handover.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/unroll.h>

#include "internal.h"
#include "memmap_write.h"
#include "mm_init.h"
#include "page_alloc.h"

/**
 * memmap_write - write struct pages, each word of them once
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 * @kind: what they are
 *
 * Pages that are all alike but for their place.
 *
 * Context: any; nobody else may know of the struct pages yet.
 */
void __meminit memmap_write(struct zone *zone, unsigned long pfn,
			    unsigned long nr_pages, enum memmap_page_kind kind)
{
	unsigned long words[sizeof(struct page) / sizeof(long)];
	struct page template, *page = pfn_to_page(pfn), *end = page + nr_pages;
	int i;

	__init_single_page(&template, pfn, zone_idx(zone), zone_to_nid(zone));
	switch (kind) {
	case MEMMAP_PAGE_USED:
		break;
	case MEMMAP_PAGE_RESERVED:
		__SetPageReserved(&template);
		break;
	case MEMMAP_PAGE_OFFLINE:
		__SetPageOffline(&template);
		break;
	case MEMMAP_PAGE_FREE:
		set_page_count(&template, 0);
		break;
	}
	memcpy(words, &template, sizeof(words));

	for (; page < end; page++) {
		unrolled_full
		for (i = 0; i < ARRAY_SIZE(words); i++)
			((unsigned long *)page)[i] = words[i];
		INIT_LIST_HEAD(&page->lru);
	}
}

/**
 * memmap_write_run - write struct pages when memory is found or added
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 * @context: how they get into the buddy allocator
 *
 * Context: boot, or memory hotplug.
 */
void __meminit memmap_write_run(struct zone *zone, unsigned long pfn,
				unsigned long nr_pages, enum meminit_context context)
{
	static const enum memmap_page_kind kinds[] = {
		[MEMINIT_EARLY]		= MEMMAP_PAGE_USED,
		[MEMINIT_HOTPLUG]	= MEMMAP_PAGE_OFFLINE,
		[MEMINIT_FREE]		= MEMMAP_PAGE_FREE,
	};

	memmap_write(zone, pfn, nr_pages, kinds[context]);
}

/**
 * memmap_write_pageblock - write the struct pages of a pageblock that boot keeps
 * @nid: their node
 * @pfn: the first pfn, of a section of boot
 * @end_pfn: end of what is kept
 * @kind: what they are
 *
 * Context: boot, before memblock hands memory over.
 * Return: how many were written; 0 if that of @pfn is left to the caller.
 */
unsigned long __init memmap_write_pageblock(int nid, unsigned long pfn, unsigned long end_pfn,
					    enum memmap_page_kind kind)
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

	memmap_write(zone, pfn, pageblock_nr_pages, kind);
	migratetype = kho_scratch_migratetype(pfn, MIGRATE_MOVABLE);
	init_pageblock_migratetype(pfn_to_page(pfn), migratetype, false);
	return pageblock_nr_pages;
}
