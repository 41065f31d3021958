/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growing hugetlb pools with several threads: what hugetlb calls
 */
#ifndef _MM_HUGETLB_GROW_H
#define _MM_HUGETLB_GROW_H

#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/nodemask.h>

#ifdef CONFIG_HUGETLB_GROW

bool __init hugetlb_grow_setup(const char *text);
bool __init hugetlb_grow_boot(struct hstate *h);

#else

static inline bool hugetlb_grow_setup(const char *text)
{
	return false;
}

static inline bool hugetlb_grow_boot(struct hstate *h)
{
	return false;
}

#endif /* CONFIG_HUGETLB_GROW */

void hugetlb_grow(struct hstate *h, unsigned long nr, const nodemask_t *nodes);

/**
 * hugetlb_grow_to - grow a pool by what is free, with several threads, at run time
 * @h: the hstate
 * @count: how many pages it is to have
 * @persistent: how many it has that are not surplus
 * @nodes: the nodes to take memory from
 *
 * Context: process context, h->resize_lock and hugetlb_lock held; the latter is
 * dropped meanwhile.
 */
static inline void hugetlb_grow_to(struct hstate *h, unsigned long count,
				   unsigned long persistent, const nodemask_t *nodes)
	__must_hold(&hugetlb_lock)
{
	if (!IS_ENABLED(CONFIG_HUGETLB_GROW) || count <= persistent || hstate_is_gigantic(h))
		return;
	spin_unlock_irq(&hugetlb_lock);
	hugetlb_grow(h, count - persistent, nodes);
	spin_lock_irq(&hugetlb_lock);
}

#endif /* _MM_HUGETLB_GROW_H */
