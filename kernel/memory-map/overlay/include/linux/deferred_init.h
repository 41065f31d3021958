/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_DEFERRED_INIT_H
#define _LINUX_DEFERRED_INIT_H

#include <linux/types.h>

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

bool deferred_init_wanted(void);
int deferred_init_complete(void);
void deferred_init_crash_prepare(void);

/**
 * deferred_init_pending - is @pfn memory whose struct page is not initialised yet?
 * @pfn: any pfn, valid or not
 *
 * For those who want to know whether it is memory and would not touch its struct
 * page: to all others it looks like a hole. Its page is free, held to be handed out,
 * or memory map.
 *
 * Context: any, including NMI.
 * Return: true if so. That may turn to false at any time, false stays.
 */
bool deferred_init_pending(unsigned long pfn);

#else

static inline bool deferred_init_pending(unsigned long pfn)
{
	return false;
}

static inline bool deferred_init_wanted(void)
{
	return false;
}

static inline int deferred_init_complete(void)
{
	return 0;
}

static inline void deferred_init_crash_prepare(void)
{
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* _LINUX_DEFERRED_INIT_H */
