/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_DEFERRED_INIT_H
#define _LINUX_DEFERRED_INIT_H

#include <linux/jump_label.h>
#include <linux/types.h>

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

/* True while blocks of the memory map may be left to initialise. */
DECLARE_STATIC_KEY_FALSE(deferred_init_key);

bool __deferred_init_pending(unsigned long pfn);
bool deferred_init_wanted(void);
int deferred_init_complete(void);
int deferred_init_crash_prepare(void);
void deferred_init_vmcoreinfo(void);

/**
 * deferred_init_pending - is the struct page of @pfn not initialised yet?
 * @pfn: any pfn, valid or not
 *
 * A pending struct page must not be read: it holds whatever was in that memory
 * before. Its page is free and is part of no memblock reservation, so nobody
 * who got hold of a page by allocating it ever meets a pending one; only code
 * that walks pfns has to ask, and pfn_to_online_page() asks for it.
 *
 * Context: any, including NMI.
 * Return: true if it must not be read. That may turn to false at any time,
 * false stays.
 */
static inline bool deferred_init_pending(unsigned long pfn)
{
	return static_branch_unlikely(&deferred_init_key) &&
	       __deferred_init_pending(pfn);
}

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

static inline int deferred_init_crash_prepare(void)
{
	return 0;
}

static inline void deferred_init_vmcoreinfo(void)
{
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* _LINUX_DEFERRED_INIT_H */
