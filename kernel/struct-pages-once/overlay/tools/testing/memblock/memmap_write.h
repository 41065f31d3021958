/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_MEMMAP_WRITE_H
#define __MM_MEMMAP_WRITE_H

static inline unsigned long memmap_write_reserved(int nid, unsigned long pfn,
						  unsigned long end_pfn)
{
	return 0;
}
#endif /* __MM_MEMMAP_WRITE_H */
