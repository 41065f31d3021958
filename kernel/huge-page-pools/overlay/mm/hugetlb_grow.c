// SPDX-License-Identifier: GPL-2.0-only
/*
 * Growing hugetlb pools with several threads
 *
 * Threads take what is free of the page allocator, on all nodes at the same time.
 * None of them reclaims or compacts: nobody would throttle them, nor would the
 * signals of who asked for the pages reach them. What they did not get is left to
 * the one that did, which goes on as without them.
 */
#define pr_fmt(fmt) "HugeTLB: " fmt

#include <linux/atomic.h>
#include <linux/cpuset.h>
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/padata.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "hugetlb_grow.h"
#include "hugetlb_internal.h"

/* A thread has its pages added together: the vmemmap optimization flushes TLBs. */
#define HUGETLB_GROW_AT_ONCE	SZ_256M

/* More threads of a node wait for each other, for its zone lock and its memory. */
#define HUGETLB_GROW_THREADS	8

/* Threads of all nodes together; 0 for auto. */
static unsigned int hugetlb_alloc_threads __ro_after_init;

/**
 * struct hugetlb_grow - a request to grow a pool
 * @h: the pool
 * @task: a signal of this task ends it; NULL at boot
 * @threads: how many take part
 * @nodes: the nodes to take pages from
 * @left: pages that no thread has taken on, of each node
 */
struct hugetlb_grow {
	struct hstate		*h;
	struct task_struct	*task;
	unsigned int		threads;
	nodemask_t		nodes;
	atomic_long_t		left[];
};

static bool hugetlb_grow_stopped(const struct hugetlb_grow *grow)
{
	return grow->task && signal_pending(grow->task);
}

/* Take on pages of a node. */
static long hugetlb_grow_take(struct hugetlb_grow *grow, int nid)
{
	long most = max_t(long, HUGETLB_GROW_AT_ONCE / huge_page_size(grow->h), 1);
	long left = atomic_long_read(&grow->left[nid]), nr;

	do {
		if (left <= 0 || hugetlb_grow_stopped(grow))
			return 0;
		nr = min(most, left);
	} while (!atomic_long_try_cmpxchg(&grow->left[nid], &left, left - nr));
	return nr;
}

static void hugetlb_grow_node(struct hugetlb_grow *grow, int nid)
{
	gfp_t gfp = htlb_alloc_mask(grow->h) & ~__GFP_RECLAIM;
	long nr;

	gfp |= __GFP_THISNODE | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN;
	while ((nr = hugetlb_grow_take(grow, nid))) {
		LIST_HEAD(folios);
		unsigned int flags;

		while (nr-- && !hugetlb_grow_stopped(grow)) {
			struct folio *folio;

			folio = only_alloc_fresh_hugetlb_folio(grow->h, gfp, nid, NULL, NULL);
			if (!folio) {
				/* It is for others to say that there is no more. */
				atomic_long_set(&grow->left[nid], 0);
				break;
			}
			list_add(&folio->lru, &folios);
			cond_resched();
		}
		/* What the vmemmap optimization allocates is not worth reclaim either. */
		flags = memalloc_noreclaim_save();
		prep_and_add_allocated_folios(grow->h, &folios);
		memalloc_noreclaim_restore(flags);
	}
}

/* What each thread does: the pages of its node, then those of others */
static void hugetlb_grow_thread(unsigned long start, unsigned long end, void *arg)
{
	struct hugetlb_grow *grow = arg;
	int nodes = nodes_weight(grow->nodes), nid = numa_node_id();

	/* Memory without CPUs: not all begin with the same. */
	if (!node_isset(nid, grow->nodes))
		for (int i = start % nodes; i >= 0; i--)
			nid = next_node_in(nid, grow->nodes);
	for (int i = 0; i < nodes; i++) {
		hugetlb_grow_node(grow, nid);
		nid = next_node_in(nid, grow->nodes);
	}
}

static void hugetlb_grow_run(struct hugetlb_grow *grow)
{
	struct padata_mt_job job = {
		.thread_fn	= hugetlb_grow_thread,
		.fn_arg		= grow,
		.align		= 1,
		.min_chunk	= 1,
		.numa_aware	= true,
	};
	nodemask_t nodes;
	int nid;

	/* Memory without CPUs is left to those of all nodes. */
	if (nodes_and(nodes, grow->nodes, node_states[N_CPU]))
		job.nodes = &nodes;
	else
		nodes = node_states[N_CPU];
	grow->threads = hugetlb_alloc_threads;
	if (!grow->threads)
		for_each_node_mask(nid, nodes)
			grow->threads += min(nr_cpus_node(nid), HUGETLB_GROW_THREADS);
	job.size = grow->threads;
	job.max_threads = grow->threads;
	padata_do_multithreaded(&job);
}

/* Share @nr pages out to all nodes, one more each from the pool's next node on. */
static void hugetlb_grow_share_out(struct hugetlb_grow *grow, unsigned long nr)
{
	int nodes = nodes_weight(grow->nodes), nid = grow->h->next_nid_to_alloc;

	/* More cannot be had. */
	nr = min(nr, totalram_pages());
	if (!node_isset(nid, grow->nodes))
		nid = next_node_in(nid, grow->nodes);
	for (int i = 0; i < nodes; i++) {
		if (i == nr % nodes)
			grow->h->next_nid_to_alloc = nid;
		atomic_long_set(&grow->left[nid], nr / nodes + (i < nr % nodes));
		nid = next_node_in(nid, grow->nodes);
	}
}

static struct hugetlb_grow *hugetlb_grow_begin(struct hstate *h, const nodemask_t *nodes)
{
	struct hugetlb_grow *grow = kzalloc(struct_size(grow, left, nr_node_ids), GFP_KERNEL);

	if (grow) {
		grow->h = h;
		grow->nodes = *nodes;
	}
	return grow;
}

/**
 * hugetlb_grow - add pages to a pool at run time, as far as they are free
 * @h: the hstate, not of gigantic pages
 * @nr: how many
 * @nodes: the nodes to take them from, the same number of each if they have it
 *
 * Context: process context, h->resize_lock held.
 */
void hugetlb_grow(struct hstate *h, unsigned long nr, const nodemask_t *nodes)
{
	unsigned long before, more;
	struct hugetlb_grow *grow;
	nodemask_t allowed;

	/* The threads are in no cpuset; who asks for it may be. */
	if (!nodes_and(allowed, *nodes, cpuset_current_mems_allowed))
		return;
	grow = hugetlb_grow_begin(h, &allowed);
	if (!grow)
		return;
	grow->task = current;
	do {
		before = h->nr_huge_pages;
		hugetlb_grow_share_out(grow, nr);
		hugetlb_grow_run(grow);
		more = h->nr_huge_pages - before;
		nr -= min(nr, more);
		/* Some nodes may have what others have not. */
	} while (nr && more && !hugetlb_grow_stopped(grow));
	kfree(grow);
}

/* What hugepages= asks of each node; false if it names none */
static bool __init hugetlb_grow_of_nodes(struct hugetlb_grow *grow)
{
	struct hstate *h = grow->h;
	bool named = false;
	int nid;

	for_each_online_node(nid) {
		unsigned long wanted = min(h->max_huge_pages_node[nid], totalram_pages());

		named |= wanted;
		if (node_isset(nid, grow->nodes) && wanted > h->nr_huge_pages_node[nid])
			atomic_long_set(&grow->left[nid], wanted - h->nr_huge_pages_node[nid]);
	}
	return named;
}

/**
 * hugetlb_grow_boot - fill a pool of boot, of pages that the buddy allocator has
 * @h: the hstate
 *
 * Context: initcalls, nobody else changes the pool.
 * Return: true if the pool has as many as are free; false if nothing was tried.
 */
bool __init hugetlb_grow_boot(struct hstate *h)
{
	unsigned long start = jiffies, before;
	struct hugetlb_grow *grow;

	if (h->nr_huge_pages >= h->max_huge_pages)
		return true;
	grow = hugetlb_grow_begin(h, &node_states[N_MEMORY]);
	if (!grow)
		return false;
	do {
		before = h->nr_huge_pages;
		if (!hugetlb_grow_of_nodes(grow))
			hugetlb_grow_share_out(grow, h->max_huge_pages - before);
		hugetlb_grow_run(grow);
		/* The vmemmap optimization, or another node, may have more. */
	} while (h->nr_huge_pages < h->max_huge_pages && h->nr_huge_pages > before);
	pr_info("allocation took %dms with hugepage_allocation_threads=%u\n",
		jiffies_to_msecs(jiffies - start), grow->threads);
	kfree(grow);
	return true;
}

/**
 * hugetlb_grow_setup - set the number of threads at boot
 * @text: the value of hugepage_alloc_threads=
 *
 * Return: true, it has been seen to.
 */
bool __init hugetlb_grow_setup(const char *text)
{
	unsigned int threads = 0;

	if (strcmp(text, "auto") &&
	    (kstrtouint(text, 0, &threads) || !threads || threads > INT_MAX))
		pr_warn("hugepage_alloc_threads=%s is neither auto nor a number from 1 on, ignoring\n",
			text);
	else
		hugetlb_alloc_threads = threads;
	return true;
}
