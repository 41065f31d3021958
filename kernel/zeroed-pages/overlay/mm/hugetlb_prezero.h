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
#include <linux/spinlock.h>

#if defined(CONFIG_PREZERO) && defined(CONFIG_HUGETLBFS)

/* May a page of a pool be marked as zeroed? */
extern bool hugetlb_prezero_used;

static inline void hugetlb_prezero_prepare(void)
{
	WRITE_ONCE(hugetlb_prezero_used, true);
}

/**
 * struct hugetlb_zeroing - what a thread that clears pages of pools is at
 * @list: all of them; hugetlb_lock protects it
 * @lock: held, with interrupts off, while a part of @folio is cleared; nests in
 *	hugetlb_lock, and who waits for it holds that, so it never sleeps
 * @folio: the folio, in a free list, or NULL. It is set with hugetlb_lock held,
 *	taken back with both locks held, and read with either.
 * @done: bytes of it that are cleared
 * @idle: it runs at idle priority: who waits for zeroed pages takes @folio over
 */
struct hugetlb_zeroing {
	struct list_head list;
	raw_spinlock_t lock; /* a part of @folio is being cleared */
	struct folio *folio;
	size_t done;
	bool idle;
};

void hugetlb_zeroing_init(struct hugetlb_zeroing *zeroing, bool idle);
void hugetlb_zeroing_exit(struct hugetlb_zeroing *zeroing);
bool hugetlb_zero_some(struct hugetlb_zeroing *zeroing, int nid);
unsigned long hugetlb_unzeroed(struct hstate *h, int nid);
int hugetlb_zero_now(struct hstate *h, int nid, unsigned long leave);
unsigned long hugetlb_prezero_wrong(int nid);
void __hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio);
void __hugetlb_prezero_leave(struct folio *folio);
void __hugetlb_prezero_remove(struct folio *folio);

/* A folio that holds anything was put into its free list; hugetlb_lock held. */
static inline void hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio)
{
	if (READ_ONCE(hugetlb_prezero_used))
		__hugetlb_prezero_enqueue(h, folio);
}

/* A folio is about to be taken from its free list; hugetlb_lock held. */
static inline void hugetlb_prezero_leave(struct folio *folio)
{
	if (READ_ONCE(hugetlb_prezero_used))
		__hugetlb_prezero_leave(folio);
}

/* A folio is about to leave its pool; hugetlb_lock held. */
static inline void hugetlb_prezero_remove(struct folio *folio)
{
	if (READ_ONCE(hugetlb_prezero_used))
		__hugetlb_prezero_remove(folio);
}

/* The folio of a free list, not empty, that is least of a loss to the pool */
static inline struct folio *hugetlb_prezero_spare(struct list_head *list)
{
	return READ_ONCE(hugetlb_prezero_used) ? list_last_entry(list, struct folio, lru) :
				list_first_entry(list, struct folio, lru);
}

#else

struct hugetlb_zeroing {
};

static inline void hugetlb_prezero_prepare(void)
{
}

static inline void hugetlb_zeroing_init(struct hugetlb_zeroing *zeroing, bool idle)
{
}

static inline void hugetlb_zeroing_exit(struct hugetlb_zeroing *zeroing)
{
}

static inline bool hugetlb_zero_some(struct hugetlb_zeroing *zeroing, int nid)
{
	return false;
}

static inline unsigned long hugetlb_prezero_wrong(int nid)
{
	return 0;
}

static inline void hugetlb_prezero_enqueue(struct hstate *h, struct folio *folio)
{
}

static inline void hugetlb_prezero_leave(struct folio *folio)
{
}

static inline void hugetlb_prezero_remove(struct folio *folio)
{
}

static inline struct folio *hugetlb_prezero_spare(struct list_head *list)
{
	return list_first_entry(list, struct folio, lru);
}

#endif

#endif /* _MM_HUGETLB_PREZERO_H */
