/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What hugetlb pools do about their free pages that are zeroed.
 *
 * A free page of a pool is cleared where it is, and may be taken at any time
 * meanwhile: whoever takes it off the free list says so, and the thread that
 * clears it leaves off. Pages that are zeroed are at the head of their free
 * list, from where pages are taken, and the others at the tail.
 */
#ifndef _MM_HUGETLB_PREZERO_H
#define _MM_HUGETLB_PREZERO_H

#include <linux/hugetlb.h>
#include <linux/list.h>
#include <linux/prezero.h>
#include <linux/spinlock.h>

/**
 * struct hugetlb_zeroing - what the thread of a node is at in its pools
 * @lock: held, with interrupts off, while a part of @folio is cleared; nests in
 *	hugetlb_lock, and who waits for it holds that, so it never sleeps
 * @folio: the folio, in a free list of the node, or NULL. It is changed by the
 *	thread with hugetlb_lock held, taken from it by others with both locks
 *	held, and read with either.
 * @done: bytes of it that are cleared
 */
struct hugetlb_zeroing {
	raw_spinlock_t lock; /* a part of @folio is being cleared */
	struct folio *folio;
	size_t done;
};

bool hugetlb_zero_some(struct hugetlb_zeroing *zeroing, int nid);
void hugetlb_zeroing_end(struct hugetlb_zeroing *zeroing);
unsigned long hugetlb_unzeroed(struct hstate *h, int nid);
unsigned long hugetlb_prezero_wrong(int nid);
void __hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio);
void __hugetlb_prezero_leave(struct folio *folio);
void __hugetlb_prezero_remove(struct folio *folio);

/* A folio that holds anything was put into its free list; hugetlb_lock held. */
static inline void hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio)
{
	if (prezero_used())
		__hugetlb_prezero_enqueue(h, folio);
}

/* A folio is about to be taken from its free list; hugetlb_lock held. */
static inline void hugetlb_prezero_leave(struct folio *folio)
{
	if (prezero_used())
		__hugetlb_prezero_leave(folio);
}

/* A folio is about to leave its pool; hugetlb_lock held. */
static inline void hugetlb_prezero_remove(struct folio *folio)
{
	if (prezero_used())
		__hugetlb_prezero_remove(folio);
}

/* The folio of a free list, not empty, that is least of a loss to the pool */
static inline struct folio *hugetlb_prezero_spare(struct list_head *list)
{
	return prezero_used() ? list_last_entry(list, struct folio, lru) :
				list_first_entry(list, struct folio, lru);
}

#endif /* _MM_HUGETLB_PREZERO_H */
