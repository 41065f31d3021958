// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clearing free pages of hugetlb pools ahead of time
 *
 * The threads of prezero.c do it when no other free memory is left to clear. A
 * page stays in its pool while it is cleared, so no count of a pool changes and
 * nobody who may have the page is refused it. Who takes it waits for one part of
 * it at most, and clears it anew.
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include "hugetlb_prezero.h"
#include "prezero.h"

/* What is cleared under a lock that whoever takes the page may wait for. */
#define HUGETLB_ZERO_PART	SZ_64K

/* What each thread is at. */
static LIST_HEAD(hugetlb_zeroings);

/* Zeroed pages in the pools of each node, in base pages; under hugetlb_lock. */
static unsigned long hugetlb_nr_zeroed[MAX_NUMNODES];

/* Nobody may be at work on @folio any more. */
static void hugetlb_zeroing_cancel(struct folio *folio)
{
	struct hugetlb_zeroing *zeroing;

	list_for_each_entry(zeroing, &hugetlb_zeroings, list) {
		if (zeroing->folio != folio)
			continue;
		spin_lock(&zeroing->lock);
		zeroing->folio = NULL;
		spin_unlock(&zeroing->lock);
	}
	folio_clear_hugetlb_zeroing(folio);
}

/* hugetlb_prezero_leave() once pages are cleared ahead of time */
void __hugetlb_prezero_leave(struct folio *folio)
{
	lockdep_assert_held(&hugetlb_lock);
	if (!folio_test_hugetlb_freed(folio))
		return;
	if (folio_test_hugetlb_zeroing(folio))
		hugetlb_zeroing_cancel(folio);
	else if (folio_test_hugetlb_zeroed(folio))
		hugetlb_nr_zeroed[folio_nid(folio)] -= folio_nr_pages(folio);
}

/* hugetlb_prezero_enqueue() once pages are cleared ahead of time */
void __hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio)
{
	int nid = folio_nid(folio);

	lockdep_assert_held(&hugetlb_lock);
	/* It was taken by somebody who did not need it zeroed. */
	if (folio_test_hugetlb_zeroed(folio)) {
		folio_clear_hugetlb_zeroed(folio);
		prezero_count(nid, PREZERO_WASTED, folio_nr_pages(folio));
	}
	list_move_tail(&folio->lru, &h->hugepage_freelists[nid]);
	__prezero_notify_free(nid);
}

/* Take the mark off a folio. Return: is it zeroed? */
static bool hugetlb_take_zeroed(struct folio *folio)
{
	size_t size = folio_size(folio);

	if (!folio_test_hugetlb_zeroed(folio))
		return false;
	folio_clear_hugetlb_zeroed(folio);
	if (likely(!READ_ONCE(prezero_verify)))
		return true;
	for (size_t at = 0; at < size; at += PAGE_SIZE) {
		if (!prezero_check(folio_address(folio) + at, folio_nid(folio)))
			return false;
		cond_resched();
	}
	return true;
}

/**
 * hugetlb_zero_user - make a folio from alloc_hugetlb_folio() read as zero
 * @folio: the folio, which nobody else has seen yet
 * @addr_hint: where user space accesses it first
 *
 * Context: process context, may sleep.
 */
void hugetlb_zero_user(struct folio *folio, unsigned long addr_hint)
{
	unsigned long nr = folio_nr_pages(folio);
	int nid = folio_nid(folio);

	if (prezero_used()) {
		if (hugetlb_take_zeroed(folio)) {
			prezero_count(nid, PREZERO_TAKEN, nr);
			return;
		}
		prezero_count(nid, PREZERO_MISSED, nr);
	}
	folio_zero_user(folio, addr_hint);
}

/* A free folio of a node that is not zeroed, nor about to be, or NULL */
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
			if (!folio_test_hugetlb_zeroing(folio) &&
			    !folio_test_hwpoison(folio))
				return folio;
		}
	}
	return NULL;
}

static bool hugetlb_zeroing_begin(struct hugetlb_zeroing *zeroing, int nid)
{
	guard(spinlock_irq)(&hugetlb_lock);
	zeroing->folio = hugetlb_not_zeroed(nid);
	zeroing->done = 0;
	if (zeroing->folio)
		folio_set_hugetlb_zeroing(zeroing->folio);
	return zeroing->folio;
}

/* All of a folio is cleared; somebody may have taken it meanwhile. */
static void hugetlb_zeroing_end(struct hugetlb_zeroing *zeroing)
{
	struct folio *folio;
	int nid;

	guard(spinlock_irq)(&hugetlb_lock);
	folio = zeroing->folio;
	if (!folio)
		return;
	zeroing->folio = NULL;
	nid = folio_nid(folio);
	folio_clear_hugetlb_zeroing(folio);
	folio_set_hugetlb_zeroed(folio);
	list_move(&folio->lru, &folio_hstate(folio)->hugepage_freelists[nid]);
	hugetlb_nr_zeroed[nid] += folio_nr_pages(folio);
}

/**
 * hugetlb_zero_part - clear a part of a free page of a pool
 * @zeroing: what the thread that calls is at
 * @nid: the node whose pools it sees to
 *
 * Context: process context; takes hugetlb_lock.
 * Return: false if there is nothing to clear.
 */
bool hugetlb_zero_part(struct hugetlb_zeroing *zeroing, int nid)
{
	bool all = false;

	if (!READ_ONCE(zeroing->folio) && !hugetlb_zeroing_begin(zeroing, nid))
		return false;

	scoped_guard(spinlock, &zeroing->lock) {
		struct folio *folio = zeroing->folio;
		size_t end;

		if (!folio)
			return true;
		end = zeroing->done + HUGETLB_ZERO_PART;
		for (; zeroing->done < end; zeroing->done += PAGE_SIZE)
			prezero_clear_page(folio_address(folio) + zeroing->done);
		all = zeroing->done == folio_size(folio);
	}
	prezero_count(nid, PREZERO_ZEROED, HUGETLB_ZERO_PART / PAGE_SIZE);
	if (all)
		hugetlb_zeroing_end(zeroing);
	return true;
}

/**
 * hugetlb_zeroed_pages - how much of the pools of a node is zeroed
 * @nid: the node
 *
 * Context: any.
 * Return: base pages, of any size of huge pages together.
 */
unsigned long hugetlb_zeroed_pages(int nid)
{
	return READ_ONCE(hugetlb_nr_zeroed[nid]);
}

/* A thread begins: it is at nothing. */
void hugetlb_zeroing_init(struct hugetlb_zeroing *zeroing)
{
	spin_lock_init(&zeroing->lock);
	zeroing->folio = NULL;
	guard(spinlock_irq)(&hugetlb_lock);
	list_add(&zeroing->list, &hugetlb_zeroings);
}

/* A thread ends: what it was at is not zeroed. */
void hugetlb_zeroing_exit(struct hugetlb_zeroing *zeroing)
{
	guard(spinlock_irq)(&hugetlb_lock);
	if (zeroing->folio)
		folio_clear_hugetlb_zeroing(zeroing->folio);
	list_del(&zeroing->list);
}
