// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clearing free pages of hugetlb pools ahead of time
 *
 * The threads of prezero.c do it when no other free memory is left to clear. A
 * page stays in its pool while it is cleared, so no count of a pool changes and
 * nobody who may have the page is refused it. Who takes it waits for one part of
 * it at most, with hugetlb_lock held, and clears it anew.
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/prezero.h>
#include <linux/sizes.h>
#include "hugetlb_deferred.h"
#include "hugetlb_prezero.h"
#include "prezero.h"

/* What is cleared with interrupts off; whoever takes the page may wait for it. */
#define HUGETLB_ZERO_PART	SZ_16K

/* What is cleared between two looks at whether other memory is free. */
#define HUGETLB_ZERO_ROUND	SZ_2M

/* Zeroed pages of each size in the pools of each node; under hugetlb_lock. */
static unsigned long hugetlb_nr_zeroed[HUGE_MAX_HSTATE][MAX_NUMNODES];

static unsigned long *hugetlb_zeroed_like(struct folio *folio)
{
	lockdep_assert_held(&hugetlb_lock);
	return &hugetlb_nr_zeroed[hstate_index(folio_hstate(folio))][folio_nid(folio)];
}

/* hugetlb_prezero_leave() once pages are cleared ahead of time */
void __hugetlb_prezero_leave(struct folio *folio)
{
	struct hugetlb_zeroing *zeroing = prezero_hugetlb(folio_nid(folio));

	lockdep_assert_held(&hugetlb_lock);
	if (!folio_test_hugetlb_freed(folio))
		return;
	if (folio_test_hugetlb_zeroed(folio)) {
		--*hugetlb_zeroed_like(folio);
	} else if (zeroing && zeroing->folio == folio) {
		guard(raw_spinlock)(&zeroing->lock);
		WRITE_ONCE(zeroing->folio, NULL);
	}
}

/* It goes to somebody who does not need it zeroed. */
static void hugetlb_waste_zeroed(struct folio *folio)
{
	if (!folio_test_hugetlb_zeroed(folio))
		return;
	folio_clear_hugetlb_zeroed(folio);
	count_vm_events(PREZERO_WASTED, folio_nr_pages(folio));
}

/* hugetlb_prezero_remove() once pages are cleared ahead of time */
void __hugetlb_prezero_remove(struct folio *folio)
{
	__hugetlb_prezero_leave(folio);
	hugetlb_waste_zeroed(folio);
}

/* hugetlb_prezero_enqueue() once pages are cleared ahead of time */
void __hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio)
{
	int nid = folio_nid(folio);

	lockdep_assert_held(&hugetlb_lock);
	/* It was filled otherwise, and whatever it holds now is not zero. */
	hugetlb_waste_zeroed(folio);
	list_move_tail(&folio->lru, &h->hugepage_freelists[nid]);
	__prezero_notify_free(nid);
}

/**
 * hugetlb_take_zeroed - take the mark off a folio from alloc_hugetlb_folio()
 * @folio: the folio, which nobody else has seen yet
 *
 * Context: process context, may sleep.
 * Return: false if it has to be cleared.
 */
bool hugetlb_take_zeroed(struct folio *folio)
{
	size_t size = folio_size(folio);
	bool zeroed = folio_test_hugetlb_zeroed(folio);

	folio_clear_hugetlb_zeroed(folio);
	for (size_t at = 0; zeroed && READ_ONCE(prezero_verify) && at < size; at += PAGE_SIZE) {
		zeroed = prezero_check(folio_address(folio) + at);
		cond_resched();
	}
	count_vm_events(zeroed ? PREZERO_TAKEN : PREZERO_MISSED, folio_nr_pages(folio));
	return zeroed;
}

/* A free folio that is not zeroed, or NULL */
static struct folio *hugetlb_not_zeroed(int nid)
{
	struct hstate *h;

	lockdep_assert_held(&hugetlb_lock);
	for_each_hstate(h) {
		struct folio *folio;

		list_for_each_entry_reverse(folio, &h->hugepage_freelists[nid], lru) {
			/* Before these there are none but zeroed ones. */
			if (folio_test_hugetlb_zeroed(folio))
				break;
			if (!folio_test_hwpoison(folio))
				return folio;
		}
	}
	return NULL;
}

static bool hugetlb_zeroing_begin(struct hugetlb_zeroing *zeroing, int nid)
{
	guard(spinlock_irq)(&hugetlb_lock);
	zeroing->done = 0;
	WRITE_ONCE(zeroing->folio, hugetlb_not_zeroed(nid));
	return zeroing->folio;
}

/**
 * hugetlb_zeroing_end - leave off clearing a free page of a pool
 * @zeroing: what the thread that calls is at
 *
 * Somebody may have taken the page meanwhile, and a poisoned one is nobody's to
 * take. It is marked if all of it is cleared.
 *
 * Context: process context; takes hugetlb_lock.
 */
void hugetlb_zeroing_end(struct hugetlb_zeroing *zeroing)
{
	struct folio *folio;

	guard(spinlock_irq)(&hugetlb_lock);
	folio = zeroing->folio;
	WRITE_ONCE(zeroing->folio, NULL);
	if (!folio || folio_test_hwpoison(folio) || zeroing->done < folio_size(folio))
		return;
	folio_set_hugetlb_zeroed(folio);
	list_move(&folio->lru,
		  &folio_hstate(folio)->hugepage_freelists[folio_nid(folio)]);
	++*hugetlb_zeroed_like(folio);
}

/* Return: is there more to clear of the folio? */
static bool hugetlb_zero_part(struct hugetlb_zeroing *zeroing)
{
	struct folio *folio;
	size_t end;

	/* Who takes the folio waits with hugetlb_lock held, which interrupts take. */
	guard(raw_spinlock_irq)(&zeroing->lock);
	folio = zeroing->folio;
	if (!folio || folio_test_hwpoison(folio))
		return false;
	end = min(zeroing->done + HUGETLB_ZERO_PART, folio_size(folio));
	count_vm_events(PREZERO_ZEROED, (end - zeroing->done) / PAGE_SIZE);
	clear_pages(folio_address(folio) + zeroing->done, (end - zeroing->done) / PAGE_SIZE);
	zeroing->done = end;
	return zeroing->done < folio_size(folio);
}

/**
 * hugetlb_zero_some - clear some of a free page of a pool
 * @zeroing: what the thread that calls is at
 * @nid: the node whose pools it sees to
 *
 * If all of them are cleared it builds one that was not built yet, to clear it next.
 *
 * Context: process context; takes hugetlb_lock.
 * Return: false if there is nothing to clear.
 */
bool hugetlb_zero_some(struct hugetlb_zeroing *zeroing, int nid)
{
	if (!READ_ONCE(zeroing->folio) && !hugetlb_zeroing_begin(zeroing, nid))
		return hugetlb_deferred_build_one(nid);
	for (size_t done = 0; done < HUGETLB_ZERO_ROUND; done += HUGETLB_ZERO_PART) {
		if (!hugetlb_zero_part(zeroing)) {
			hugetlb_zeroing_end(zeroing);
			break;
		}
		if (prezero_cpu_wanted())
			break;
	}
	return true;
}

/**
 * hugetlb_unzeroed - how many free pages of a pool are not zeroed
 * @h: the hstate
 * @nid: the node, or NUMA_NO_NODE for all
 *
 * Pages that were not built yet are not zeroed either.
 *
 * Context: process context; takes hugetlb_lock.
 * Return: huge pages.
 */
unsigned long hugetlb_unzeroed(struct hstate *h, int nid)
{
	unsigned long *zeroed = hugetlb_nr_zeroed[hstate_index(h)];
	unsigned long nr;

	guard(spinlock_irq)(&hugetlb_lock);
	if (nid != NUMA_NO_NODE)
		return h->free_huge_pages_node[nid] - zeroed[nid];
	nr = h->free_huge_pages;
	for_each_online_node(nid)
		nr -= zeroed[nid];
	return nr;
}

#ifdef CONFIG_PREZERO_KUNIT_TEST
#include "hugetlb_prezero_test.c"
#endif
