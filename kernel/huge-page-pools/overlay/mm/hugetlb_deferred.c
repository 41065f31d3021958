// SPDX-License-Identifier: GPL-2.0-only
/*
 * Huge page pools of boot that are there at once
 *
 * With hugetlb_deferred=on, what hugepages= asks for is set aside in whole ranges
 * of the memory map that is not initialised (deferred_init.c), and counted in its
 * pool. Nothing is written for a page until it is built: by who takes the first
 * page of a node whose free list is empty, by threads behind boot
 * (deferred_init=background), or because somebody works on its pfns.
 *
 * A unit is what is built at a time: a gigantic page, or the smaller pages of one
 * block of the largest order, since the buddy allocator looks at the struct pages
 * of all of a block. It goes through three states, told by two bitmaps of its
 * range, which hugetlb_lock protects:
 *
 *	unbuilt  building
 *	   1        0      its struct pages are pending
 *	   0        1      somebody builds it, without a lock
 *	   0        0      its pages are in a free list, or were, or it was released
 *
 * In the first two, its pages are in nr_huge_pages and in free_huge_pages. Who
 * finds a free list empty although free pages are counted builds a unit, or waits
 * for one that is being built, and looks again: nothing is allocated for it but
 * what the vmemmap optimization needs, and the page is built without that if there
 * is no memory.
 */
#define pr_fmt(fmt) "HugeTLB: " fmt

#include <linux/bitmap.h>
#include <linux/hugetlb.h>
#include <linux/kstrtox.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/prio.h>
#include <linux/sizes.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "deferred_init.h"
#include "hugetlb_cma.h"
#include "hugetlb_deferred.h"
#include "hugetlb_internal.h"
#include "hugetlb_vmemmap.h"
#include "internal.h"
#include "mm_init.h"

#define CREATE_TRACE_POINTS
#include <trace/events/hugetlb_deferred.h>

/* Pools that are set aside in more pieces than these have the rest built at boot. */
#define HUGETLB_RANGES		256

/* Built together, where it takes flushing the TLBs of all CPUs. */
#define HUGETLB_BUILD_AT_ONCE	SZ_64M

/* Blocks that are given back between two looks at who wants the CPU, or hugetlb_lock */
#define HUGETLB_RELEASE_AT_ONCE	256UL

/* What a zone keeps for others at least: a share, and this. */
#define HUGETLB_LEAVE_SHARE	32
#define HUGETLB_LEAVE_PAGES	(SZ_64M >> PAGE_SHIFT)

/* A zone keeps this share of the zones above, as lowmem_reserve would. */
#define HUGETLB_LOWMEM_SHARE	256

/**
 * struct hugetlb_range - units that follow each other
 * @h: their hstate
 * @zone: their zone
 * @pfn: the first pfn
 * @nr_units: number of units
 * @nr_unbuilt: of these, units that are not built
 * @nr_building: units that somebody builds
 * @next: units below are hardly ever unbuilt
 * @end: units from this one on are not unbuilt
 * @unbuilt: a set bit for each unit that is not built
 * @building: a set bit for each unit that somebody builds
 * @pending: are its struct pages pending, so that it can be given back?
 */
struct hugetlb_range {
	struct hstate	*h;
	struct zone	*zone;
	unsigned long	pfn;
	unsigned long	nr_units;
	unsigned long	nr_unbuilt;
	unsigned long	nr_building;
	unsigned long	next;
	unsigned long	end;
	unsigned long	*unbuilt;
	unsigned long	*building;
	bool		pending;
};

DEFINE_STATIC_KEY_FALSE(hugetlb_deferred_key);

static struct hugetlb_range hugetlb_ranges[HUGETLB_RANGES];
static struct hugetlb_range *hugetlb_ranges_end __ro_after_init = hugetlb_ranges;
static bool hugetlb_deferred __ro_after_init;

/* Units that are not in the free lists; under hugetlb_lock. */
static unsigned long hugetlb_units_left;
/* Goes up whenever units got into the free lists; under hugetlb_lock. */
static unsigned long hugetlb_builds;
static DECLARE_WAIT_QUEUE_HEAD(hugetlb_deferred_waitq);

static int __init hugetlb_deferred_param(char *str)
{
	if (!str || kstrtobool(str, &hugetlb_deferred))
		pr_warn("hugetlb_deferred=%s is neither on nor off, ignoring\n", str ?: "");
	return 0;
}
early_param("hugetlb_deferred", hugetlb_deferred_param);

/* Base pages of a unit */
static unsigned long hugetlb_unit_pages(struct hstate *h)
{
	return max(pages_per_huge_page(h), MAX_ORDER_NR_PAGES);
}

/* Huge pages of a unit */
static unsigned long hugetlb_unit_huge(struct hstate *h)
{
	return hugetlb_unit_pages(h) >> huge_page_order(h);
}

static unsigned long hugetlb_unit_blocks(struct hstate *h)
{
	return hugetlb_unit_pages(h) / MAX_ORDER_NR_PAGES;
}

static unsigned long hugetlb_unit_pfn(const struct hugetlb_range *range, unsigned long unit)
{
	return range->pfn + unit * hugetlb_unit_pages(range->h);
}

/* Will the vmemmap of a page be optimized, as far as one can tell? */
static bool hugetlb_deferred_hvo(struct hstate *h)
{
#ifdef CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP
	return hugetlb_vmemmap_optimizable(h) && READ_ONCE(vmemmap_optimize_enabled);
#else
	return false;
#endif
}

/* Units to build when one is wanted */
static unsigned long hugetlb_batch(struct hstate *h)
{
	unsigned long pages = hugetlb_deferred_hvo(h) ? HUGETLB_BUILD_AT_ONCE >> PAGE_SHIFT : 0;

	return max(pages / hugetlb_unit_pages(h), 1);
}

/* Nobody looks for unbuilt pages any more once none is left. */
static void hugetlb_deferred_done(struct work_struct *work)
{
	static_branch_disable(&hugetlb_deferred_key);
	pr_info("all pages of boot are built\n");
}

static DECLARE_WORK(hugetlb_deferred_done_work, hugetlb_deferred_done);

static void hugetlb_units_gone(unsigned long nr)
{
	lockdep_assert_held(&hugetlb_lock);
	hugetlb_units_left -= nr;
	if (nr && !hugetlb_units_left)
		queue_work(system_dfl_wq, &hugetlb_deferred_done_work);
}

/* Write the struct pages of a folio from number @from up to @to, all of them tails. */
static void hugetlb_build_tails(struct folio *folio, struct zone *zone, unsigned int order,
				unsigned long from, unsigned long to)
{
	struct page template, *page, *end = folio_page(folio, to);

	__init_single_page(&template, folio_pfn(folio), zone_idx(zone), zone_to_nid(zone));
	set_page_count(&template, 0);
	prep_compound_tail(&template, &folio->page, order);
	for (page = folio_page(folio, from); page < end; page++)
		memcpy(page, &template, sizeof(template));
}

/* All struct pages of a folio, or, with @hvo, those that it keeps then */
static struct folio *hugetlb_build_folio(struct hstate *h, struct zone *zone,
					 unsigned long pfn, bool hvo)
{
	unsigned long at, end, nr = hvo ? HUGETLB_VMEMMAP_RESERVE_PAGES : pages_per_huge_page(h);
	struct folio *folio = (struct folio *)pfn_to_page(pfn);

	__init_single_page(&folio->page, pfn, zone_idx(zone), zone_to_nid(zone));
	set_page_count(&folio->page, 0);
	__folio_set_head(folio);
	for (at = 1; at < nr; at = end) {
		end = min(ALIGN(at + 1, MAX_ORDER_NR_PAGES), nr);
		hugetlb_build_tails(folio, zone, huge_page_order(h), at, end);
		cond_resched();
	}
	/* Who remaps the rest asks for a tail at the start of each page of it. */
	if (IS_ENABLED(CONFIG_DEBUG_VM)) {
		for (; nr < pages_per_huge_page(h); nr += PAGE_SIZE / sizeof(struct page))
			hugetlb_build_tails(folio, zone, huge_page_order(h), nr, nr + 1);
	}
	/* Part of it is in the first tails. */
	prep_compound_head(&folio->page, huge_page_order(h));
	init_new_hugetlb_folio(folio);
	return folio;
}

/* Build units that were claimed, and put their pages into the free list. */
static void hugetlb_build(struct hugetlb_range *range, unsigned long unit, unsigned long nr,
			  enum vm_event_item item)
{
	unsigned long pfn = hugetlb_unit_pfn(range, unit), end_pfn, at;
	struct hstate *h = range->h;
	struct zone *zone = range->zone;
	unsigned long nr_blocks = nr * hugetlb_unit_blocks(h);
	bool hvo = hugetlb_deferred_hvo(h);
	struct folio *folio, *next;
	LIST_HEAD(folios);
	int nid = zone_to_nid(zone);
	unsigned int flags;

	trace_hugetlb_deferred_build(nid, huge_page_order(h), pfn, nr * hugetlb_unit_huge(h));
	end_pfn = pfn + nr * hugetlb_unit_pages(h);
	deferred_init_held_begin(pfn, nr_blocks);
	for (at = pfn; at < end_pfn; at += pages_per_huge_page(h)) {
		/* What was initialised as memory in use must not look like that. */
		folio = hugetlb_build_folio(h, zone, at, hvo && range->pending);
		list_add_tail(&folio->lru, &folios);
	}
	if (hvo) {
		/* It gives back far more than it takes: nobody is to be killed for that. */
		flags = memalloc_noreclaim_save();
		hugetlb_vmemmap_optimize_folios(h, &folios);
		memalloc_noreclaim_restore(flags);
		list_for_each_entry(folio, &folios, lru) {
			if (!folio_test_hugetlb_vmemmap_optimized(folio))
				hugetlb_build_tails(folio, zone, huge_page_order(h),
						    HUGETLB_VMEMMAP_RESERVE_PAGES,
						    pages_per_huge_page(h));
		}
	}
	/* Their struct pages can be read by now, optimized or not. */
	for (at = pfn; at < end_pfn; at += pageblock_nr_pages)
		init_pageblock_migratetype(pfn_to_page(at), MIGRATE_MOVABLE, false);
	deferred_init_held_end(pfn, nr_blocks, item);

	scoped_guard(spinlock_irq, &hugetlb_lock) {
		list_for_each_entry_safe(folio, next, &folios, lru) {
			/* It was counted when it was set aside. */
			h->free_huge_pages--;
			h->free_huge_pages_node[nid]--;
			enqueue_hugetlb_folio(h, folio);
		}
		bitmap_clear(range->building, unit, nr);
		WRITE_ONCE(range->nr_building, range->nr_building - nr);
		hugetlb_builds++;
		hugetlb_units_gone(nr);
	}
	wake_up_all(&hugetlb_deferred_waitq);
	cond_resched();
}

/*
 * Claim up to @max units at or after @start, below @end, that follow each other.
 * Return: how many, the first of them in @unit.
 */
static unsigned long hugetlb_claim(struct hugetlb_range *range, unsigned long start,
				   unsigned long end, unsigned long max, unsigned long *unit)
{
	unsigned long first, last;

	lockdep_assert_held(&hugetlb_lock);
	first = find_next_bit(range->unbuilt, end, start);
	if (first >= end)
		return 0;
	last = find_next_zero_bit(range->unbuilt, min(end, first + max), first);
	bitmap_clear(range->unbuilt, first, last - first);
	bitmap_set(range->building, first, last - first);
	WRITE_ONCE(range->nr_unbuilt, range->nr_unbuilt - (last - first));
	WRITE_ONCE(range->nr_building, range->nr_building + last - first);
	*unit = first;
	return last - first;
}

/*
 * Claim and build what is built at a time of a range. hugetlb_lock is held, and
 * dropped meanwhile. Return: false if the range has nothing left.
 */
static bool hugetlb_build_next(struct hugetlb_range *range, enum vm_event_item item)
	__must_hold(&hugetlb_lock)
{
	unsigned long unit, nr;

	if (!range->nr_unbuilt)
		return false;
	nr = hugetlb_claim(range, range->next, range->nr_units, hugetlb_batch(range->h), &unit);
	if (!nr)
		nr = hugetlb_claim(range, 0, range->nr_units, hugetlb_batch(range->h), &unit);
	range->next = unit + nr;
	spin_unlock_irq(&hugetlb_lock);
	hugetlb_build(range, unit, nr, item);
	spin_lock_irq(&hugetlb_lock);
	return true;
}

/* Wait until units got into the free lists. hugetlb_lock is held, and dropped. */
static void hugetlb_wait_build(void)
	__must_hold(&hugetlb_lock)
{
	unsigned long builds = hugetlb_builds;

	wait_event_lock_irq(hugetlb_deferred_waitq, builds != hugetlb_builds, hugetlb_lock);
}

static bool hugetlb_range_is(const struct hugetlb_range *range, struct hstate *h, int nid)
{
	return range->h == h && (nid == NUMA_NO_NODE || zone_to_nid(range->zone) == nid);
}

/* Can the caller use what is in a range? It may want to pin it for long. */
static bool hugetlb_range_suits(const struct hugetlb_range *range, struct hstate *h, int nid)
{
	return hugetlb_range_is(range, h, nid) &&
	       (zone_idx(range->zone) != ZONE_MOVABLE || !(current->flags & PF_MEMALLOC_PIN));
}

/* Units that suit the caller and that somebody builds */
static unsigned long hugetlb_units_building(struct hstate *h, int nid)
{
	struct hugetlb_range *range;
	unsigned long nr = 0;

	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		if (hugetlb_range_suits(range, h, nid))
			nr += range->nr_building;
	}
	return nr;
}

/**
 * hugetlb_deferred_unbuilt - how many pages of a pool are not built
 * @h: the hstate
 * @nid: the node, or NUMA_NO_NODE for all
 *
 * Context: any.
 * Return: huge pages.
 */
unsigned long hugetlb_deferred_unbuilt(struct hstate *h, int nid)
{
	struct hugetlb_range *range;
	unsigned long nr = 0;

	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		if (!hugetlb_range_is(range, h, nid))
			continue;
		/* In this order no unit is missed, which goes from one to the other. */
		nr += READ_ONCE(range->nr_unbuilt);
		nr += READ_ONCE(range->nr_building);
	}
	return nr * hugetlb_unit_huge(h);
}

/* hugetlb_deferred_none() while pages are unbuilt: the node as an error, which is no folio */
struct folio *__hugetlb_deferred_none(struct hstate *h, int nid)
{
	struct hugetlb_range *range;

	BUILD_BUG_ON(MAX_NUMNODES > MAX_ERRNO);
	lockdep_assert_held(&hugetlb_lock);
	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		if (hugetlb_range_suits(range, h, nid) &&
		    (range->nr_unbuilt || range->nr_building))
			return ERR_PTR(-1 - nid);
	}
	return NULL;
}

/* Build some of a node, or wait for who does. False if there is nothing left. */
static bool hugetlb_build_node(struct hstate *h, int nid)
	__must_hold(&hugetlb_lock)
{
	struct hugetlb_range *range;

	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		if (hugetlb_range_suits(range, h, nid) &&
		    hugetlb_build_next(range, DEFERRED_INIT_DEMAND))
			return true;
	}
	if (!hugetlb_units_building(h, nid))
		return false;
	hugetlb_wait_build();
	return true;
}

/* hugetlb_deferred_again() with what __hugetlb_deferred_none() returned */
void __hugetlb_deferred_build(struct hstate *h, struct folio *none)
{
	hugetlb_build_node(h, -1 - PTR_ERR(none));
}

struct hugetlb_build_work {
	struct work_struct	work;
	int			nid;
	bool			built;
};

static void hugetlb_build_one(struct work_struct *work)
{
	struct hugetlb_build_work *build = container_of(work, struct hugetlb_build_work, work);
	struct hugetlb_range *range;

	guard(spinlock_irq)(&hugetlb_lock);
	for (range = hugetlb_ranges; !build->built && range < hugetlb_ranges_end; range++) {
		if (zone_to_nid(range->zone) == build->nid)
			build->built = hugetlb_build_next(range, DEFERRED_INIT_BACKGROUND);
	}
}

/*
 * hugetlb_deferred_build_one() while pages are unbuilt
 *
 * Whoever takes a page may have to wait for the one that is being built. So what
 * somebody of low priority wants is built at normal priority, one step at a time.
 */
bool __hugetlb_deferred_build_one(int nid)
{
	struct hugetlb_build_work build = { .nid = nid };

	INIT_WORK_ONSTACK(&build.work, hugetlb_build_one);
	queue_work_node(nid, system_dfl_wq, &build.work);
	flush_work(&build.work);
	destroy_work_on_stack(&build.work);
	return build.built;
}

/* Free pages in the lists of some nodes */
static unsigned long hugetlb_listed(struct hstate *h, const nodemask_t *nodes)
{
	unsigned long nr = 0;
	int nid;

	for_each_node_mask(nid, *nodes)
		nr += h->free_huge_pages_node[nid] - hugetlb_deferred_unbuilt(h, nid);
	return nr;
}

/* hugetlb_deferred_ensure() while pages are unbuilt */
bool __hugetlb_deferred_ensure(struct hstate *h, const nodemask_t *nodes, unsigned long nr)
{
	bool more = true, dropped = false;
	int nid;

	lockdep_assert_held(&hugetlb_lock);
	while (more && hugetlb_listed(h, nodes) < nr) {
		more = false;
		for_each_node_mask(nid, *nodes)
			more |= hugetlb_build_node(h, nid);
		dropped |= more;
	}
	return dropped;
}

/* hugetlb_deferred_ensure_surplus() while pages are unbuilt */
void __hugetlb_deferred_ensure_surplus(struct hstate *h, unsigned long nr)
{
	int nid;

	if (hstate_is_gigantic_no_runtime(h))
		return;
	for_each_node_state(nid, N_MEMORY) {
		nodemask_t node = nodemask_of_node(nid);

		__hugetlb_deferred_ensure(h, &node, min(nr, h->surplus_huge_pages_node[nid]));
	}
}

/* Give back up to @max units of a node, the last ones. Return: how many. */
static unsigned long hugetlb_release_node(struct hstate *h, int nid, unsigned long max)
{
	unsigned long unit, pfn, huge = hugetlb_unit_huge(h), nr = 0;
	struct hugetlb_range *range;

	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		if (!hugetlb_range_is(range, h, nid) || !range->pending)
			continue;
		while (nr < max && range->nr_unbuilt) {
			unit = find_last_bit(range->unbuilt, range->end);
			range->end = unit;
			pfn = hugetlb_unit_pfn(range, unit);
			trace_hugetlb_deferred_release(nid, huge_page_order(h), pfn, huge);
			__clear_bit(unit, range->unbuilt);
			WRITE_ONCE(range->nr_unbuilt, range->nr_unbuilt - 1);
			deferred_init_release(range->zone, pfn, hugetlb_unit_blocks(h));
			nr++;
		}
	}
	h->nr_huge_pages -= nr * huge;
	h->nr_huge_pages_node[nid] -= nr * huge;
	h->free_huge_pages -= nr * huge;
	h->free_huge_pages_node[nid] -= nr * huge;
	hugetlb_units_gone(nr);
	return nr;
}

/* hugetlb_deferred_release() while pages are unbuilt */
bool __hugetlb_deferred_release(struct hstate *h, unsigned long min_count, nodemask_t *nodes)
{
	unsigned long persistent = h->nr_huge_pages - h->surplus_huge_pages;
	unsigned long excess, units, share, nr = 0;
	int nr_nodes, nid;

	lockdep_assert_held(&hugetlb_lock);
	if (persistent <= min_count || hstate_is_gigantic_no_runtime(h))
		return false;
	excess = persistent - min_count;
	units = min(excess / hugetlb_unit_huge(h),
		    max(HUGETLB_RELEASE_AT_ONCE / hugetlb_unit_blocks(h), 1));
	if (units) {
		share = DIV_ROUND_UP(units, nodes_weight(*nodes));
		for_each_node_mask_to_free(h, nr_nodes, nid, nodes)
			nr += hugetlb_release_node(h, nid, min(share, units - nr));
	}
	if (nr) {
		spin_unlock_irq(&hugetlb_lock);
		cond_resched();
		spin_lock_irq(&hugetlb_lock);
		return true;
	}
	/* Less than a unit, or no unit that can be given back */
	if (hugetlb_listed(h, nodes) >= excess)
		return false;
	for_each_node_mask_to_free(h, nr_nodes, nid, nodes) {
		if (hugetlb_build_node(h, nid))
			return true;
	}
	return false;
}

/* Build what is unbuilt in a part of a range, and wait for what others build. */
static void hugetlb_build_part(struct hugetlb_range *range, unsigned long start,
			       unsigned long end)
{
	unsigned long unit, nr;

	spin_lock_irq(&hugetlb_lock);
	for (;;) {
		nr = hugetlb_claim(range, start, end, hugetlb_batch(range->h), &unit);
		if (nr) {
			spin_unlock_irq(&hugetlb_lock);
			hugetlb_build(range, unit, nr, DEFERRED_INIT_DEMAND);
			spin_lock_irq(&hugetlb_lock);
		} else if (find_next_bit(range->building, end, start) < end) {
			hugetlb_wait_build();
		} else {
			break;
		}
	}
	spin_unlock_irq(&hugetlb_lock);
}

static void hugetlb_deferred_init_range(unsigned long start_pfn, unsigned long end_pfn)
{
	struct hugetlb_range *range;

	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		unsigned long pages = hugetlb_unit_pages(range->h);
		unsigned long start = max(start_pfn, range->pfn);
		unsigned long end = min(end_pfn, hugetlb_unit_pfn(range, range->nr_units));

		if (start < end)
			hugetlb_build_part(range, (start - range->pfn) / pages,
					   DIV_ROUND_UP(end - range->pfn, pages));
	}
}

/* Gigantic pages that memblock gave, before there are zones to look at */
struct hugetlb_reserved {
	struct hstate *h;
	unsigned long pfn;
	unsigned long nr;
	int nid;
};

/* Each may be split in two. */
static struct hugetlb_reserved hugetlb_reserved[HUGETLB_RANGES / 2] __initdata;
static unsigned int hugetlb_nr_reserved __initdata;

/* Return: did the page fit on an end, in the same zone? */
static bool __init hugetlb_reserved_extend(struct hugetlb_reserved *reserved, struct hstate *h,
					   int nid, unsigned long pfn)
{
	unsigned long pages = pages_per_huge_page(h);
	unsigned long first = min(reserved->pfn, pfn);

	if (reserved->h != h || reserved->nid != nid)
		return false;
	if (pfn + pages != reserved->pfn && reserved->pfn + reserved->nr * pages != pfn)
		return false;
	if (pfn_range_intersects_zones(nid, first, (reserved->nr + 1) * pages))
		return false;
	reserved->pfn = first;
	reserved->nr++;
	return true;
}

/*
 * Do pools of gigantic pages leave room for the memory map of all memory? With the
 * vmemmap optimization, pages that are built at boot need hardly any, while those that
 * are built later give theirs back only then.
 */
static bool __init hugetlb_deferred_room(void)
{
	phys_addr_t all = memblock_phys_mem_size(), pools = 0;
	struct hstate *h;

	for_each_hstate(h) {
		if (IS_ENABLED(CONFIG_SPARSEMEM_VMEMMAP_PREINIT) && hstate_is_gigantic(h) &&
		    hugetlb_deferred_hvo(h))
			pools += min(h->max_huge_pages, all >> huge_page_shift(h)) <<
				 huge_page_shift(h);
	}
	return pools + 2 * PHYS_PFN(all) * sizeof(struct page) <= all;
}

/**
 * hugetlb_deferred_reserve - take note of a gigantic page instead of building it
 * @h: its hstate
 * @nid: its node
 * @pfn: its first pfn, allocated from memblock
 *
 * Context: early boot.
 * Return: false if it is to be built at boot.
 */
bool __init hugetlb_deferred_reserve(struct hstate *h, int nid, unsigned long pfn)
{
	unsigned long pages = pages_per_huge_page(h);
	struct hugetlb_reserved *reserved;

	/* Pages of CMA areas, and those that are about to be given back */
	if (!hugetlb_deferred || hugetlb_early_cma(h) ||
	    pfn_range_intersects_zones(nid, pfn, pages) || !hugetlb_deferred_room())
		return false;

	/* Nodes take turns, so the last one noted need not be the neighbour. */
	reserved = hugetlb_reserved + hugetlb_nr_reserved;
	while (--reserved >= hugetlb_reserved) {
		if (hugetlb_reserved_extend(reserved, h, nid, pfn))
			break;
	}
	if (reserved < hugetlb_reserved) {
		if (hugetlb_nr_reserved == ARRAY_SIZE(hugetlb_reserved))
			return false;
		hugetlb_reserved[hugetlb_nr_reserved++] = (struct hugetlb_reserved){
			.h = h, .pfn = pfn, .nr = 1, .nid = nid
		};
	}
	/* If it fails, struct pages are written that nobody looks at. */
	memblock_reserved_mark_noinit(PFN_PHYS(pfn), huge_page_size(h));
	return true;
}

/* Enter units in a new range, and in their pool. */
static bool __init hugetlb_add_range(struct hstate *h, struct zone *zone, unsigned long pfn,
				     unsigned long nr, bool pending)
{
	struct hugetlb_range *range = hugetlb_ranges_end;
	unsigned long longs = BITS_TO_LONGS(nr), huge = nr * hugetlb_unit_huge(h);
	int nid = zone_to_nid(zone);

	if (range == hugetlb_ranges + ARRAY_SIZE(hugetlb_ranges))
		return false;
	range->unbuilt = alloc_pages_exact_nid(nid, 2 * longs * sizeof(long),
					       GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	if (!range->unbuilt)
		return false;
	range->building = range->unbuilt + longs;
	bitmap_set(range->unbuilt, 0, nr);
	range->h = h;
	range->zone = zone;
	range->pfn = pfn;
	range->nr_units = nr;
	range->end = nr;
	range->nr_unbuilt = nr;
	range->pending = pending;
	hugetlb_ranges_end++;
	hugetlb_units_left += nr;

	h->nr_huge_pages += huge;
	h->nr_huge_pages_node[nid] += huge;
	h->free_huge_pages += huge;
	h->free_huge_pages_node[nid] += huge;
	return true;
}

static void __init hugetlb_add_reserved(struct hstate *h, struct zone *zone, unsigned long pfn,
					unsigned long nr)
{
	unsigned long blocks = nr * hugetlb_unit_blocks(h);
	int nid = zone_to_nid(zone);
	bool pending;

	if (!nr)
		return;
	pending = deferred_init_hold_reserved(zone, pfn, blocks);
	if (hugetlb_add_range(h, zone, pfn, nr, pending))
		return;
	pr_warn("no memory to keep track of %lu pages of node %d: they are %s\n", nr, nid,
		pending ? "given back" : "lost");
	if (pending)
		deferred_init_release(zone, pfn, blocks);
	h->max_huge_pages -= nr;
	if (h->max_huge_pages_node[nid])
		h->max_huge_pages_node[nid] -= nr;
}

/* What the zone's map does not cover makes a range of its own, and is built at boot. */
static void __init hugetlb_split_reserved(const struct hugetlb_reserved *reserved)
{
	struct zone *zone = NODE_DATA(reserved->nid)->node_zones;
	unsigned long pages = hugetlb_unit_pages(reserved->h);
	unsigned long first, lead;

	while (!zone_spans_pfn(zone, reserved->pfn))
		zone++;
	first = deferred_init_first_pfn(zone);
	lead = first <= reserved->pfn ? 0 :
	       min(reserved->nr, DIV_ROUND_UP(first - reserved->pfn, pages));
	hugetlb_add_reserved(reserved->h, zone, reserved->pfn, lead);
	hugetlb_add_reserved(reserved->h, zone, reserved->pfn + lead * pages, reserved->nr - lead);
}

/* Whose pages deferred_init_hold() is asked for */
static struct hstate *hugetlb_holding __initdata;

static bool __init hugetlb_hold(struct zone *zone, unsigned long pfn, unsigned long nr)
{
	return hugetlb_add_range(hugetlb_holding, zone, pfn, nr, true);
}

/* Set up to @units of a node aside. Return: how many. */
static unsigned long __init hugetlb_hold_node(struct hstate *h, int nid, unsigned long units)
{
	enum zone_type highest = gfp_zone(htlb_alloc_mask(h));
	struct zone *zones = NODE_DATA(nid)->node_zones;
	unsigned long leave, above = 0, got = 0;

	hugetlb_holding = h;
	for (int i = highest; i >= 0 && got < units; i--) {
		/* What little there is besides, devices may need. */
		if (IS_ENABLED(CONFIG_ZONE_DMA) && i == 0 && above)
			break;
		leave = max(zone_managed_pages(zones + i) / HUGETLB_LEAVE_SHARE,
			    HUGETLB_LEAVE_PAGES) + above / HUGETLB_LOWMEM_SHARE;
		above += zone_managed_pages(zones + i);
		got += deferred_init_hold(zones + i, DIV_ROUND_UP(leave, MAX_ORDER_NR_PAGES),
					  units - got, hugetlb_hold);
	}
	return got;
}

/* What is left to allocate, hugetlb_init() allocates as ever. */
static void __init hugetlb_hold_pool(struct hstate *h)
{
	unsigned long huge = hugetlb_unit_huge(h), left, got, share;
	bool of_nodes = false;
	int nid;

	for_each_online_node(nid) {
		if (!h->max_huge_pages_node[nid])
			continue;
		of_nodes = true;
		hugetlb_hold_node(h, nid, h->max_huge_pages_node[nid] / huge);
	}
	if (of_nodes)
		return;

	/* The same of each node, and more of some if others have less. */
	left = h->max_huge_pages / huge;
	do {
		share = DIV_ROUND_UP(left, num_node_state(N_MEMORY));
		got = 0;
		for_each_node_state(nid, N_MEMORY)
			got += hugetlb_hold_node(h, nid, min(share, left - got));
		left -= got;
	} while (left && got);
}

static void __init hugetlb_deferred_setup(void)
{
	struct hugetlb_reserved *reserved;
	struct hstate *h;

	for (reserved = hugetlb_reserved; reserved < hugetlb_reserved + hugetlb_nr_reserved;
	     reserved++)
		hugetlb_split_reserved(reserved);
	for_each_hstate(h) {
		if (!hstate_is_gigantic(h) && h->max_huge_pages)
			hugetlb_hold_pool(h);
	}
	if (hugetlb_ranges_end > hugetlb_ranges)
		static_branch_enable(&hugetlb_deferred_key);
}

static const struct deferred_holder hugetlb_deferred_holder = {
	.setup		= hugetlb_deferred_setup,
	.init_range	= hugetlb_deferred_init_range,
};

/**
 * hugetlb_deferred_begin - are pools to be set aside, and built later?
 *
 * Context: early boot, once the parameters of huge pages are known.
 * Return: true if all of them must be known by now.
 */
bool __init hugetlb_deferred_begin(void)
{
	if (!hugetlb_deferred || !hugepages_supported())
		return false;
	if (!deferred_init_wanted()) {
		pr_warn("hugetlb_deferred=on needs deferred_init=lazy or background: pools are built now\n");
		hugetlb_deferred = false;
		return false;
	}
	deferred_init_set_holder(&hugetlb_deferred_holder);
	return true;
}

/* Builds the pools of a node, if nobody else wants the CPU. */
static int hugetlb_build_thread(void *data)
{
	int nid = (long)data;

	sched_set_normal(current, MAX_NICE);
	while (hugetlb_deferred_build_one(nid))
		cond_resched();
	return 0;
}

static int __init hugetlb_deferred_late(void)
{
	struct hugetlb_range *range;
	struct task_struct *task;
	nodemask_t nodes;

	nodes_clear(nodes);
	for (range = hugetlb_ranges; range < hugetlb_ranges_end; range++) {
		/* Nobody but its pool knows of it. */
		if (!range->pending)
			hugetlb_build_part(range, 0, range->nr_units);
		node_set(zone_to_nid(range->zone), nodes);
	}
	if (!deferred_init_threads_wanted())
		return 0;
	for (int nid = first_node(nodes); nid < MAX_NUMNODES; nid = next_node(nid, nodes)) {
		task = kthread_create_on_node(hugetlb_build_thread, (void *)(long)nid, nid,
					      "hugetlb_build/%d", nid);
		if (IS_ERR(task))
			pr_warn("no thread for node %d: its pages are built when taken\n", nid);
		else
			wake_up_process(task);
	}
	return 0;
}
late_initcall(hugetlb_deferred_late);

#ifdef CONFIG_HUGETLB_DEFERRED_KUNIT_TEST
#include "hugetlb_deferred_test.c"
#endif
