/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Huge pages of boot that are part of their pool before they are built: what
 * hugetlb calls.
 *
 * They are counted in nr_huge_pages and free_huge_pages, and are in no free list.
 */
#ifndef _MM_HUGETLB_DEFERRED_H
#define _MM_HUGETLB_DEFERRED_H

#include <linux/err.h>
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/nodemask.h>

#ifdef CONFIG_HUGETLB_DEFERRED
bool __init hugetlb_deferred_begin(void);
bool __init hugetlb_deferred_reserve(struct hstate *h, int nid, unsigned long pfn);
#else
static inline bool hugetlb_deferred_begin(void)
{
	return false;
}

static inline bool hugetlb_deferred_reserve(struct hstate *h, int nid, unsigned long pfn)
{
	return false;
}
#endif

DECLARE_STATIC_KEY_FALSE(hugetlb_deferred_key);

unsigned long hugetlb_deferred_unbuilt(struct hstate *h, int nid);
bool __hugetlb_deferred_build_one(int nid);
struct folio *__hugetlb_deferred_none(struct hstate *h, int nid);
void __hugetlb_deferred_build(struct hstate *h, struct folio *none);
bool __hugetlb_deferred_ensure(struct hstate *h, const nodemask_t *nodes, unsigned long nr);
void __hugetlb_deferred_ensure_surplus(struct hstate *h, unsigned long nr);
bool __hugetlb_deferred_release(struct hstate *h, unsigned long min_count,
				nodemask_t *nodes);

/* Has any pool pages that are not built? */
static inline bool hugetlb_deferred_any(void)
{
	return IS_ENABLED(CONFIG_HUGETLB_DEFERRED) &&
	       static_branch_unlikely(&hugetlb_deferred_key);
}

/**
 * hugetlb_deferred_none - what to return for a node without a page to take
 * @h: the hstate
 * @nid: the node, in the free list of which no page can be taken
 *
 * Context: hugetlb_lock held.
 * Return: NULL, or an error pointer for hugetlb_deferred_again() if more pages of
 * the node can be had.
 */
static inline struct folio *hugetlb_deferred_none(struct hstate *h, int nid)
{
	if (!hugetlb_deferred_any())
		return NULL;
	return __hugetlb_deferred_none(h, nid);
}

/**
 * hugetlb_deferred_again - have a page built if none could be taken
 * @h: the hstate
 * @folio: what was found: a folio, NULL, or what hugetlb_deferred_none() returned
 *
 * Context: process context, hugetlb_lock held. If it returns true the lock was
 * dropped, and what the caller found out under it may be wrong.
 * Return: should the caller try again?
 */
static inline bool hugetlb_deferred_again(struct hstate *h, struct folio *folio)
{
	if (!hugetlb_deferred_any() || !IS_ERR(folio))
		return false;
	__hugetlb_deferred_build(h, folio);
	return true;
}

/**
 * hugetlb_deferred_ensure - have a number of free pages in the free lists
 * @h: the hstate
 * @nodes: in the lists of these nodes together
 * @nr: the number
 *
 * Fewer if the pool has not got as many.
 *
 * Context: process context, hugetlb_lock held.
 * Return: was the lock dropped meanwhile? Then what the caller knows of reservations
 * and free pages may be wrong.
 */
static inline bool hugetlb_deferred_ensure(struct hstate *h, const nodemask_t *nodes,
					   unsigned long nr)
{
	return hugetlb_deferred_any() && __hugetlb_deferred_ensure(h, nodes, nr);
}

/**
 * hugetlb_deferred_ensure_surplus - have surplus pages in the free lists
 * @h: the hstate
 * @nr: how many of each node that has as many
 *
 * Context: process context, hugetlb_lock held, which may be dropped meanwhile.
 */
static inline void hugetlb_deferred_ensure_surplus(struct hstate *h, unsigned long nr)
{
	if (hugetlb_deferred_any())
		__hugetlb_deferred_ensure_surplus(h, nr);
}

/**
 * hugetlb_deferred_release - make a pool smaller by pages that are not built
 * @h: the hstate
 * @min_count: how many persistent pages are to be left
 * @nodes: the nodes to take pages from
 *
 * What is left to free, less than what is built at a time, is in the free lists
 * when this returns false.
 *
 * Context: process context, hugetlb_lock and resize_lock held. If it returns true
 * hugetlb_lock was dropped.
 * Return: should the caller see again how many pages are to be left?
 */
static inline bool hugetlb_deferred_release(struct hstate *h, unsigned long min_count,
					    nodemask_t *nodes)
{
	return hugetlb_deferred_any() && __hugetlb_deferred_release(h, min_count, nodes);
}

/**
 * hugetlb_deferred_build_one - build some page of a node ahead of demand
 * @nid: the node
 *
 * Context: process context; takes hugetlb_lock.
 * Return: false if there is none to build.
 */
static inline bool hugetlb_deferred_build_one(int nid)
{
	return hugetlb_deferred_any() && __hugetlb_deferred_build_one(nid);
}

#endif /* _MM_HUGETLB_DEFERRED_H */
