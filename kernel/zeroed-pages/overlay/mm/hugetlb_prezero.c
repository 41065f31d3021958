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
#include <linux/padata.h>
#include <linux/prezero.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include "hugetlb_deferred.h"
#include "hugetlb_prezero.h"
#include "prezero.h"

/* Set when pages of pools are first cleared ahead of time. */
bool hugetlb_prezero_used __read_mostly;

/* What is cleared with interrupts off; whoever takes the page may wait for it. */
#define HUGETLB_ZERO_PART	max_t(size_t, SZ_16K, PAGE_SIZE)

/* What is cleared between two looks at whether other memory is free. */
#define HUGETLB_ZERO_ROUND	SZ_2M

/* What each thread is at. */
static LIST_HEAD(hugetlb_zeroings);

/* Zeroed pages of each size in the pools of each node; under hugetlb_lock. */
static unsigned long hugetlb_nr_zeroed[HUGE_MAX_HSTATE][MAX_NUMNODES];

static void hugetlb_add_zeroed(struct folio *folio, int n)
{
	unsigned long *nr;

	lockdep_assert_held(&hugetlb_lock);
	nr = &hugetlb_nr_zeroed[hstate_index(folio_hstate(folio))][folio_nid(folio)];
	WRITE_ONCE(*nr, *nr + n);
}

/* Nobody may be at work on @folio any more. */
static void hugetlb_zeroing_cancel(struct folio *folio)
{
	struct hugetlb_zeroing *zeroing;

	list_for_each_entry(zeroing, &hugetlb_zeroings, list) {
		if (zeroing->folio != folio)
			continue;
		raw_spin_lock(&zeroing->lock);
		WRITE_ONCE(zeroing->folio, NULL);
		raw_spin_unlock(&zeroing->lock);
		break;
	}
	folio_clear_hugetlb_zeroing(folio);
}

/*
 * Somebody waits for pages to be cleared: take one that a thread has begun with,
 * which may not get the CPU for long. Return: is nobody at it now?
 */
static bool hugetlb_zeroing_take_over(struct folio *folio)
{
	struct hugetlb_zeroing *zeroing;

	list_for_each_entry(zeroing, &hugetlb_zeroings, list) {
		if (zeroing->folio == folio && zeroing->idle) {
			hugetlb_zeroing_cancel(folio);
			return true;
		}
	}
	return false;
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
		hugetlb_add_zeroed(folio, -1);
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
		if (!prezero_check(folio_address(folio) + at))
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
	if (READ_ONCE(hugetlb_prezero_used)) {
		bool zeroed = hugetlb_take_zeroed(folio);

		count_vm_events(zeroed ? PREZERO_TAKEN : PREZERO_MISSED,
				folio_nr_pages(folio));
		if (zeroed)
			return;
	}
	folio_zero_user(folio, addr_hint);
}

/* A free folio that is not zeroed, nor about to be, of @only or of all sizes; or NULL */
static struct folio *hugetlb_not_zeroed(struct hstate *only, int nid)
{
	struct hstate *h;

	lockdep_assert_held(&hugetlb_lock);
	for_each_hstate(h) {
		struct folio *folio;

		if (only && h != only)
			continue;
		list_for_each_entry_reverse(folio, &h->hugepage_freelists[nid], lru) {
			/* Before these there are none but zeroed ones. */
			if (folio_test_hugetlb_zeroed(folio))
				break;
			if (folio_test_hwpoison(folio))
				continue;
			if (!folio_test_hugetlb_zeroing(folio) ||
			    (only && hugetlb_zeroing_take_over(folio)))
				return folio;
		}
	}
	return NULL;
}

static bool hugetlb_zeroing_begin(struct hugetlb_zeroing *zeroing, struct hstate *only, int nid)
{
	guard(spinlock_irq)(&hugetlb_lock);
	WRITE_ONCE(zeroing->folio, hugetlb_not_zeroed(only, nid));
	zeroing->done = 0;
	if (zeroing->folio)
		folio_set_hugetlb_zeroing(zeroing->folio);
	return zeroing->folio;
}

/*
 * A folio is cleared, or not worth it. Somebody may have taken it meanwhile, and a
 * poisoned one is nobody's to take.
 */
static void hugetlb_zeroing_end(struct hugetlb_zeroing *zeroing)
{
	struct folio *folio;

	guard(spinlock_irq)(&hugetlb_lock);
	folio = zeroing->folio;
	if (!folio)
		return;
	WRITE_ONCE(zeroing->folio, NULL);
	folio_clear_hugetlb_zeroing(folio);
	if (folio_test_hwpoison(folio) || zeroing->done < folio_size(folio))
		return;
	folio_set_hugetlb_zeroed(folio);
	list_move(&folio->lru,
		  &folio_hstate(folio)->hugepage_freelists[folio_nid(folio)]);
	hugetlb_add_zeroed(folio, 1);
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
	if (!READ_ONCE(zeroing->folio) && !hugetlb_zeroing_begin(zeroing, NULL, nid))
		return hugetlb_deferred_build_one(NULL, nid);
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

/**
 * struct hugetlb_zero_request - pages of a pool that somebody wants zeroed now
 * @h: the pool
 * @left: how many nobody has begun with
 * @task: a signal of this task ends it
 */
struct hugetlb_zero_request {
	struct hstate		*h;
	atomic_long_t		left;
	struct task_struct	*task;
};

/* Return: is there more to clear of the folio? */
static bool hugetlb_zero_request_part(struct hugetlb_zero_request *request,
				      struct hugetlb_zeroing *zeroing)
{
	cond_resched();
	return !signal_pending(request->task) && hugetlb_zero_part(zeroing);
}

/* Find a page of a node to clear, or build one. */
static bool hugetlb_zero_request_begin(struct hugetlb_zero_request *request,
				       struct hugetlb_zeroing *zeroing, int nid)
{
	if (atomic_long_dec_if_positive(&request->left) < 0)
		return false;
	do {
		if (hugetlb_zeroing_begin(zeroing, request->h, nid))
			return true;
	} while (hugetlb_deferred_build_one(request->h, nid));
	/* For another node to see to */
	atomic_long_inc(&request->left);
	return false;
}

/* Clear pages of a node until the request is met, here or elsewhere. */
static void hugetlb_zero_request_node(struct hugetlb_zero_request *request, int nid)
{
	struct hugetlb_zeroing zeroing;

	hugetlb_zeroing_init(&zeroing, false);
	while (hugetlb_zero_request_begin(request, &zeroing, nid)) {
		while (hugetlb_zero_request_part(request, &zeroing))
			;
		if (signal_pending(request->task))
			break;
		hugetlb_zeroing_end(&zeroing);
	}
	hugetlb_zeroing_exit(&zeroing);
}

static void hugetlb_zero_request_nodes(unsigned long start, unsigned long end, void *arg)
{
	for (unsigned long nid = start; nid < end; nid++)
		if (node_state(nid, N_MEMORY))
			hugetlb_zero_request_node(arg, nid);
}

/**
 * hugetlb_zero_now - clear free pages of a pool on request
 * @h: the hstate
 * @nid: the node, or NUMA_NO_NODE for all, which one thread each clears
 * @leave: how many may be left that are not zeroed
 *
 * More are left if the caller gets a signal.
 *
 * Context: process context.
 * Return: 0, or -EINTR.
 */
int hugetlb_zero_now(struct hstate *h, int nid, unsigned long leave)
{
	struct hugetlb_zero_request request = { .h = h, .task = current };
	struct padata_mt_job job = {
		.thread_fn	= hugetlb_zero_request_nodes,
		.fn_arg		= &request,
		.size		= nr_node_ids,
		.align		= 1,
		.min_chunk	= 1,
		.max_threads	= num_node_state(N_MEMORY),
		.numa_aware	= true,
	};
	unsigned long unzeroed;

	hugetlb_prezero_prepare();
	unzeroed = hugetlb_unzeroed(h, nid);
	atomic_long_set(&request.left, unzeroed - min(unzeroed, leave));
	if (nid != NUMA_NO_NODE)
		hugetlb_zero_request_node(&request, nid);
	else
		padata_do_multithreaded(&job);
	return signal_pending(current) ? -EINTR : 0;
}

#ifdef CONFIG_PREZERO_KUNIT_TEST
/*
 * Return: how much is wrong with the pools of a node: pages that are not zeroed
 * before others that are, in no thread's or several hands, or counted wrongly.
 */
unsigned long hugetlb_prezero_wrong(int nid)
{
	struct hugetlb_zeroing *zeroing;
	unsigned long wrong = 0;
	struct hstate *h;

	guard(spinlock_irq)(&hugetlb_lock);
	for_each_hstate(h) {
		unsigned long zeroed = 0;
		bool others = false;
		struct folio *folio;

		list_for_each_entry(folio, &h->hugepage_freelists[nid], lru) {
			unsigned int hands = 0;

			list_for_each_entry(zeroing, &hugetlb_zeroings, list)
				hands += zeroing->folio == folio;
			wrong += hands != folio_test_hugetlb_zeroing(folio);
			if (!folio_test_hugetlb_zeroed(folio)) {
				others = true;
				continue;
			}
			zeroed++;
			wrong += others || hands;
		}
		wrong += abs_diff(zeroed, hugetlb_nr_zeroed[hstate_index(h)][nid]);
	}
	return wrong;
}
#endif

/* A thread begins: it is at nothing. Does it run at @idle priority? */
void hugetlb_zeroing_init(struct hugetlb_zeroing *zeroing, bool idle)
{
	raw_spin_lock_init(&zeroing->lock);
	zeroing->folio = NULL;
	zeroing->idle = idle;
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
