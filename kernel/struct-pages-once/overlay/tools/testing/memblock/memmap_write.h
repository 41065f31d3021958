/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_MEMMAP_WRITE_H
#define __MM_MEMMAP_WRITE_H

enum memmap_page_kind {
	MEMMAP_PAGE_RESERVED,
};

static inline unsigned long memmap_write_pageblock(int nid, unsigned long pfn,
						   unsigned long end_pfn,
						   enum memmap_page_kind kind)
{
	return 0;
}
#endif /* __MM_MEMMAP_WRITE_H */
