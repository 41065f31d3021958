/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_DEFERRED_INIT_H
#define __MM_DEFERRED_INIT_H

static inline unsigned long deferred_init_clip(unsigned long start_pfn,
					       unsigned long end_pfn)
{
	return end_pfn;
}
#endif /* __MM_DEFERRED_INIT_H */
