// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory map on demand.
 *
 * With CONFIG_DEFERRED_STRUCT_PAGE_INIT the struct pages of the highest zone of
 * each node are initialised late in boot, and boot waits for it. Here nobody
 * waits: a block of the memory map is initialised when an allocation needs its
 * pages (deferred_init=lazy), or by idle-priority threads behind user space
 * (deferred_init=background). All zones of a node are deferred, but for its first
 * section.
 *
 * The unit is a block of MAX_ORDER_NR_PAGES, aligned to its size. The buddy
 * allocator never looks across such a boundary, so blocks can be initialised in
 * any order and by any number of CPUs at the same time. Two rules make the rest
 * of the kernel safe:
 *
 *  - Only a block that is free as a whole is ever deferred. A block with a
 *    reserved page, a hole or a zone boundary in it is initialised before the
 *    allocator comes up. So no page in use, and none that may be freed later
 *    without having been allocated first, has a struct page that is pending.
 *  - A pending block counts as free memory: in managed_pages, NR_FREE_PAGES and
 *    all that is derived from them. NR_DEFERRED tells how much of NR_FREE_PAGES
 *    it is. Whoever gates reclaim looks at the sum, whoever wants a page from a
 *    free list looks at the difference.
 *
 * The state of a block is kept where that of its section is, in struct
 * mem_section_usage. While it is pending the subsections of the block do not exist:
 * pfn_valid() is false for its pages, and pfn_to_online_page() returns NULL, so that
 * code which walks pfns passes it by like a hole. Besides, there are two bits:
 *
 *	free	anybody may claim the block, by clearing this bit
 *	left	it is not in the free lists yet
 *
 * There is no lock: the claim is one atomic operation, and the work is done with
 * interrupts as the caller has them. Somebody who is interrupted in the middle of a
 * block keeps nobody from claiming the next one. Who needs all blocks of a range
 * sleeps until none is left.
 *
 * Only sections that are memory of one zone of one node throughout are deferred, so
 * that a missing subsection means nothing else. Such a section is not marked as one of
 * boot (SECTION_IS_EARLY) until nothing of it is left: pfn_valid() takes those for
 * valid as a whole.
 */
#define pr_fmt(fmt) "deferred_init: " fmt

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/irq_work.h>
#include <linux/kexec_handover.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/page-isolation.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sysfs.h>
#include <linux/suspend.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "deferred_init.h"
#include "internal.h"
#include "memmap_write.h"
#include "mm_init.h"
#include "page_alloc.h"
#include "sparse.h"

#define CREATE_TRACE_POINTS
#include <trace/events/deferred_init.h>

/*
 * Free pages that a zone keeps initialised ahead of demand. Enough for
 * allocations that cannot grow the zone (ALLOC_NOLOCK) and for fallbacks to
 * find whole pageblocks; it does not depend on the size of the machine.
 */
#define DEFERRED_RESERVE_PAGES	max_t(unsigned long, SZ_64M >> PAGE_SHIFT, 2 * MAX_ORDER_NR_PAGES)

/*
 * What the deferred_init thread initialises ahead of demand, beyond that: what was
 * used up in as many of its rounds, but no more than a limit.
 */
#define DEFERRED_AHEAD_ROUNDS	2
#define DEFERRED_AHEAD_ROUND	(HZ / 10)
#define DEFERRED_AHEAD_MAX	(SZ_1G >> PAGE_SHIFT)

enum deferred_init_mode {
	DEFERRED_MODE_WAIT,
	DEFERRED_MODE_BACKGROUND,
	DEFERRED_MODE_LAZY,
};

static const char * const deferred_init_modes[] = {
	[DEFERRED_MODE_WAIT]		= "wait",
	[DEFERRED_MODE_BACKGROUND]	= "background",
	[DEFERRED_MODE_LAZY]		= "lazy",
};

DEFINE_STATIC_KEY_FALSE(deferred_init_key);

static enum deferred_init_mode deferred_init_mode __ro_after_init;
/* Blocks that are left, and one for boot, until the thread runs. */
static atomic_long_t deferred_left = ATOMIC_LONG_INIT(1);
static unsigned long deferred_nr_pages;
static struct workqueue_struct *deferred_init_wq;
static DECLARE_COMPLETION(deferred_init_all_done);

/* What the deferred_init thread is asked for. */
enum deferred_init_request {
	DEFERRED_REQUEST_REFILL,
	DEFERRED_REQUEST_AHEAD,
	DEFERRED_REQUEST_FINISH,
};

static unsigned long deferred_init_requests;
static struct task_struct *deferred_init_task;
static DECLARE_WAIT_QUEUE_HEAD(deferred_init_waitq);

/* Returns -EINVAL if it is no mode */
static int __init deferred_init_mode_parse(const char *str)
{
	return str ? match_string(deferred_init_modes, ARRAY_SIZE(deferred_init_modes), str)
		   : -EINVAL;
}

static int __init deferred_init_param(char *str)
{
	int mode = deferred_init_mode_parse(str);

	if (mode < 0)
		pr_warn("unknown mode '%s', known are wait, background and lazy; using %s\n",
			str ?: "", deferred_init_modes[deferred_init_mode]);
	else
		deferred_init_mode = mode;
	return 0;
}
early_param("deferred_init", deferred_init_param);

/* What there is to know of the section of @pfn, NULL if nothing of it is left. */
static struct mem_section_usage *deferred_usage(unsigned long pfn)
{
	unsigned long nr = pfn_to_section_nr(pfn);
	struct mem_section *ms = nr < NR_MEM_SECTIONS ? __nr_to_section(nr) : NULL;
	struct mem_section_usage *usage = NULL;

	/* Those of boot are never freed, those of memory that was added after a grace period. */
	guard(rcu)();
	if (valid_section(ms))
		usage = READ_ONCE(ms->usage);
	/* Pairs with smp_store_release() in deferred_block_done(). */
	return usage && smp_load_acquire(&usage->deferred.zone) ? usage : NULL;
}

static unsigned int deferred_block(unsigned long pfn)
{
	return (pfn & ~PAGE_SECTION_MASK) / MAX_ORDER_NR_PAGES;
}

static unsigned long deferred_block_pfn(unsigned long pfn, unsigned int block)
{
	return (pfn & PAGE_SECTION_MASK) + block * MAX_ORDER_NR_PAGES;
}

/* Where the part of [@pfn, @end_pfn) that lies in the section of @pfn ends */
static unsigned long deferred_piece_end(unsigned long pfn, unsigned long end_pfn)
{
	return min(SECTION_ALIGN_UP(pfn + 1), end_pfn);
}

/* Claim the first free block at or after @block, below @end; @end if there is none. */
static unsigned int deferred_claim(struct mem_section_deferred *deferred,
				   unsigned int block, unsigned int end)
{
	for_each_set_bit_from(block, deferred->free, end) {
		if (test_and_clear_bit(block, deferred->free))
			return block;
	}
	return end;
}

/* The same by pfns, for blocks of one zone */
static unsigned long deferred_claim_range(struct zone *zone, unsigned long pfn,
					  unsigned long end_pfn)
{
	struct mem_section_usage *usage;
	unsigned int block, end;
	unsigned long next;

	for (; pfn < end_pfn; pfn = next) {
		next = deferred_piece_end(pfn, end_pfn);
		usage = deferred_usage(pfn);
		if (!usage || usage->deferred.zone != zone)
			continue;
		end = deferred_block(next - 1) + 1;
		block = deferred_claim(&usage->deferred, deferred_block(pfn), end);
		if (block < end)
			return deferred_block_pfn(pfn, block);
	}
	return end_pfn;
}

/* Claim the next block of a zone; its end if there is none. */
static unsigned long deferred_claim_next(struct zone *zone)
{
	unsigned long end_pfn = zone_end_pfn(zone);
	unsigned long start = max(READ_ONCE(zone->deferred_cursor), zone->zone_start_pfn);
	unsigned long pfn = deferred_claim_range(zone, start, end_pfn);

	/* deferred_init_mark() may have given one back that was passed by. */
	if (pfn >= end_pfn && zone_page_state(zone, NR_DEFERRED)) {
		start = zone->zone_start_pfn;
		pfn = deferred_claim_range(zone, start, end_pfn);
	}
	/* Somebody else's lower value may overwrite this: a longer search. */
	if (pfn != start)
		WRITE_ONCE(zone->deferred_cursor, pfn);
	return pfn;
}

/* The first free block of a zone at or after @pfn; its end if there is none. */
static unsigned long deferred_next_free(struct zone *zone, unsigned long pfn)
{
	unsigned long end_pfn = zone_end_pfn(zone);
	struct mem_section_usage *usage;
	unsigned int block;

	for (; pfn < end_pfn; pfn = SECTION_ALIGN_UP(pfn + 1)) {
		usage = deferred_usage(pfn);
		if (!usage || usage->deferred.zone != zone)
			continue;
		block = find_next_bit(usage->deferred.free, SECTION_BLOCKS, deferred_block(pfn));
		if (block < SECTION_BLOCKS)
			return deferred_block_pfn(pfn, block);
	}
	return end_pfn;
}

static void deferred_init_wake(struct irq_work *work)
{
	wake_up(&deferred_init_waitq);
}

/*
 * Lazy: a self-IPI is lost if it is raised while a CPU is about to be suspended, and
 * all irq_work after it then as well. A tick is soon enough.
 */
static struct irq_work deferred_init_irq_work = IRQ_WORK_INIT_LAZY(deferred_init_wake);

/*
 * Have the deferred_init thread do what an allocation cannot do itself: sleep, or
 * take zone->lock. The thread is there from boot on: a worker that had to be
 * created just when memory runs out could not be. Any context, including NMI.
 */
static void deferred_init_request(enum deferred_init_request request)
{
	/* While the bit is set nobody else asks: the thread has to be woken soon. */
	guard(preempt)();
	set_bit(request, &deferred_init_requests);
	irq_work_queue(&deferred_init_irq_work);
}

static void deferred_init_migratetype(unsigned long pfn)
{
	init_pageblock_migratetype(pfn_to_page(pfn),
				   kho_scratch_migratetype(pfn, MIGRATE_MOVABLE), false);
}

static void deferred_init_block_pages(struct zone *zone, unsigned long pfn,
				      enum memmap_page_kind kind)
{
	unsigned long end_pfn = pfn + MAX_ORDER_NR_PAGES;

	memmap_write(zone, pfn, MAX_ORDER_NR_PAGES, kind);
	for (; pfn < end_pfn; pfn += pageblock_nr_pages)
		deferred_init_migratetype(pfn);
}

static bool deferred_usage_pending(const struct mem_section_usage *usage, unsigned long pfn)
{
	return !test_bit_acquire(subsection_map_index(pfn), usage->subsection_map);
}

/* The struct pages of a block are written: let them be seen. */
static void deferred_set_valid(struct mem_section_usage *usage, unsigned long pfn)
{
	unsigned int first = subsection_map_index(pfn);
	unsigned int end = first + MAX_ORDER_NR_PAGES / PAGES_PER_SUBSECTION;

	/* Pairs with test_bit_acquire(), there and in pfn_section_valid(). */
	smp_mb__before_atomic();
	for (; first < end; first++)
		set_bit(first, usage->subsection_map);
}

/*
 * A block is in the free lists, or otherwise done. With the last one its section is one
 * of boot like any other. That comes before its bit is cleared, so who sees that none is
 * left may remove the section.
 */
static void deferred_block_done(struct mem_section_usage *usage, unsigned long pfn)
{
	if (atomic_dec_and_test(&usage->deferred.nr_left)) {
		set_bit(SECTION_IS_EARLY_BIT, &__pfn_to_section(pfn)->section_mem_map);
		/* Pairs with smp_load_acquire() in deferred_usage(). */
		smp_store_release(&usage->deferred.zone, NULL);
	}
	/* Pairs with test_bit_acquire() in deferred_init_blocks(). */
	clear_bit_unlock(deferred_block(pfn), usage->deferred.left);
}

/* Some blocks are done, and with them perhaps all. */
static void deferred_init_count_done(long nr)
{
	if (atomic_long_sub_and_test(nr, &deferred_left))
		deferred_init_request(DEFERRED_REQUEST_FINISH);
}

/*
 * Initialise the struct pages of a claimed block and hand it to the buddy
 * allocator. With @accept the block can be allocated at once, also where a guest
 * has to accept its memory first.
 */
static void deferred_init_block(unsigned long pfn, enum vm_event_item item, bool accept)
{
	struct mem_section_usage *usage = deferred_usage(pfn);
	struct zone *zone = usage->deferred.zone;
	struct page *page = pfn_to_page(pfn);

	trace_deferred_init_block(zone_to_nid(zone), pfn, MAX_ORDER_NR_PAGES,
				  item == DEFERRED_INIT_DEMAND);

	deferred_init_block_pages(zone, pfn, MEMMAP_PAGE_FREE);
	deferred_set_valid(usage, pfn);
	if (accept)
		accept_memory(page_to_phys(page), PAGE_SIZE << MAX_PAGE_ORDER);

	/*
	 * The block moves from the deferred to the buddy part of NR_FREE_PAGES.
	 * In this order nobody sees less free memory than there is: that could
	 * start reclaim too early.
	 */
	__free_pages_core(page, MAX_PAGE_ORDER, MEMINIT_FREE);
	mod_zone_page_state(zone, NR_DEFERRED, -(long)MAX_ORDER_NR_PAGES);
	mod_zone_page_state(zone, NR_FREE_PAGES, -(long)MAX_ORDER_NR_PAGES);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, -(long)MAX_ORDER_NR_PAGES);
	count_vm_events(item, MAX_ORDER_NR_PAGES);

	deferred_block_done(usage, pfn);
	deferred_init_count_done(1);
}

/*
 * Free initialised memory of a zone in whole pageblocks. Single free pages do not
 * count: with those alone, an allocation of another migratetype would have to
 * break up a pageblock, which a zone with all its memory there would not do.
 */
static long deferred_init_free_pages(struct zone *zone)
{
	/* Which free pages of CMA lie in whole pageblocks nobody counts: at most all. */
	return zone_page_state(zone, NR_FREE_PAGES_BLOCKS) -
	       zone_page_state(zone, NR_FREE_CMA_PAGES) - zone_page_state(zone, NR_DEFERRED) -
	       READ_ONCE(zone->nr_free_highatomic);
}

/* Claim and initialise the next block of a zone; false if there is none. */
static bool deferred_init_next(struct zone *zone, enum vm_event_item item)
{
	unsigned long pfn = deferred_claim_next(zone);

	if (pfn >= zone_end_pfn(zone))
		return false;
	deferred_init_block(pfn, item, true);
	return true;
}

/*
 * Is growth to be left to the deferred_init thread, if there is one yet? A block is
 * soon initialised, but clearing or poisoning its pages as they are freed takes far
 * longer than interrupts should be off.
 */
static bool deferred_init_leave(void)
{
	return irqs_disabled() && !IS_ERR_OR_NULL(READ_ONCE(deferred_init_task)) &&
	       (want_init_on_free() || page_poisoning_enabled_static());
}

void __deferred_init_reserve(struct zone *zone, unsigned int alloc_flags)
{
	long needed = DEFERRED_RESERVE_PAGES;
	long free = deferred_init_free_pages(zone);

	if (free >= needed || !zone_page_state(zone, NR_DEFERRED)) {
		/* What changes meanwhile is seen with the next pageblock, or the lack of one. */
		clear_bit(ZONE_DEFERRED_CHECK, &zone->flags);
		return;
	}

	/* ALLOC_NOLOCK must not spin on zone->lock, which freeing a block takes. */
	if ((alloc_flags & ALLOC_NOLOCK) || deferred_init_leave()) {
		if (free < needed / 2 &&
		    !test_bit(DEFERRED_REQUEST_REFILL, &deferred_init_requests))
			deferred_init_request(DEFERRED_REQUEST_REFILL);
		return;
	}
	/* Leave it to others to fill up, to keep interrupts off for less. */
	if (irqs_disabled() && free >= needed / 4)
		return;
	deferred_init_next(zone, DEFERRED_INIT_DEMAND);
	/* Not before there is a thread: interrupts may not work yet. */
	if (deferred_init_mode == DEFERRED_MODE_LAZY && READ_ONCE(deferred_init_task) &&
	    !test_bit(DEFERRED_REQUEST_AHEAD, &deferred_init_requests))
		deferred_init_request(DEFERRED_REQUEST_AHEAD);
}

static void deferred_init_refill(void)
{
	struct zone *zone;

	for_each_populated_zone(zone) {
		while (zone_page_state(zone, NR_DEFERRED) &&
		       deferred_init_free_pages(zone) < (long)DEFERRED_RESERVE_PAGES &&
		       deferred_init_next(zone, DEFERRED_INIT_DEMAND))
			cond_resched();
	}
}

bool __deferred_init_grow(struct zone *zone, unsigned int alloc_flags)
{
	return !(alloc_flags & ALLOC_NOLOCK) &&
	       deferred_init_next(zone, DEFERRED_INIT_DEMAND);
}

bool __deferred_init_wait(gfp_t gfp_mask, const struct alloc_context *ac)
{
	struct zoneref *z = ac->preferred_zoneref;
	struct zone *zone;
	bool busy = false;

	/*
	 * Spinning could deadlock: with a lock that the caller holds, and that an
	 * interrupt on the other CPU waits for. And who makes memory free, or is about
	 * to, has reserves and waits for nobody.
	 */
	if (!gfpflags_allow_blocking(gfp_mask) || (current->flags & PF_MEMALLOC) ||
	    tsk_is_oom_victim(current))
		return false;

	for_next_zone_zonelist_nodemask(zone, z, ac->highest_zoneidx, ac->nodemask) {
		/* A zone with blocks that are free was left out for another reason. */
		if (cpuset_zone_allowed(zone, gfp_mask) && zone_page_state(zone, NR_DEFERRED) &&
		    deferred_next_free(zone, zone->zone_start_pfn) >= zone_end_pfn(zone))
			busy = true;
	}
	if (busy)
		schedule_timeout_uninterruptible(1);
	return busy;
}

bool deferred_init_pending(unsigned long pfn)
{
	struct mem_section_usage *usage = deferred_usage(pfn);

	return usage && deferred_usage_pending(usage, pfn);
}
EXPORT_SYMBOL_GPL(deferred_init_pending);

bool __deferred_init_zone_pending(struct zone *zone, unsigned long pfn)
{
	struct mem_section_usage *usage = deferred_usage(pfn);

	return usage && usage->deferred.zone == zone && deferred_usage_pending(usage, pfn);
}

/**
 * deferred_init_claimable - may anybody have the block of @pfn?
 * @pfn: a pfn that was pending
 *
 * Context: any.
 * Return: false if somebody has it, or it is about to get into the free lists.
 */
bool deferred_init_claimable(unsigned long pfn)
{
	struct mem_section_usage *usage = deferred_usage(pfn);

	return usage && test_bit(deferred_block(pfn), usage->deferred.free);
}

/* Initialise what can be claimed in a range; true if blocks are left that others have. */
static bool deferred_init_blocks(unsigned long pfn, unsigned long end_pfn)
{
	struct mem_section_usage *usage;
	bool left = false;
	unsigned int block;

	for (pfn = ALIGN_DOWN(pfn, MAX_ORDER_NR_PAGES); pfn < end_pfn;
	     pfn += MAX_ORDER_NR_PAGES) {
		usage = deferred_usage(pfn);
		if (!usage) {
			pfn = SECTION_ALIGN_UP(pfn + 1) - MAX_ORDER_NR_PAGES;
			continue;
		}
		block = deferred_block(pfn);
		if (!test_bit_acquire(block, usage->deferred.left))
			continue;
		if (test_and_clear_bit(block, usage->deferred.free))
			deferred_init_block(pfn, DEFERRED_INIT_DEMAND, true);
		else
			left = true;
		cond_resched();
	}
	return left;
}

/**
 * deferred_init_range - initialise the struct pages of a range now
 * @start_pfn: first pfn
 * @nr_pages: number of pages
 *
 * For code that is about to work on given pfns instead of allocating: memory
 * offline, contiguous allocation. On return no page of the range is pending,
 * and those that were are free, or were taken by somebody.
 *
 * Context: process context, may sleep.
 */
void deferred_init_range(unsigned long start_pfn, unsigned long nr_pages)
{
	unsigned long end_pfn = start_pfn + nr_pages;

	if (!static_branch_unlikely(&deferred_init_key))
		return;

	while (deferred_init_blocks(start_pfn, end_pfn))
		schedule_timeout_uninterruptible(1);
}
EXPORT_SYMBOL_GPL(deferred_init_range);

/* One of those who work through the memory of a node */
struct deferred_helper {
	struct work_struct	work;
	int			nid;
	unsigned int		nr;	/* of @helpers */
	unsigned int		helpers;
};

static void deferred_init_all(struct zone *zone, unsigned long pfn, unsigned long end_pfn)
{
	while ((pfn = deferred_claim_range(zone, pfn, end_pfn)) < end_pfn) {
		deferred_init_block(pfn, DEFERRED_INIT_BACKGROUND, false);
		cond_resched();
	}
}

/* Each begins with its share, and goes on with what others left. */
static void deferred_init_help(struct work_struct *work)
{
	struct deferred_helper *helper = container_of(work, struct deferred_helper, work);
	pg_data_t *pgdat = NODE_DATA(helper->nid);
	struct zone *zone;

	for (zone = pgdat->node_zones; zone < pgdat->node_zones + MAX_NR_ZONES; zone++) {
		unsigned long share = zone->spanned_pages / helper->helpers;
		unsigned long pfn = SECTION_ALIGN_DOWN(zone->zone_start_pfn + helper->nr * share);

		deferred_init_all(zone, max(pfn, zone->zone_start_pfn), zone_end_pfn(zone));
		deferred_init_all(zone, zone->zone_start_pfn, pfn);
	}
	kfree(helper);
}

/* Have all CPUs of each node work through its memory. */
static int deferred_init_start_helpers(struct workqueue_struct *wq)
{
	struct deferred_helper *helper;
	unsigned int i, nr;
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		nr = max(cpumask_weight(cpumask_of_node(nid)), 1U);
		for (i = 0; i < nr; i++) {
			helper = kmalloc_obj(*helper);
			if (!helper)
				return -ENOMEM;
			INIT_WORK(&helper->work, deferred_init_help);
			helper->nid = nid;
			helper->nr = i;
			helper->helpers = nr;
			queue_work_node(nid, wq, &helper->work);
		}
	}
	return 0;
}

#ifdef CONFIG_CRASH_DUMP
/* Make the head of a pending block, and it alone, that of a free one. */
static void deferred_init_mark_head(struct zone *zone, unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);

	__init_single_page(page, pfn, zone_idx(zone), zone_to_nid(zone));
	set_page_count(page, 0);
	set_page_private(page, MAX_PAGE_ORDER);
	__SetPageBuddy(page);
}

/* @claims are those of the section's blocks that are free. */
static void deferred_init_mark(struct zone *zone, unsigned long pfn, unsigned long *claims)
{
	unsigned int block;

	for_each_set_bit(block, claims, SECTION_BLOCKS) {
		/*
		 * Allocations pass it by meanwhile, and who releases it waits, with a lock
		 * that an interrupt here may want: let that be for a moment only.
		 */
		guard(irqsave)();
		if (!test_and_clear_bit(block, claims))
			continue;
		deferred_init_mark_head(zone, deferred_block_pfn(pfn, block));
		/* Who claims it next writes the page anew, and must do so after this. */
		smp_mb__before_atomic();
		set_bit(block, claims);
	}
}

/**
 * deferred_init_crash_prepare - have dump tools find free memory in pending blocks
 *
 * Who reads the memory of a crashed kernel reads pending struct pages too: zeroes, or
 * what an earlier kernel left there. Such a tool jumps over a free block of the largest
 * order when it has seen the first of its struct pages, so that one is written.
 *
 * Called when a crash kernel is loaded: the crashed one is not the place to do it.
 * Allocations go on meanwhile.
 *
 * Context: process context, may sleep.
 */
void deferred_init_crash_prepare(void)
{
	struct mem_section_deferred *deferred;
	struct mem_section_usage *usage;
	unsigned long nr, pfn;

	if (!static_key_enabled(&deferred_init_key))
		return;

	for_each_present_section_nr(0, nr) {
		pfn = section_nr_to_pfn(nr);
		usage = deferred_usage(pfn);
		if (!usage)
			continue;
		deferred = &usage->deferred;
		deferred_init_mark(deferred->zone, pfn, deferred->free);
		cond_resched();
	}
}
#endif

static void deferred_init_finish(void)
{
	struct zone *zone;

	trace_deferred_init_done(deferred_nr_pages);
	pr_info("all %lu deferred pages initialised\n", deferred_nr_pages);

	/* Every struct page is there. What follows takes longer: it waits for all CPUs. */
	static_branch_disable(&deferred_init_key);
	if (deferred_init_wq)
		destroy_workqueue(deferred_init_wq);

	get_online_mems();
	/* What boot could not find out while struct pages were pending. */
	for_each_populated_zone(zone)
		if (!zone->contiguous)
			set_zone_contiguous(zone);
	put_online_mems();
	complete_all(&deferred_init_all_done);
}

static bool deferred_init_urgent(void)
{
	return READ_ONCE(deferred_init_requests) &
	       (BIT(DEFERRED_REQUEST_REFILL) | BIT(DEFERRED_REQUEST_FINISH));
}

/*
 * Initialise what will be needed next if allocations go on as they did in the last
 * round, so that they need not do it themselves. Returns false if they did not take
 * a block; the first round is there to see.
 */
static bool deferred_init_ahead(bool first)
{
	unsigned long available, used, target;
	bool going_on = first;
	struct zone *zone;

	for_each_populated_zone(zone) {
		available = zone_page_state(zone, NR_FREE_PAGES);
		used = zone->deferred_available > available ?
		       zone->deferred_available - available : 0;
		zone->deferred_available = available;
		if (first || used < MAX_ORDER_NR_PAGES || !zone_page_state(zone, NR_DEFERRED))
			continue;
		going_on = true;
		target = DEFERRED_RESERVE_PAGES +
			 min(used * DEFERRED_AHEAD_ROUNDS, DEFERRED_AHEAD_MAX);
		/* Who has the CPU to share with others does not make them wait. */
		while (single_task_running() && !deferred_init_urgent() &&
		       deferred_init_free_pages(zone) < (long)target &&
		       deferred_init_next(zone, DEFERRED_INIT_BACKGROUND))
			cond_resched();
	}
	return going_on;
}

static int deferred_init_main(void *unused)
{
	bool first = true;

	for (;;) {
		wait_event_idle(deferred_init_waitq, READ_ONCE(deferred_init_requests));
		if (test_and_clear_bit(DEFERRED_REQUEST_REFILL, &deferred_init_requests))
			deferred_init_refill();
		if (test_and_clear_bit(DEFERRED_REQUEST_FINISH, &deferred_init_requests))
			break;
		if (!test_bit(DEFERRED_REQUEST_AHEAD, &deferred_init_requests))
			continue;
		/* While it goes on the bit stays set, so that allocations wake nobody. */
		sched_set_normal(current, MAX_NICE);
		first = !deferred_init_ahead(first);
		sched_set_normal(current, 0);
		if (first)
			clear_bit(DEFERRED_REQUEST_AHEAD, &deferred_init_requests);
		else
			wait_event_idle_timeout(deferred_init_waitq, deferred_init_urgent(),
						DEFERRED_AHEAD_ROUND);
	}
	deferred_init_finish();
	return 0;
}

/**
 * deferred_init_complete - initialise all that is left of the memory map
 *
 * For code that needs every struct page, such as hibernation. Uses all CPUs of
 * each node at normal priority, besides whatever is at work already.
 *
 * Context: process context, may sleep.
 * Return: 0, -EINTR if a fatal signal came first (the work goes on), or the
 * error that kept threads from starting.
 */
int deferred_init_complete(void)
{
	int ret;

	if (!static_key_enabled(&deferred_init_key))
		return 0;
	if (IS_ERR(deferred_init_task))
		return PTR_ERR(deferred_init_task);
	ret = deferred_init_start_helpers(system_dfl_wq);
	if (ret)
		return ret;
	return wait_for_completion_killable(&deferred_init_all_done) ? -EINTR : 0;
}

/**
 * deferred_init_decline - have boot wait, whatever deferred_init= says
 * @reason: why, for the log
 *
 * Context: boot, after early parameters and before struct pages are initialised.
 */
void __meminit deferred_init_decline(const char *reason)
{
	if (deferred_init_mode != DEFERRED_MODE_WAIT)
		pr_info("%s: boot waits for the memory map\n", reason);
	deferred_init_mode = DEFERRED_MODE_WAIT;
}

/**
 * deferred_init_wanted - is boot to leave behind what grows with memory?
 *
 * Context: boot, after early parameters.
 * Return: true with deferred_init=lazy or background.
 */
bool __meminit deferred_init_wanted(void)
{
	return deferred_init_mode != DEFERRED_MODE_WAIT;
}

/*
 * Parts of blocks that cannot be deferred. All of a block is written before any
 * of it is freed, which looks at the struct pages of the whole block; the rest of
 * it may belong to another zone.
 */
typedef void (*deferred_part_fn)(struct zone *zone, unsigned long pfn,
				 unsigned long end_pfn);

static void __init deferred_init_write_part(struct zone *zone, unsigned long pfn,
					    unsigned long end_pfn)
{
	unsigned long next;

	for (; pfn < end_pfn; pfn = next) {
		next = min(pageblock_end_pfn(pfn), end_pfn);
		memmap_write(zone, pfn, next - pfn, MEMMAP_PAGE_USED);
		if (pageblock_aligned(pfn))
			deferred_init_migratetype(pfn);
	}
}

static void __init deferred_init_free_part(struct zone *zone, unsigned long pfn,
					   unsigned long end_pfn)
{
	unsigned int order;

	if (pfn >= end_pfn)
		return;
	accept_memory(PFN_PHYS(pfn), (end_pfn - pfn) << PAGE_SHIFT);
	for (; pfn < end_pfn; pfn += 1UL << order) {
		order = min3(MAX_PAGE_ORDER, __ffs(pfn), __fls(end_pfn - pfn));
		__free_pages_core(pfn_to_page(pfn), order, MEMINIT_EARLY);
	}
}

/* Is the section of @pfn memory of one zone, which can be deferred, throughout? */
static bool __init deferred_section_whole(struct zone *zone, unsigned long pfn)
{
	unsigned long first = SECTION_ALIGN_DOWN(pfn), last = first + PAGES_PER_SECTION - 1;
	unsigned long start_pfn, end_pfn;
	int i;

	if (first < zone->zone_pgdat->first_deferred_pfn || !zone_spans_pfn(zone, first) ||
	    !zone_spans_pfn(zone, last))
		return false;
	for_each_mem_pfn_range(i, zone_to_nid(zone), &start_pfn, &end_pfn, NULL) {
		if (first >= start_pfn && last < end_pfn)
			return true;
	}
	return false;
}

/* Call @part and @whole for what cannot and what can be deferred of a zone's free memory. */
static void __init deferred_init_each(struct zone *zone, deferred_part_fn part,
				      deferred_part_fn whole)
{
	phys_addr_t start, end;
	u64 i;

	for_each_free_mem_range(i, zone_to_nid(zone), MEMBLOCK_NONE, &start, &end, NULL) {
		unsigned long pfn = max3(PFN_UP(start), zone->zone_start_pfn,
					 zone->zone_pgdat->first_deferred_pfn);
		unsigned long end_pfn = min(PFN_DOWN(end), zone_end_pfn(zone));
		unsigned long first = ALIGN(pfn, MAX_ORDER_NR_PAGES);
		unsigned long last = ALIGN_DOWN(end_pfn, MAX_ORDER_NR_PAGES);

		if (pfn >= end_pfn)
			continue;
		if (first < last && !deferred_section_whole(zone, first))
			first = SECTION_ALIGN_UP(first + 1);
		if (first < last && !deferred_section_whole(zone, last - 1))
			last = SECTION_ALIGN_DOWN(last - 1);
		if (part) {
			part(zone, pfn, min(first, end_pfn));
			part(zone, max(first, last), end_pfn);
		}
		if (whole && first < last)
			whole(zone, first, last);
	}
}

/*
 * Make @nr blocks of a section that can be deferred pending, and @free or not. Nearly
 * all sections are whole: constants make short work of them.
 */
static __always_inline void __init deferred_section_pending(struct mem_section *ms,
							    struct zone *zone, unsigned int block,
							    unsigned int nr, bool free)
{
	const unsigned int subsections = MAX_ORDER_NR_PAGES / PAGES_PER_SUBSECTION;
	struct mem_section_usage *usage = ms->usage;

	ms->section_mem_map &= ~SECTION_IS_EARLY;
	usage->deferred.zone = zone;
	atomic_add(nr, &usage->deferred.nr_left);
	bitmap_clear(usage->subsection_map, block * subsections, nr * subsections);
	bitmap_set(usage->deferred.left, block, nr);
	if (free)
		bitmap_set(usage->deferred.free, block, nr);
}

/* The same with the blocks from @pfn to @end_pfn. */
static void __init deferred_set_pending(struct zone *zone, unsigned long pfn,
					unsigned long end_pfn, bool free)
{
	unsigned long first = SECTION_ALIGN_UP(pfn), last = SECTION_ALIGN_DOWN(end_pfn);
	unsigned long nr = pfn_to_section_nr(first);
	struct mem_section *ms;

	if (pfn < first)
		deferred_section_pending(__pfn_to_section(pfn), zone, deferred_block(pfn),
					 (min(first, end_pfn) - pfn) / MAX_ORDER_NR_PAGES, free);
	for_each_section_from(ms, nr, pfn_to_section_nr(last))
		deferred_section_pending(ms, zone, 0, SECTION_BLOCKS, free);
	if (first <= last && last < end_pfn)
		deferred_section_pending(__pfn_to_section(last), zone, 0,
					 (end_pfn - last) / MAX_ORDER_NR_PAGES, free);
}

/* Leave free blocks pending, and count them. */
static void __init deferred_init_fill(struct zone *zone, unsigned long pfn,
				      unsigned long end_pfn)
{
	unsigned long nr_pages = end_pfn - pfn;

	deferred_set_pending(zone, pfn, end_pfn, true);
	atomic_long_add(nr_pages / MAX_ORDER_NR_PAGES, &deferred_left);
	atomic_long_add(nr_pages, &zone->managed_pages);
	mod_zone_page_state(zone, NR_DEFERRED, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, nr_pages);
	set_bit(ZONE_DEFERRED_CHECK, &zone->flags);
	deferred_nr_pages += nr_pages;
}

/*
 * What the kernel before this one kept free for the next is MIGRATE_CMA. An allocation
 * that may not have such pages would initialise all of them before it grew its zone by
 * others, so they are initialised now, and the rest of their sections with them.
 */
static void __init deferred_init_scratch(void)
{
	unsigned long nr, pfn, end_pfn;
	struct mem_section_usage *usage;
	struct zone *zone;

	for_each_present_section_nr(0, nr) {
		pfn = section_nr_to_pfn(nr);
		end_pfn = pfn + PAGES_PER_SECTION;
		usage = deferred_usage(pfn);
		if (!usage || !kho_scratch_overlap(PFN_PHYS(pfn), PAGES_PER_SECTION * PAGE_SIZE))
			continue;
		zone = usage->deferred.zone;
		while ((pfn = deferred_claim_range(zone, pfn, end_pfn)) < end_pfn)
			deferred_init_block(pfn, DEFERRED_INIT_DEMAND, true);
	}
}

/**
 * deferred_init_setup - take over what early boot left uninitialised
 *
 * Called once the free memory of memblock is in the buddy allocator, and holes and
 * reserved memory have their struct pages, all but for deferred blocks. Where this
 * takes over, mainline's on-demand initialisation during boot and its threads find
 * nothing to do.
 *
 * Context: early boot, one CPU, before the slab allocator.
 */
void __init deferred_init_setup(void)
{
	struct zone *zone;
	int nid;

	if (!deferred_init_wanted())
		return;

	/*
	 * Mainline's growth knows only the highest zone. From here on, moreover,
	 * free_reserved_area() and KASAN need not hold back.
	 */
	static_branch_disable(&deferred_pages);

	for_each_populated_zone(zone)
		deferred_init_each(zone, deferred_init_write_part, NULL);
	for_each_populated_zone(zone)
		deferred_init_each(zone, deferred_init_free_part, NULL);
	for_each_populated_zone(zone)
		deferred_init_each(zone, NULL, deferred_init_fill);
	if (is_kho_boot())
		deferred_init_scratch();
	for_each_node_state(nid, N_MEMORY)
		NODE_DATA(nid)->first_deferred_pfn = ULONG_MAX;

	if (deferred_nr_pages)
		static_branch_enable(&deferred_init_key);
}

/* A workqueue whose workers have the lowest priority. */
static struct workqueue_struct * __init deferred_init_alloc_wq(void)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct workqueue_struct *wq = NULL;

	if (!attrs)
		return NULL;
	attrs->nice = MAX_NICE;
	wq = alloc_workqueue("deferred_init", WQ_UNBOUND, 0);
	if (wq && apply_workqueue_attrs(wq, attrs)) {
		destroy_workqueue(wq);
		wq = NULL;
	}
	free_workqueue_attrs(attrs);
	return wq;
}

/**
 * deferred_init_late - let boot go on while struct pages are pending
 *
 * Context: the init task, with all boot CPUs up.
 * Return: false if boot must initialise what is left, and wait for it.
 */
bool __init deferred_init_late(void)
{
	if (!static_key_enabled(&deferred_init_key))
		return false;

	if (deferred_init_mode == DEFERRED_MODE_BACKGROUND) {
		deferred_init_wq = deferred_init_alloc_wq();
		if (!deferred_init_wq || deferred_init_start_helpers(deferred_init_wq))
			pr_warn("no threads: struct pages are initialised on demand\n");
	}
	deferred_init_task = kthread_run(deferred_init_main, NULL, "deferred_init");
	if (IS_ERR(deferred_init_task))
		pr_warn("no thread: the map cannot be completed\n");
	/* Small machines may have used up all of it by now. */
	deferred_init_count_done(1);
	return true;
}

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", deferred_init_modes[deferred_init_mode]);
}

static struct kobj_attribute mode_attr = __ATTR_RO(mode);

static ssize_t remaining_kb_show(struct kobject *kobj, struct kobj_attribute *attr,
				 char *buf)
{
	return sysfs_emit(buf, "%lu\n", K(global_zone_page_state(NR_DEFERRED)));
}

static struct kobj_attribute remaining_kb_attr = __ATTR_RO(remaining_kb);

static ssize_t complete_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", !static_key_enabled(&deferred_init_key));
}

static ssize_t complete_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	bool wanted;
	int ret;

	ret = kstrtobool(buf, &wanted);
	if (ret)
		return ret;
	if (!wanted)
		return -EINVAL;
	return deferred_init_complete() ?: count;
}

static struct kobj_attribute complete_attr = __ATTR_RW(complete);

static struct attribute *deferred_init_attrs[] = {
	&mode_attr.attr,
	&remaining_kb_attr.attr,
	&complete_attr.attr,
	NULL,
};

static const struct attribute_group deferred_init_attr_group = {
	.name = "deferred_init",
	.attrs = deferred_init_attrs,
};

#ifdef CONFIG_HIBERNATION
/*
 * The image is made from struct pages: all of them must be there. The kernel
 * that resumes it takes what it has no struct pages of for a hole, and gives up
 * on an image with pages there.
 */
static int deferred_init_pm_notify(struct notifier_block *nb, unsigned long action,
				   void *data)
{
	if (action == PM_HIBERNATION_PREPARE || action == PM_RESTORE_PREPARE)
		return notifier_from_errno(deferred_init_complete());
	return NOTIFY_OK;
}
#endif

static int __init deferred_init_sysfs_init(void)
{
#ifdef CONFIG_HIBERNATION
	pm_notifier(deferred_init_pm_notify, 0);
#endif
	return sysfs_create_group(mm_kobj, &deferred_init_attr_group);
}
subsys_initcall(deferred_init_sysfs_init);

#ifdef CONFIG_DEFERRED_INIT_KUNIT_TEST
#include "deferred_init_test.c"
#endif
