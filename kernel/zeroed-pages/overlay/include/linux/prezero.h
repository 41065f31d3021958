/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PREZERO_H
#define _LINUX_PREZERO_H

#include <linux/gfp_types.h>
#include <linux/jump_label.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>

/* On from when free pages were first cleared ahead of time. */
DECLARE_STATIC_KEY_FALSE(prezero_key);

/* Are free pages cleared now? */
extern bool prezero_enabled;

void prezero_forget(struct page *page);

#ifdef CONFIG_PREZERO
void prezero_distrust(void);
#else
static inline void prezero_distrust(void)
{
}
#endif

/**
 * prezero_used - may a free page be marked as zeroed?
 *
 * Once true it stays so: marks outlive the threads that made them.
 *
 * Context: any.
 */
static inline bool prezero_used(void)
{
	return IS_ENABLED(CONFIG_PREZERO) && static_branch_unlikely(&prezero_key);
}

/**
 * prezero_gfp - what to add to the GFP flags of memory that must read as zero
 *
 * For callers that clear memory after they allocated it, each in a way of its
 * own. While pages are zeroed ahead the allocator alone knows whether there is
 * anything to clear, so then it has to be asked for zeroes. Call this
 * once for an allocation and look at what it returned, as it may change.
 *
 * Context: any.
 * Return: __GFP_ZERO if the allocator returns zeroed memory and the caller must
 * not clear it; 0 if the caller has to clear as it always did.
 */
static inline gfp_t prezero_gfp(void)
{
	return prezero_used() && READ_ONCE(prezero_enabled) ? __GFP_ZERO : 0;
}

/**
 * prezero_charge_fails - would pages be zeroed in vain?
 * @mm: who is charged for them
 * @gfp: the GFP flags of their allocation, prezero_gfp() included
 * @order: how many they are
 *
 * The charge comes after the allocation, which clears pages or spends those that
 * are zeroed. So ask before, if a charge that does not fit fails at once, unless
 * what the CPU has in stock might do.
 *
 * Context: process context.
 */
static inline bool prezero_charge_fails(struct mm_struct *mm, gfp_t gfp,
					unsigned int order)
{
	return prezero_used() && gfp & __GFP_ZERO && !gfpflags_allow_blocking(gfp) &&
	       1U << order > MEMCG_CHARGE_BATCH && mem_cgroup_room(mm) < 1U << order;
}

#ifdef CONFIG_HUGETLBFS
bool hugetlb_take_zeroed(struct folio *folio);

/**
 * hugetlb_zero_user - make a folio from alloc_hugetlb_folio() read as zero
 * @folio: the folio, which nobody else has seen yet
 * @addr_hint: where user space accesses it first
 *
 * Context: process context, may sleep.
 */
static inline void hugetlb_zero_user(struct folio *folio, unsigned long addr_hint)
{
	if (!prezero_used() || !hugetlb_take_zeroed(folio))
		folio_zero_user(folio, addr_hint);
}
#endif

#endif /* _LINUX_PREZERO_H */
