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
 *  - Only a block that is free as a whole is ever deferred, but for the memory
 *    map itself (see below). A block with a reserved page, a hole or a zone
 *    boundary in it is initialised before the allocator comes up. So no page in
 *    use, and none that may be freed later without having been allocated first,
 *    has a struct page that is pending.
 *  - A pending block counts as free memory: in managed_pages, NR_FREE_PAGES and
 *    all that is derived from them. NR_DEFERRED tells how much of NR_FREE_PAGES
 *    it is. Whoever gates reclaim looks at the sum, whoever wants a page from a
 *    free list looks at the difference.
 *
 * A block goes through three states, told by two bitmaps of its zone:
 *
 *	unclaimed  pending
 *	    1         1      nobody has touched it
 *	    0         1      one CPU, which cleared the first bit, initialises it;
 *			     or writes its head for crash dumps, and sets it again
 *	    0         0      its struct pages may be read
 *
 * A holder (struct deferred_holder) may set whole blocks aside at boot: they are
 * pending, neither free nor unclaimed, and it initialises them when it wants to.
 *
 * There is no lock: the claim is one atomic operation, and the work is done with
 * interrupts as the caller has them. Somebody who is interrupted in the middle
 * of a block keeps nobody from claiming the next one.
 *
 * What boot allocates for good is as large as memory demands: hash tables, and
 * above all the memory map, a 64th of which are struct pages of its own. It is
 * reserved and never gets into a free list, but whoever works on the memory map
 * looks at them: hugetlb when it gives part of it back, memory hotplug when it
 * removes it. The rule for these reserved blocks is: the struct page of a page
 * that holds initialised struct pages is initialised. So a block's initialisation
 * includes the reserved block that holds it. They are pending and never unclaimed,
 * and are initialised under a lock with interrupts off, so that a walker of pfns
 * that comes across one has it initialised and goes on; it never sees one that
 * is pending.
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
#include <linux/padata.h>
#include <linux/page-isolation.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sysfs.h>
#include <linux/suspend.h>
#include <linux/unroll.h>
#include <linux/vmcore_info.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "deferred_init.h"
#include "internal.h"
#include "mm_init.h"
#include "page_alloc.h"

#define CREATE_TRACE_POINTS
#include <trace/events/deferred_init.h>

/*
 * Free pages that a zone keeps initialised ahead of demand. Enough for
 * allocations that cannot grow the zone (ALLOC_NOLOCK) and for fallbacks to
 * find whole pageblocks; it does not depend on the size of the machine.
 */
#define DEFERRED_RESERVE_PAGES	max_t(unsigned long, SZ_64M >> PAGE_SHIFT, 2 * MAX_ORDER_NR_PAGES)

/* What a holder initialises between two looks whether the task that waits is to die. */
#define DEFERRED_HELD_PAGES	(SZ_1G >> PAGE_SHIFT)

/*
 * What the deferred_init thread initialises ahead of demand, beyond that: what was
 * used up in as many of its rounds, but no more than a limit.
 */
#define DEFERRED_AHEAD_ROUNDS	2
#define DEFERRED_AHEAD_ROUND	(HZ / 10)
#define DEFERRED_AHEAD_MAX	(SZ_1G >> PAGE_SHIFT)

/* A thread takes this many blocks at a time. */
#define DEFERRED_CHUNK		max_t(unsigned long, PAGES_PER_SECTION / MAX_ORDER_NR_PAGES, 1)

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

/**
 * struct deferred_map - blocks of one zone that are left to initialise
 * @zone: the zone
 * @base_pfn: pfn of block 0
 * @nr_blocks: number of blocks from there to the end of the zone
 * @bytes: size of a bitmap
 * @unclaimed: a set bit for each free block that nobody works on yet
 * @pending: a set bit for each block with struct pages that must not be read
 * @reserved: a set bit for each block that is reserved, and was pending once
 * @held: a set bit for each block that a holder has set aside and not initialised
 * @next: next map; maps of the same node follow each other
 * @cursor: blocks below are hardly ever unclaimed
 * @remaining: number of blocks that are not in the free lists yet, or held
 * @nr_held: of these, blocks that are held
 * @busy: of these, blocks that are not pending any more
 * @available: free pages of the zone when the deferred_init thread looked last
 * @reserved_lock: held while a reserved block is initialised
 * @held_lock: held while held blocks are given back
 *
 * Found under rcu_read_lock(), or with deferred_maps_rwsem held.
 */
struct deferred_map {
	struct zone	*zone;
	unsigned long	base_pfn;
	unsigned long	nr_blocks;
	size_t		bytes;
	unsigned long	*unclaimed;
	unsigned long	*pending;
	unsigned long	*reserved;
	unsigned long	*held;
	struct deferred_map *next;
	unsigned long	cursor ____cacheline_aligned_in_smp;
	atomic_long_t	remaining;
	atomic_long_t	nr_held;
	atomic_t	busy;
	unsigned long	available;
	raw_spinlock_t	reserved_lock;
	raw_spinlock_t	held_lock;
};

DEFINE_STATIC_KEY_FALSE(deferred_init_key);
EXPORT_SYMBOL_GPL(deferred_init_key);

static enum deferred_init_mode deferred_init_mode __ro_after_init;
static struct deferred_map __rcu *deferred_maps;
static const struct deferred_holder *deferred_holder __ro_after_init;
/* Held for reading by threads that work through a map, to free them: write. */
static DECLARE_RWSEM(deferred_maps_rwsem);
/* Maps that have blocks left, and one for boot, until the thread runs. */
static atomic_t deferred_maps_left = ATOMIC_INIT(1);
/* Some reserved blocks are pending. */
static bool deferred_reserved __ro_after_init;
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

	if (mode < 0) {
		pr_warn("unknown mode '%s', known are wait, background and lazy; using %s\n",
			str ?: "", deferred_init_modes[deferred_init_mode]);
		return 0;
	}
	deferred_init_mode = mode;
	return 0;
}
early_param("deferred_init", deferred_init_param);

static unsigned long deferred_block_pfn(const struct deferred_map *map,
					unsigned long block)
{
	return map->base_pfn + block * MAX_ORDER_NR_PAGES;
}

/* Claim the first block at or after @start, below @end; @end if there is none. */
static unsigned long deferred_claim(struct deferred_map *map,
				    unsigned long start, unsigned long end)
{
	unsigned long block = start;

	for (;;) {
		block = find_next_bit(map->unclaimed, end, block);
		if (block >= end)
			return end;
		if (test_and_clear_bit(block, map->unclaimed))
			return block;
	}
}

/* Blocks that are free, and not in the free lists yet. */
static long deferred_nr_free(const struct deferred_map *map)
{
	return atomic_long_read(&map->remaining) - atomic_long_read(&map->nr_held);
}

static unsigned long deferred_claim_next(struct deferred_map *map)
{
	unsigned long start = READ_ONCE(map->cursor);
	unsigned long block = deferred_claim(map, start, map->nr_blocks);

	/* deferred_init_mark() or a holder may have given one back that was passed by. */
	if (block >= map->nr_blocks && deferred_nr_free(map) > 0) {
		start = 0;
		block = deferred_claim(map, start, map->nr_blocks);
	}
	/* Somebody else's lower value may overwrite this: a longer search. */
	if (block != start)
		WRITE_ONCE(map->cursor, block);
	return block;
}

static void deferred_init_wake(struct irq_work *work)
{
	wake_up(&deferred_init_waitq);
}

static DEFINE_IRQ_WORK(deferred_init_irq_work, deferred_init_wake);

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

/**
 * deferred_init_write - write struct pages, each word of them once
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 * @kind: what they are
 *
 * Pages that are all alike but for their place.
 *
 * Context: any; nobody else may know of the struct pages yet.
 * Return: true.
 */
bool __meminit deferred_init_write(struct zone *zone, unsigned long pfn,
				   unsigned long nr_pages, enum deferred_page_kind kind)
{
	unsigned long words[sizeof(struct page) / sizeof(long)];
	struct page template, *first = pfn_to_page(pfn), *page = first;
	struct page *end = first + nr_pages;
	int i;

	__init_single_page(&template, pfn, zone_idx(zone), zone_to_nid(zone));
	switch (kind) {
	case DEFERRED_PAGE_USED:
		break;
	case DEFERRED_PAGE_RESERVED:
		__set_bit(PG_reserved, &template.flags.f);
		break;
	case DEFERRED_PAGE_OFFLINE:
		__SetPageOffline(&template);
		break;
	case DEFERRED_PAGE_FREE:
		set_page_count(&template, 0);
		break;
	}
	memcpy(words, &template, sizeof(words));

	for (; page < end; page++) {
		unrolled_full
		for (i = 0; i < ARRAY_SIZE(words); i++)
			((unsigned long *)page)[i] = words[i];
		INIT_LIST_HEAD(&page->lru);
#ifdef WANT_PAGE_VIRTUAL
		set_page_address(page, __va(PFN_PHYS(pfn + (page - first))));
#endif
	}
	return true;
}

/**
 * deferred_init_write_run - write struct pages when memory is found or added
 * @zone: their zone
 * @pfn: the first pfn, of one section with all others
 * @nr_pages: number of pages
 * @context: how they get into the buddy allocator
 *
 * Context: boot, or memory hotplug.
 */
void __meminit deferred_init_write_run(struct zone *zone, unsigned long pfn,
				       unsigned long nr_pages, enum meminit_context context)
{
	static const enum deferred_page_kind kinds[] = {
		[MEMINIT_EARLY]		= DEFERRED_PAGE_USED,
		[MEMINIT_HOTPLUG]	= DEFERRED_PAGE_OFFLINE,
		[MEMINIT_DEFERRED]	= DEFERRED_PAGE_FREE,
	};

	deferred_init_write(zone, pfn, nr_pages, kinds[context]);
}

/**
 * deferred_init_reserved_run - write the struct pages of a reserved pageblock
 * @nid: their node
 * @pfn: the first pfn, of a section of boot
 * @end_pfn: end of what is reserved
 *
 * Context: boot, before memblock hands memory over.
 * Return: how many were written; 0 if that of @pfn is left to the caller.
 */
unsigned long __init deferred_init_reserved_run(int nid, unsigned long pfn,
						unsigned long end_pfn)
{
	const unsigned long last_pfn = pfn + pageblock_nr_pages - 1;
	enum migratetype migratetype;
	struct zone *zone, *end;

	if (!pageblock_aligned(pfn) || last_pfn >= end_pfn || !node_online(nid) ||
	    pfn < NODE_DATA(nid)->first_deferred_pfn)
		return 0;

	zone = NODE_DATA(nid)->node_zones;
	end = zone + MAX_NR_ZONES;
	while (zone < end && !zone_spans_pfn(zone, pfn))
		zone++;
	if (zone == end || !zone_spans_pfn(zone, last_pfn))
		return 0;

	deferred_init_write(zone, pfn, pageblock_nr_pages, DEFERRED_PAGE_RESERVED);
	migratetype = kho_scratch_migratetype(pfn, MIGRATE_MOVABLE);
	init_pageblock_migratetype(pfn_to_page(pfn), migratetype, false);
	return pageblock_nr_pages;
}

/**
 * deferred_init_free - hand a block of fresh struct pages to the buddy allocator
 * @page: first page of a block of the largest order, free and written by
 *        deferred_init_write()
 *
 * Context: boot, with memory that is not in managed_pages yet.
 * Return: true.
 */
bool __init deferred_init_free(struct page *page)
{
	atomic_long_add(MAX_ORDER_NR_PAGES, &page_zone(page)->managed_pages);
	__free_pages_core(page, MAX_PAGE_ORDER, MEMINIT_DEFERRED);
	return true;
}

static void deferred_init_block_pages(struct zone *zone, unsigned long pfn,
				      enum deferred_page_kind kind)
{
	unsigned long end_pfn = pfn + MAX_ORDER_NR_PAGES;

	deferred_init_write(zone, pfn, MAX_ORDER_NR_PAGES, kind);
	for (; pfn < end_pfn; pfn += pageblock_nr_pages)
		init_pageblock_migratetype(pfn_to_page(pfn), MIGRATE_MOVABLE, false);
}

/* Block of @pfn, or a number past the last block if it is not in the map. */
static unsigned long deferred_pfn_block(const struct deferred_map *map,
					unsigned long pfn)
{
	return (pfn - map->base_pfn) / MAX_ORDER_NR_PAGES;
}

static struct deferred_map *deferred_find_reserved(unsigned long pfn)
{
	struct deferred_map *map;
	unsigned long block;

	for (map = rcu_dereference_check(deferred_maps,
					 lockdep_is_held(&deferred_maps_rwsem));
	     map; map = map->next) {
		block = deferred_pfn_block(map, pfn);
		if (block < map->nr_blocks && test_bit(block, map->reserved))
			return map;
	}
	return NULL;
}

/* Initialise the struct pages of a reserved block, and return when they are. */
static void deferred_init_reserved_block(struct deferred_map *map,
					 unsigned long block)
{
	guard(raw_spinlock_irqsave)(&map->reserved_lock);
	if (!test_bit(block, map->pending))
		return;
	deferred_init_block_pages(map->zone, deferred_block_pfn(map, block),
				  DEFERRED_PAGE_RESERVED);
	/* Pairs with test_bit_acquire() in its callers. */
	clear_bit_unlock(block, map->pending);
}

#ifdef CONFIG_SPARSEMEM_VMEMMAP
/* The pfn of the page that holds the struct page at @page, 0 if there is none. */
static unsigned long deferred_memmap_pfn(const struct page *page)
{
	unsigned long addr = (unsigned long)page;
	pgd_t *pgd = pgd_offset_k(addr);
	p4d_t *p4d;
	pud_t *pudp, pud;
	pmd_t *pmdp, pmd;
	pte_t pte;

	if (pgd_none(*pgd))
		return 0;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return 0;
	pudp = pud_offset(p4d, addr);
	pud = pudp_get(pudp);
	/* Blocks of the memory map are mapped by smaller entries. */
	if (pud_none(pud) || pud_leaf(pud))
		return 0;
	pmdp = pmd_offset(pudp, addr);
	pmd = pmdp_get(pmdp);
	if (pmd_none(pmd))
		return 0;
	if (pmd_leaf(pmd))
		return pmd_pfn(pmd) + PFN_DOWN(addr & ~PMD_MASK);
	pte = ptep_get(pte_offset_kernel(pmdp, addr));
	return pte_present(pte) ? pte_pfn(pte) : 0;
}
#else
static unsigned long deferred_memmap_pfn(const struct page *page)
{
	return PHYS_PFN(__pa(page));
}
#endif

/*
 * Initialise the struct page of the page that holds the struct page at @page,
 * and the struct page of the page that holds that one, and so on: a page of the
 * memory map may hold its own struct page, so this ends there at the latest.
 */
static void deferred_init_memmap(const struct page *page)
{
	struct deferred_map *map;
	unsigned long pfn, block;

	while ((pfn = deferred_memmap_pfn(page))) {
		map = deferred_find_reserved(pfn);
		if (!map)
			return;
		block = deferred_pfn_block(map, pfn);
		if (!test_bit_acquire(block, map->pending))
			return;
		deferred_init_reserved_block(map, block);
		page = pfn_to_page(deferred_block_pfn(map, block));
	}
}

/* The same for all struct pages of a block, wherever it is. */
static void deferred_init_block_memmap(unsigned long pfn)
{
	if (!deferred_reserved)
		return;
	deferred_init_memmap(pfn_to_page(pfn));
	deferred_init_memmap(pfn_to_page(pfn + MAX_ORDER_NR_PAGES - 1));
}

/* Some blocks are done, and with them perhaps all. */
static void deferred_init_count_done(struct deferred_map *map, long nr)
{
	if (atomic_long_sub_and_test(nr, &map->remaining) &&
	    atomic_dec_and_test(&deferred_maps_left))
		deferred_init_request(DEFERRED_REQUEST_FINISH);
}

/*
 * Initialise the struct pages of a claimed block and hand it to the buddy
 * allocator. The caller holds rcu_read_lock(), so that whoever waits for a block
 * that somebody else claimed can wait for a grace period. With @accept the block
 * can be allocated at once, also where a guest has to accept its memory first.
 */
static void deferred_init_block(struct deferred_map *map, unsigned long block,
				enum vm_event_item item, bool accept)
{
	struct zone *zone = map->zone;
	unsigned long pfn = deferred_block_pfn(map, block);
	struct page *page = pfn_to_page(pfn);

	trace_deferred_init_block(zone_to_nid(zone), pfn, MAX_ORDER_NR_PAGES,
				  item == DEFERRED_INIT_DEMAND);

	deferred_init_block_memmap(pfn);
	deferred_init_block_pages(zone, pfn, DEFERRED_PAGE_FREE);

	atomic_inc(&map->busy);
	/*
	 * Pairs with test_bit_acquire() in deferred_map_pending(), and with smp_rmb()
	 * in deferred_map_state(), which must see one or the other.
	 */
	clear_bit_unlock(block, map->pending);

	if (accept)
		accept_memory(page_to_phys(page), PAGE_SIZE << MAX_PAGE_ORDER);

	/*
	 * The block moves from the deferred to the buddy part of NR_FREE_PAGES.
	 * In this order nobody sees less free memory than there is: that could
	 * start reclaim too early.
	 */
	__free_pages_core(page, MAX_PAGE_ORDER, MEMINIT_DEFERRED);
	mod_zone_page_state(zone, NR_DEFERRED, -(long)MAX_ORDER_NR_PAGES);
	mod_zone_page_state(zone, NR_FREE_PAGES, -(long)MAX_ORDER_NR_PAGES);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, -(long)MAX_ORDER_NR_PAGES);
	count_vm_events(item, MAX_ORDER_NR_PAGES);

	/* Pairs with atomic_read_acquire() in deferred_map_state(). */
	atomic_dec_return_release(&map->busy);
	deferred_init_count_done(map, 1);
}

static struct deferred_map *zone_deferred_map(struct zone *zone)
{
	return rcu_dereference(zone->deferred_map);
}

/*
 * Free initialised memory of a zone in whole pageblocks. Single free pages do not
 * count: with those alone, an allocation of another migratetype would have to
 * break up a pageblock, which a zone with all its memory there would not do.
 */
static long deferred_init_free_pages(struct zone *zone)
{
	return zone_page_state(zone, NR_FREE_PAGES_BLOCKS) -
	       zone_page_state(zone, NR_DEFERRED) -
	       zone_page_state(zone, NR_FREE_CMA_PAGES) -
	       READ_ONCE(zone->nr_free_highatomic);
}

/* Claim and initialise the next block of a zone; false if there is none. */
static bool deferred_init_next(struct zone *zone, enum vm_event_item item)
{
	struct deferred_map *map;
	unsigned long block;

	guard(rcu)();
	map = zone_deferred_map(zone);
	if (!map)
		return false;
	block = deferred_claim_next(map);
	if (block >= map->nr_blocks)
		return false;
	deferred_init_block(map, block, item, true);
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

void __deferred_init_reserve(struct zone *zone, unsigned int order,
			     unsigned int alloc_flags)
{
	long needed = DEFERRED_RESERVE_PAGES + (1UL << order);
	long free;

	if (!zone_page_state(zone, NR_DEFERRED))
		return;
	free = deferred_init_free_pages(zone);
	if (free >= needed)
		return;

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
	struct deferred_map *map;
	struct zone *zone;
	bool busy = false;

	/*
	 * Spinning could deadlock: with a lock that the caller holds, and that an
	 * interrupt on the other CPU waits for.
	 */
	if (!gfpflags_allow_blocking(gfp_mask))
		return false;
	/* Who makes memory free, or is about to, has reserves and waits for nobody. */
	if ((current->flags & PF_MEMALLOC) || tsk_is_oom_victim(current))
		return false;

	scoped_guard(rcu) {
		for_next_zone_zonelist_nodemask(zone, z, ac->highest_zoneidx, ac->nodemask) {
			if (!cpuset_zone_allowed(zone, gfp_mask))
				continue;
			map = zone_deferred_map(zone);
			/* A zone with unclaimed blocks was left out for another reason. */
			if (map && deferred_nr_free(map) > 0 &&
			    bitmap_empty(map->unclaimed, map->nr_blocks))
				busy = true;
		}
	}
	if (busy)
		schedule_timeout_uninterruptible(1);
	return busy;
}

static bool deferred_map_pending(struct deferred_map *map, unsigned long pfn)
{
	unsigned long block;

	if (!map || pfn < map->base_pfn)
		return false;
	block = deferred_pfn_block(map, pfn);
	if (block >= map->nr_blocks || !test_bit_acquire(block, map->pending))
		return false;
	if (!test_bit(block, map->reserved))
		return true;
	/* Whom this one interrupted may hold the lock. */
	if (in_nmi())
		return true;
	deferred_init_reserved_block(map, block);
	deferred_init_block_memmap(deferred_block_pfn(map, block));
	return false;
}

bool __deferred_init_zone_pending(struct zone *zone, unsigned long pfn)
{
	guard(rcu)();
	return deferred_map_pending(zone_deferred_map(zone), pfn);
}

/**
 * deferred_init_zone_held - has a holder set the block of @pfn aside?
 * @zone: the zone of @pfn
 * @pfn: a pfn that was pending
 *
 * Context: any.
 * Return: true if it is neither free nor initialised.
 */
bool deferred_init_zone_held(struct zone *zone, unsigned long pfn)
{
	struct deferred_map *map;

	guard(rcu)();
	map = zone_deferred_map(zone);
	return map && pfn >= map->base_pfn &&
	       deferred_pfn_block(map, pfn) < map->nr_blocks &&
	       test_bit(deferred_pfn_block(map, pfn), map->held);
}

bool __deferred_init_pending(unsigned long pfn)
{
	struct deferred_map *map;

	/* Zones' ranges may overlap, but a block is pending in one map only. */
	guard(rcu)();
	for (map = rcu_dereference(deferred_maps); map; map = map->next) {
		if (deferred_map_pending(map, pfn))
			return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(__deferred_init_pending);

/* The blocks of @map in a range; false if there are none. */
static bool deferred_map_blocks(const struct deferred_map *map,
				unsigned long start_pfn, unsigned long end_pfn,
				unsigned long *start, unsigned long *end)
{
	start_pfn = max(start_pfn, map->base_pfn);
	end_pfn = min(end_pfn, deferred_block_pfn(map, map->nr_blocks));
	if (start_pfn >= end_pfn)
		return false;
	*start = deferred_pfn_block(map, start_pfn);
	*end = deferred_pfn_block(map, end_pfn - 1) + 1;
	return true;
}

enum deferred_range_state {
	DEFERRED_RANGE_DONE,
	DEFERRED_RANGE_BUSY,	/* a block may be on its way into the free lists */
	DEFERRED_RANGE_PENDING,
};

static enum deferred_range_state deferred_map_state(struct deferred_map *map,
						    unsigned long start_pfn,
						    unsigned long end_pfn)
{
	unsigned long start, end;

	if (!deferred_map_blocks(map, start_pfn, end_pfn, &start, &end))
		return DEFERRED_RANGE_DONE;
	if (find_next_bit(map->pending, end, start) < end)
		return DEFERRED_RANGE_PENDING;
	/* Pairs with clear_bit_unlock() in deferred_init_block(). */
	smp_rmb();
	return atomic_read_acquire(&map->busy) ? DEFERRED_RANGE_BUSY : DEFERRED_RANGE_DONE;
}

static enum deferred_range_state deferred_range_state(unsigned long start_pfn,
						      unsigned long end_pfn)
{
	enum deferred_range_state state = DEFERRED_RANGE_DONE;
	struct deferred_map *map;

	guard(rcu)();
	for (map = rcu_dereference(deferred_maps); map; map = map->next)
		state = max(state, deferred_map_state(map, start_pfn, end_pfn));
	return state;
}

static void deferred_init_map_range(struct deferred_map *map,
				    unsigned long start_pfn, unsigned long end_pfn)
{
	unsigned long block, end;

	if (!deferred_map_blocks(map, start_pfn, end_pfn, &block, &end))
		return;
	for_each_set_bit_from(block, map->pending, end) {
		scoped_guard(rcu) {
			if (test_and_clear_bit(block, map->unclaimed))
				deferred_init_block(map, block, DEFERRED_INIT_DEMAND, true);
			else if (test_bit(block, map->reserved))
				deferred_map_pending(map, deferred_block_pfn(map, block));
		}
		cond_resched();
	}
}

/* The list of maps, for those who hold deferred_maps_rwsem. */
static struct deferred_map *deferred_first_map(void)
{
	return rcu_dereference_protected(deferred_maps,
					 lockdep_is_held(&deferred_maps_rwsem));
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
	enum deferred_range_state state;
	struct deferred_map *map;

	if (!static_branch_unlikely(&deferred_init_key))
		return;

	state = deferred_range_state(start_pfn, end_pfn);
	if (state == DEFERRED_RANGE_DONE)
		return;
	if (state == DEFERRED_RANGE_PENDING) {
		/* What a holder gives back while it is asked is free, and pending. */
		if (deferred_holder)
			deferred_holder->init_range(start_pfn, end_pfn);
		guard(rwsem_read)(&deferred_maps_rwsem);
		for (map = deferred_first_map(); map; map = map->next)
			deferred_init_map_range(map, start_pfn, end_pfn);
	}
	/* Blocks that others claimed: they work inside an RCU read-side section. */
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(deferred_init_range);

struct deferred_job {
	struct deferred_map	*map;
	atomic_long_t		next;
};

static void deferred_init_chunk(struct deferred_map *map, unsigned long block,
				unsigned long end)
{
	for (;;) {
		scoped_guard(rcu) {
			block = deferred_claim(map, block, end);
			if (block >= end)
				return;
			deferred_init_block(map, block, DEFERRED_INIT_BACKGROUND, false);
		}
		cond_resched();
	}
}

/*
 * One thread of a job. Equal shares would have all wait for the one that gets the
 * least of its CPU, so each takes the next chunk as long as there are any, and
 * nobody wants the maps for writing.
 */
static void deferred_init_job(unsigned long thread, unsigned long end_thread, void *arg)
{
	struct deferred_job *job = arg;
	unsigned long block, end;

	do {
		block = atomic_long_fetch_add(DEFERRED_CHUNK, &job->next);
		end = min(block + DEFERRED_CHUNK, job->map->nr_blocks);
		deferred_init_chunk(job->map, block, end);
	} while (end < job->map->nr_blocks && !rwsem_is_contended(&deferred_maps_rwsem));
}

struct deferred_thread {
	int			nid;
	struct workqueue_struct	*wq;
};

/* Works on a zone with all CPUs of its node; false if the node has nothing left. */
static bool deferred_init_zone(const struct deferred_thread *thread)
{
	struct padata_mt_job threads = {
		.thread_fn	= deferred_init_job,
		.size		= max(cpumask_weight(cpumask_of_node(thread->nid)), 1U),
		.align		= 1,
		.min_chunk	= 1,
		.wq		= thread->wq,
	};
	struct deferred_job job;
	unsigned long start;

	guard(rwsem_read)(&deferred_maps_rwsem);
	for (job.map = deferred_first_map(); job.map; job.map = job.map->next) {
		if (zone_to_nid(job.map->zone) != thread->nid)
			continue;
		start = find_first_bit(job.map->unclaimed, job.map->nr_blocks);
		if (start < job.map->nr_blocks) {
			atomic_long_set(&job.next, start);
			threads.fn_arg = &job;
			threads.max_threads = threads.size;
			padata_do_multithreaded(&threads);
			return true;
		}
	}
	return false;
}

/*
 * Works through one node. It may have to wait for its CPU for long, so it lets go of
 * the maps when somebody wants them for writing.
 */
static int deferred_init_thread(void *data)
{
	struct deferred_thread *thread = data;

	/* Helpers from a workqueue of its own mean: not at others' expense. */
	if (thread->wq)
		sched_set_normal(current, MAX_NICE);

	while (deferred_init_zone(thread))
		cond_resched();
	kfree(thread);
	return 0;
}

static int deferred_init_start_threads(struct workqueue_struct *wq)
{
	struct deferred_thread *thread;
	struct task_struct *task;
	struct deferred_map *map;
	int nid = NUMA_NO_NODE;

	guard(rwsem_read)(&deferred_maps_rwsem);
	for (map = deferred_first_map(); map; map = map->next) {
		if (zone_to_nid(map->zone) == nid)
			continue;
		nid = zone_to_nid(map->zone);
		thread = kmalloc_obj(*thread);
		if (!thread)
			return -ENOMEM;
		thread->nid = nid;
		thread->wq = wq;
		task = kthread_create_on_node(deferred_init_thread, thread, nid,
					      "deferred_init/%d", nid);
		if (IS_ERR(task)) {
			kfree(thread);
			return PTR_ERR(task);
		}
		wake_up_process(task);
	}
	return 0;
}

static void deferred_init_free_map(struct deferred_map *map)
{
	if (map->held)
		free_pages_exact(map->held, map->bytes);
	if (map->reserved)
		free_pages_exact(map->reserved, map->bytes);
	if (map->pending)
		free_pages_exact(map->pending, map->bytes);
	if (map->unclaimed)
		free_pages_exact(map->unclaimed, map->bytes);
	free_pages_exact(map, sizeof(*map));
}

/* Free all maps; waits for threads and readers that still look at one. */
static void deferred_init_free_maps(void)
{
	struct deferred_map *map, *next;

	guard(rwsem_write)(&deferred_maps_rwsem);
	map = rcu_replace_pointer(deferred_maps, NULL,
				  lockdep_is_held(&deferred_maps_rwsem));
	for (next = map; next; next = next->next)
		RCU_INIT_POINTER(next->zone->deferred_map, NULL);
	synchronize_rcu();
	for (; map; map = next) {
		next = map->next;
		deferred_init_free_map(map);
	}
}

/* Reserved blocks that hold no struct pages, or only those of holes, are left. */
static void deferred_init_reserved_rest(void)
{
	struct deferred_map *map;
	unsigned long block;

	guard(rwsem_read)(&deferred_maps_rwsem);
	for (map = deferred_first_map(); map; map = map->next) {
		for_each_and_bit(block, map->pending, map->reserved, map->nr_blocks) {
			deferred_init_reserved_block(map, block);
			cond_resched();
		}
	}
}

#ifdef CONFIG_CRASH_DUMP
/* Make the head of a pending block, and it alone, that of a free one. */
static void deferred_init_mark_head(struct deferred_map *map, unsigned long block)
{
	unsigned long pfn = deferred_block_pfn(map, block);
	struct page *page = pfn_to_page(pfn);

	__init_single_page(page, pfn, zone_idx(map->zone), zone_to_nid(map->zone));
	set_page_count(page, 0);
	set_page_private(page, MAX_PAGE_ORDER);
	__SetPageBuddy(page);
}

static void deferred_init_mark(struct deferred_map *map, unsigned long block)
{
	/* Allocations pass it by meanwhile: let that be for a moment only. */
	guard(preempt)();
	if (!test_and_clear_bit(block, map->unclaimed))
		return;
	deferred_init_mark_head(map, block);
	/* Who claims it next writes the page anew, and must do so after this. */
	smp_mb__before_atomic();
	set_bit(block, map->unclaimed);
}

/**
 * deferred_init_crash_prepare - have dump tools find free memory in pending blocks
 *
 * Who reads the memory of a crashed kernel reads pending struct pages too: zeroes, or
 * what an earlier kernel left there. Such a tool jumps over a free block of the largest
 * order when it has seen the first of its struct pages, so that one is written.
 * Reserved blocks, which must not be taken for anything else, are initialised.
 *
 * Called when a crash kernel is loaded: the crashed one is not the place to do it.
 * Waits for threads that initialise blocks; allocations go on meanwhile.
 *
 * Context: process context, may sleep.
 * Return: 0, or -EINTR if a fatal signal came first.
 */
int deferred_init_crash_prepare(void)
{
	struct deferred_map *map;
	unsigned long block;

	if (!static_key_enabled(&deferred_init_key))
		return 0;

	deferred_init_reserved_rest();
	if (down_write_killable(&deferred_maps_rwsem))
		return -EINTR;
	for (map = deferred_first_map(); map; map = map->next) {
		for_each_set_bit(block, map->unclaimed, map->nr_blocks) {
			deferred_init_mark(map, block);
			cond_resched();
		}
		/* A huge page of a pool that nobody has had holds nothing either. */
		for_each_set_bit(block, map->held, map->nr_blocks) {
			scoped_guard(raw_spinlock_irqsave, &map->held_lock) {
				if (test_bit(block, map->held))
					deferred_init_mark_head(map, block);
			}
			cond_resched();
		}
	}
	up_write(&deferred_maps_rwsem);
	return 0;
}
#endif

#ifdef CONFIG_VMCORE_INFO
/* For tools that know of it: which blocks are pending, block by block. */
void deferred_init_vmcoreinfo(void)
{
	VMCOREINFO_SYMBOL(deferred_maps);
	VMCOREINFO_STRUCT_SIZE(deferred_map);
	VMCOREINFO_OFFSET(deferred_map, base_pfn);
	VMCOREINFO_OFFSET(deferred_map, nr_blocks);
	VMCOREINFO_OFFSET(deferred_map, pending);
	VMCOREINFO_OFFSET(deferred_map, reserved);
	VMCOREINFO_OFFSET(deferred_map, next);
	VMCOREINFO_NUMBER(MAX_ORDER_NR_PAGES);
}
#endif

static void deferred_init_finish(void)
{
	struct zone *zone;

	deferred_init_reserved_rest();
	trace_deferred_init_done(deferred_nr_pages);
	pr_info("all %lu deferred pages initialised\n", deferred_nr_pages);

	/* Every struct page is there. What follows takes longer: it waits for all CPUs. */
	deferred_zero_finish();
	static_branch_disable(&deferred_init_key);
	deferred_init_free_maps();
	if (deferred_init_wq)
		destroy_workqueue(deferred_init_wq);

	/* What boot could not find out while struct pages were pending. */
	get_online_mems();
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
	struct deferred_map *map;
	bool going_on = first;

	guard(rwsem_read)(&deferred_maps_rwsem);
	for (map = deferred_first_map(); map; map = map->next) {
		available = zone_page_state(map->zone, NR_FREE_PAGES);
		used = map->available > available ? map->available - available : 0;
		map->available = available;
		if (first || used < MAX_ORDER_NR_PAGES)
			continue;
		going_on = true;
		target = DEFERRED_RESERVE_PAGES +
			 min(used * DEFERRED_AHEAD_ROUNDS, DEFERRED_AHEAD_MAX);
		/* Who has the CPU to share with others does not make them wait. */
		while (single_task_running() && !deferred_init_urgent() &&
		       deferred_init_free_pages(map->zone) < (long)target &&
		       deferred_init_next(map->zone, DEFERRED_INIT_BACKGROUND))
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

/* Have the holder initialise what it holds of the range, unless a task is to die. */
static void deferred_init_held_part(unsigned long start_pfn, unsigned long end_pfn, void *task)
{
	unsigned long next;

	for (; start_pfn < end_pfn && !fatal_signal_pending(task); start_pfn = next) {
		next = min(start_pfn + DEFERRED_HELD_PAGES, end_pfn);
		deferred_holder->init_range(start_pfn, next);
	}
}

static void deferred_init_all_held(void)
{
	struct padata_mt_job job = {
		.thread_fn	= deferred_init_held_part,
		.fn_arg		= current,
		.size		= max_pfn,
		.align		= DEFERRED_HELD_PAGES,
		.min_chunk	= DEFERRED_HELD_PAGES,
		.max_threads	= num_online_cpus(),
		.numa_aware	= true,
	};

	padata_do_multithreaded(&job);
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
	/* First: what is held may become free meanwhile, and be left to the threads. */
	if (deferred_holder)
		deferred_init_all_held();
	ret = deferred_init_start_threads(NULL);
	if (ret)
		return ret;
	return wait_for_completion_killable(&deferred_init_all_done) ? -EINTR : 0;
}

/**
 * deferred_init_wanted - is boot to leave behind what grows with memory?
 *
 * Context: boot, after early parameters.
 * Return: true with deferred_init=lazy or background.
 */
bool __meminit deferred_init_wanted(void)
{
	/* Scratch memory, free but MIGRATE_CMA, would need its own care. */
	return deferred_init_mode != DEFERRED_MODE_WAIT && !is_kho_boot();
}

/**
 * deferred_init_set_holder - let blocks be set aside
 * @holder: who does it; there is one
 *
 * Context: early boot, before deferred_init_setup().
 */
void __init deferred_init_set_holder(const struct deferred_holder *holder)
{
	deferred_holder = holder;
}

/**
 * deferred_init_threads_wanted - is what boot leaves behind to be done by threads?
 *
 * Context: any.
 * Return: true with deferred_init=background.
 */
bool deferred_init_threads_wanted(void)
{
	return deferred_init_mode == DEFERRED_MODE_BACKGROUND;
}

/* Whole blocks that boot allocated and never frees. */
struct deferred_range {
	unsigned long start_pfn;
	unsigned long end_pfn;
};

static struct deferred_range deferred_ranges[MAX_NUMNODES + DEFERRED_ZERO_TABLES] __initdata;
static unsigned int deferred_nr_ranges __initdata;
static phys_addr_t deferred_memmap_start __initdata;
static phys_addr_t deferred_memmap_next __initdata;
static phys_addr_t deferred_memmap_end __initdata;

/**
 * deferred_init_skip_reserved - leave struct pages of reserved memory uninitialised
 * @start: start of memory that is reserved and stays so
 * @end: its end
 *
 * Context: early boot, before struct pages of reserved memory are initialised.
 */
void __init deferred_init_skip_reserved(phys_addr_t start, phys_addr_t end)
{
	unsigned long start_pfn = ALIGN(PFN_UP(start), MAX_ORDER_NR_PAGES);
	unsigned long end_pfn = ALIGN_DOWN(PFN_DOWN(end), MAX_ORDER_NR_PAGES);

	if (start_pfn >= end_pfn || deferred_nr_ranges == ARRAY_SIZE(deferred_ranges) ||
	    memblock_reserved_mark_noinit(PFN_PHYS(start_pfn), PFN_PHYS(end_pfn - start_pfn)))
		return;
	deferred_ranges[deferred_nr_ranges].start_pfn = start_pfn;
	deferred_ranges[deferred_nr_ranges].end_pfn = end_pfn;
	deferred_nr_ranges++;
}

/**
 * deferred_init_memmap_begin - get the memory for a node's memory map in one piece
 * @nid: the node
 * @size: of the memory map, in bytes
 *
 * One piece makes for few memory ranges, and leaves most of the struct pages
 * that it has of its own to be initialised on demand.
 *
 * Context: early boot, before struct pages are initialised.
 */
void __init deferred_init_memmap_begin(int nid, unsigned long size)
{
	const unsigned long align = max(PAGE_SIZE << MAX_PAGE_ORDER, PMD_SIZE);
	void *start;

	if (!deferred_init_wanted() || !IS_ENABLED(CONFIG_SPARSEMEM_VMEMMAP) ||
	    size < 2 * align)
		return;
	start = memmap_alloc(size, align, __pa(MAX_DMA_ADDRESS), nid, true);
	if (!start)
		return;
	deferred_memmap_start = __pa(start);
	deferred_memmap_next = deferred_memmap_start;
	deferred_memmap_end = deferred_memmap_start + size;
}

/**
 * deferred_init_memmap_alloc - allocate a part of the node's memory map
 * @size: size and alignment of the part in bytes
 *
 * Context: early boot, between deferred_init_memmap_begin() and _end().
 * Return: the memory, or NULL if it has to come from elsewhere.
 */
void * __init deferred_init_memmap_alloc(unsigned long size)
{
	void *part;

	/* Page tables and maps made of base pages would break the alignment. */
	if (size != PMD_SIZE || deferred_memmap_end - deferred_memmap_next < size)
		return NULL;
	part = __va(deferred_memmap_next);
	deferred_memmap_next += size;
	return part;
}

/**
 * deferred_init_memmap_run - how much of the memory map to populate in one go
 * @nr: number of a present section
 * @end_nr: end of the node's sections
 *
 * Context: early boot, between deferred_init_memmap_begin() and _end().
 * Return: number of pages, those of @nr and of the sections that follow it.
 */
unsigned long __init deferred_init_memmap_run(unsigned long nr, unsigned long end_nr)
{
	unsigned long next = nr + 1;

	/* Only a virtual memory map is in one piece; arm64 wants to see each section. */
	if (deferred_memmap_end && !IS_ENABLED(CONFIG_ARM64)) {
		while (next < end_nr && present_section_nr(next) &&
		       !preinited_vmemmap_section(__nr_to_section(next)))
			next++;
	}
	return (next - nr) * PAGES_PER_SECTION;
}

/**
 * deferred_init_memmap_end - the node's memory map is complete
 *
 * Context: early boot, before struct pages are initialised.
 */
void __init deferred_init_memmap_end(void)
{
	if (!deferred_memmap_end)
		return;
	if (deferred_memmap_next < deferred_memmap_end)
		memblock_phys_free(deferred_memmap_next,
				   deferred_memmap_end - deferred_memmap_next);
	deferred_init_skip_reserved(deferred_memmap_start, deferred_memmap_next);
	deferred_memmap_next = 0;
	deferred_memmap_end = 0;
}

/**
 * deferred_init_clip - where the deferred part of a free range begins
 * @start_pfn: start of a range of free memory of one node
 * @end_pfn: its end
 *
 * Context: early boot, while memblock is there.
 * Return: the end of the part of the range whose struct pages are initialised.
 */
unsigned long __init deferred_init_clip(unsigned long start_pfn, unsigned long end_pfn)
{
	int nid = early_pfn_to_nid(start_pfn);

	return clamp(NODE_DATA(nid)->first_deferred_pfn, start_pfn, end_pfn);
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
		deferred_init_write(zone, pfn, next - pfn, DEFERRED_PAGE_USED);
		if (pageblock_aligned(pfn))
			init_pageblock_migratetype(pfn_to_page(pfn), MIGRATE_MOVABLE, false);
	}
}

static void __init deferred_init_free_part(struct zone *zone, unsigned long pfn,
					   unsigned long end_pfn)
{
	if (pfn >= end_pfn)
		return;
	accept_memory(PFN_PHYS(pfn), (end_pfn - pfn) << PAGE_SHIFT);
	for (; pfn < end_pfn; pfn++)
		__free_pages_core(pfn_to_page(pfn), 0, MEMINIT_EARLY);
}

/* The zone of a page that is memory of the node. */
static struct zone * __init deferred_node_zone(int nid, unsigned long pfn)
{
	struct zone *zone = NODE_DATA(nid)->node_zones;

	while (!zone_spans_pfn(zone, pfn))
		zone++;
	return zone;
}

/* Call @fn for the deferred free memory of a node (or of all) in a range of pfns. */
static void __init deferred_init_each_part(int nid, unsigned long start_pfn,
					   unsigned long stop_pfn, deferred_part_fn fn)
{
	phys_addr_t start, end;
	struct zone *zone;
	int in;
	u64 i;

	for_each_free_mem_range(i, nid, MEMBLOCK_NONE, &start, &end, &in) {
		unsigned long pfn = max3(PFN_UP(start), start_pfn,
					 NODE_DATA(in)->first_deferred_pfn);
		unsigned long end_pfn = min(PFN_DOWN(end), stop_pfn);

		while (pfn < end_pfn) {
			zone = deferred_node_zone(in, pfn);
			fn(zone, pfn, min(end_pfn, zone_end_pfn(zone)));
			pfn = min(end_pfn, zone_end_pfn(zone));
		}
	}
}

/* Initialise and free what there is up to the next free block; false at the end. */
static bool __init deferred_init_grow_early(pg_data_t *pgdat)
{
	unsigned long first_pfn = pgdat->first_deferred_pfn;
	phys_addr_t start, end;
	u64 i;

	for_each_free_mem_range(i, pgdat->node_id, MEMBLOCK_NONE, &start, &end, NULL) {
		unsigned long pfn = max(PFN_UP(start), first_pfn);
		unsigned long end_pfn = ALIGN(pfn, MAX_ORDER_NR_PAGES) + MAX_ORDER_NR_PAGES;

		if (pfn >= PFN_DOWN(end))
			continue;
		deferred_init_each_part(NUMA_NO_NODE, first_pfn, end_pfn,
					deferred_init_write_part);
		deferred_init_each_part(pgdat->node_id, first_pfn, end_pfn,
					deferred_init_free_part);
		pgdat->first_deferred_pfn = end_pfn;
		return true;
	}
	return false;
}

static void * __init deferred_init_alloc(pg_data_t *pgdat, size_t bytes)
{
	void *p;

	do {
		p = alloc_pages_exact_nid(pgdat->node_id, bytes,
					  GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	} while (!p && deferred_init_grow_early(pgdat));
	return p;
}

static struct deferred_map * __init deferred_init_alloc_map(struct zone *zone)
{
	pg_data_t *pgdat = zone->zone_pgdat;
	struct deferred_map *map = deferred_init_alloc(pgdat, sizeof(*map));

	if (!map)
		goto fail;
	if (pgdat->first_deferred_pfn >= zone_end_pfn(zone)) {
		free_pages_exact(map, sizeof(*map));
		return NULL;
	}
	map->zone = zone;
	map->base_pfn = ALIGN_DOWN(max(zone->zone_start_pfn, pgdat->first_deferred_pfn),
				   MAX_ORDER_NR_PAGES);
	map->nr_blocks = DIV_ROUND_UP(zone_end_pfn(zone) - map->base_pfn,
				      MAX_ORDER_NR_PAGES);
	map->bytes = BITS_TO_LONGS(map->nr_blocks) * sizeof(long);
	map->unclaimed = deferred_init_alloc(pgdat, map->bytes);
	map->pending = deferred_init_alloc(pgdat, map->bytes);
	map->reserved = deferred_init_alloc(pgdat, map->bytes);
	map->held = deferred_init_alloc(pgdat, map->bytes);
	raw_spin_lock_init(&map->reserved_lock);
	raw_spin_lock_init(&map->held_lock);
	if (map->unclaimed && map->pending && map->reserved && map->held)
		return map;

	deferred_init_free_map(map);
fail:
	pr_warn("no memory for the map of zone %s of node %d: boot waits for it\n",
		zone->name, pgdat->node_id);
	return NULL;
}

/* Call @fn for the free memory of a zone that is not deferred with its block. */
static void __init deferred_init_zone_parts(struct zone *zone, deferred_part_fn fn)
{
	const bool has_map = rcu_access_pointer(zone->deferred_map);
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
		if (first >= last || !has_map) {
			fn(zone, pfn, end_pfn);
		} else {
			fn(zone, pfn, first);
			fn(zone, last, end_pfn);
		}
	}
}

/* Enter the free blocks of a zone in its map, and count them. */
static void __init deferred_init_fill_map(struct deferred_map *map)
{
	struct zone *zone = map->zone;
	unsigned long nr_pages = 0;
	phys_addr_t start, end;
	u64 i;

	for_each_free_mem_range(i, zone_to_nid(zone), MEMBLOCK_NONE, &start, &end, NULL) {
		unsigned long pfn = max3(PFN_UP(start), zone->zone_start_pfn,
					 zone->zone_pgdat->first_deferred_pfn);
		unsigned long first = ALIGN(pfn, MAX_ORDER_NR_PAGES);
		unsigned long last = ALIGN_DOWN(min(PFN_DOWN(end), zone_end_pfn(zone)),
						MAX_ORDER_NR_PAGES);

		if (first >= last)
			continue;
		bitmap_set(map->unclaimed, deferred_pfn_block(map, first),
			   (last - first) / MAX_ORDER_NR_PAGES);
		nr_pages += last - first;
	}
	bitmap_copy(map->pending, map->unclaimed, map->nr_blocks);
	atomic_long_set(&map->remaining, nr_pages / MAX_ORDER_NR_PAGES);
	if (nr_pages)
		atomic_inc(&deferred_maps_left);

	atomic_long_add(nr_pages, &zone->managed_pages);
	mod_zone_page_state(zone, NR_DEFERRED, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, nr_pages);
	deferred_nr_pages += nr_pages;
}

/*
 * Leave the struct pages of a reserved block pending, or initialise them if no
 * map can tell of them.
 */
static void __init deferred_init_fill_reserved(unsigned long pfn)
{
	struct zone *zone = deferred_node_zone(early_pfn_to_nid(pfn), pfn);
	struct deferred_map *map = rcu_dereference_raw(zone->deferred_map);

	if (!map || pfn < zone->zone_pgdat->first_deferred_pfn) {
		deferred_init_block_pages(zone, pfn, DEFERRED_PAGE_RESERVED);
		return;
	}
	__set_bit(deferred_pfn_block(map, pfn), map->reserved);
	__set_bit(deferred_pfn_block(map, pfn), map->pending);
	deferred_reserved = true;
}

/* What holds struct pages that are initialised by now must be so itself. */
static void __init deferred_init_reserved_used(void)
{
	unsigned long start_pfn, end_pfn, pfn, block, next;
	struct deferred_map *map;
	int i, nid;

	for_each_mem_pfn_range(i, MAX_NUMNODES, &start_pfn, &end_pfn, &nid) {
		for (pfn = start_pfn; pfn < end_pfn;
		     pfn = ALIGN(pfn + 1, MAX_ORDER_NR_PAGES)) {
			map = rcu_dereference_raw(deferred_node_zone(nid, pfn)->deferred_map);
			if (map && pfn >= map->base_pfn) {
				block = deferred_pfn_block(map, pfn);
				next = find_next_zero_bit(map->pending, map->nr_blocks, block);
				if (next > block) {
					pfn = deferred_block_pfn(map, next) - 1;
					continue;
				}
			}
			deferred_init_block_memmap(ALIGN_DOWN(pfn, MAX_ORDER_NR_PAGES));
		}
	}
}

static void __init deferred_init_set_held(struct deferred_map *map, unsigned long block,
					  unsigned long nr)
{
	bitmap_set(map->held, block, nr);
	atomic_long_add(nr, &map->nr_held);
}

/**
 * deferred_init_hold - set blocks of a zone's free memory aside
 * @zone: the zone
 * @leave: leave this many blocks free, the first of them
 * @want: set at most this many aside
 * @fn: called with each run of them
 *
 * They stay part of managed_pages, and are not free any more.
 *
 * Context: a holder's setup().
 * Return: the number of blocks that @fn took.
 */
unsigned long __init deferred_init_hold(struct zone *zone, unsigned long leave,
					unsigned long want, deferred_hold_fn fn)
{
	struct deferred_map *map = rcu_dereference_raw(zone->deferred_map);
	unsigned long start, end, skipped, nr = 0;
	long nr_pages;

	if (!map)
		return 0;
	for_each_set_bitrange(start, end, map->unclaimed, map->nr_blocks) {
		skipped = min(leave, end - start);
		leave -= skipped;
		start += skipped;
		if (nr == want)
			break;
		if (start == end)
			continue;
		end = min(end, start + want - nr);
		if (!fn(zone, deferred_block_pfn(map, start), end - start))
			break;
		bitmap_clear(map->unclaimed, start, end - start);
		deferred_init_set_held(map, start, end - start);
		nr += end - start;
	}
	nr_pages = nr * MAX_ORDER_NR_PAGES;
	mod_zone_page_state(zone, NR_DEFERRED, -nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES, -nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, -nr_pages);
	return nr;
}

/**
 * deferred_init_first_pfn - from where on can memory of a zone be held?
 * @zone: the zone
 *
 * Context: a holder's setup().
 * Return: the first pfn that the zone's map covers, ULONG_MAX if there is no map.
 */
unsigned long __init deferred_init_first_pfn(struct zone *zone)
{
	struct deferred_map *map = rcu_dereference_raw(zone->deferred_map);

	return map ? map->base_pfn : ULONG_MAX;
}

/**
 * deferred_init_hold_reserved - set aside what boot allocated
 * @zone: the zone
 * @pfn: pfn of a block of it, in memory that is reserved and marked NOINIT
 * @nr: number of blocks
 *
 * The memory becomes part of managed_pages. What the zone's map does not cover is
 * initialised as memory in use.
 *
 * Context: a holder's setup().
 * Return: does the map cover all of it, so that it can be given back?
 */
bool __init deferred_init_hold_reserved(struct zone *zone, unsigned long pfn, unsigned long nr)
{
	struct deferred_map *map = rcu_dereference_raw(zone->deferred_map);
	unsigned long end_pfn = pfn + nr * MAX_ORDER_NR_PAGES;
	unsigned long first_pfn = pfn;
	unsigned long block;

	atomic_long_add(end_pfn - pfn, &zone->managed_pages);
	totalram_pages_add(end_pfn - pfn);
	for (; pfn < end_pfn && (!map || pfn < map->base_pfn); pfn += MAX_ORDER_NR_PAGES)
		deferred_init_block_pages(zone, pfn, DEFERRED_PAGE_USED);
	if (pfn >= end_pfn)
		return false;
	block = deferred_pfn_block(map, pfn);
	nr = (end_pfn - pfn) / MAX_ORDER_NR_PAGES;
	bitmap_set(map->pending, block, nr);
	deferred_init_set_held(map, block, nr);
	if (atomic_long_fetch_add(nr, &map->remaining) == 0)
		atomic_inc(&deferred_maps_left);
	deferred_nr_pages += end_pfn - pfn;
	return pfn == first_pfn;
}

/**
 * deferred_init_held_begin - start to initialise held blocks
 * @zone: the zone
 * @pfn: pfn of the first
 * @nr: number of blocks
 *
 * The caller has made sure that nobody else does, and calls deferred_init_held_end()
 * when all struct pages can be read. Meanwhile no crash kernel is prepared for.
 *
 * Context: process context, may sleep.
 */
void deferred_init_held_begin(struct zone *zone, unsigned long pfn, unsigned long nr)
{
	down_read(&deferred_maps_rwsem);
	accept_memory(PFN_PHYS(pfn), nr * MAX_ORDER_NR_PAGES * PAGE_SIZE);
	for (; nr; nr--, pfn += MAX_ORDER_NR_PAGES)
		deferred_init_block_memmap(pfn);
}

/**
 * deferred_init_held_end - held blocks are initialised
 * @zone: the zone
 * @pfn: pfn of the first
 * @nr: number of blocks
 * @item: DEFERRED_INIT_DEMAND or DEFERRED_INIT_BACKGROUND, to count them
 *
 * Context: process context.
 */
void deferred_init_held_end(struct zone *zone, unsigned long pfn, unsigned long nr,
			    enum vm_event_item item)
{
	struct deferred_map *map;
	unsigned long done = 0;

	/* Held ones keep the map; the last may end it. */
	scoped_guard(rcu) {
		map = zone_deferred_map(zone);
		for (; map && nr; nr--, pfn += MAX_ORDER_NR_PAGES) {
			unsigned long block = deferred_pfn_block(map, pfn);

			if (pfn < map->base_pfn)
				continue;
			scoped_guard(raw_spinlock_irqsave, &map->held_lock)
				__clear_bit(block, map->held);
			/* Pairs with test_bit_acquire() in deferred_map_pending(). */
			clear_bit_unlock(block, map->pending);
			done++;
		}
		if (done) {
			atomic_long_sub(done, &map->nr_held);
			count_vm_events(item, done * MAX_ORDER_NR_PAGES);
			deferred_init_count_done(map, done);
		}
	}
	up_read(&deferred_maps_rwsem);
}

/**
 * deferred_init_release - make held blocks free memory
 * @zone: the zone
 * @pfn: pfn of the first
 * @nr: number of blocks, all of which the zone's map covers
 *
 * Context: any.
 */
void deferred_init_release(struct zone *zone, unsigned long pfn, unsigned long nr)
{
	long nr_pages = nr * MAX_ORDER_NR_PAGES;
	struct deferred_map *map;
	unsigned long block;

	guard(rcu)();
	map = zone_deferred_map(zone);
	block = deferred_pfn_block(map, pfn);
	/* Whoever claims one takes it off these counts. */
	mod_zone_page_state(zone, NR_DEFERRED, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES, nr_pages);
	mod_zone_page_state(zone, NR_FREE_PAGES_BLOCKS, nr_pages);
	atomic_long_sub(nr, &map->nr_held);
	/* Who marks a held block for crash dumps is done with it before it is free. */
	scoped_guard(raw_spinlock_irqsave, &map->held_lock)
		bitmap_clear(map->held, block, nr);
	for (; nr; nr--, block++)
		set_bit(block, map->unclaimed);
}

/**
 * deferred_init_setup - take over what early boot left uninitialised
 *
 * Called once the free memory of memblock is in the buddy allocator, except for
 * deferred blocks, and the struct pages of all reserved memory and holes are
 * initialised, except for those of the memory map. Where this takes over,
 * mainline's on-demand initialisation during boot and its threads find nothing
 * to do.
 *
 * Context: early boot, one CPU, before the slab allocator.
 */
void __init deferred_init_setup(void)
{
	struct deferred_map *map, *last = NULL;
	struct deferred_range *range;
	struct zone *zone;
	unsigned long pfn;
	int nid;

	if (!deferred_init_wanted()) {
		if (deferred_init_mode != DEFERRED_MODE_WAIT)
			pr_info("kexec handover: boot waits for the memory map\n");
		deferred_init_mode = DEFERRED_MODE_WAIT;
		return;
	}

	/*
	 * Mainline's growth knows only the highest zone. From here on, moreover,
	 * free_reserved_area() and KASAN need not hold back.
	 */
	static_branch_disable(&deferred_pages);

	for_each_populated_zone(zone) {
		if (zone_end_pfn(zone) <= zone->zone_pgdat->first_deferred_pfn)
			continue;
		map = deferred_init_alloc_map(zone);
		if (!map)
			continue;
		rcu_assign_pointer(zone->deferred_map, map);
		if (last)
			last->next = map;
		else
			rcu_assign_pointer(deferred_maps, map);
		last = map;
	}

	for_each_populated_zone(zone)
		deferred_init_zone_parts(zone, deferred_init_write_part);
	for_each_populated_zone(zone)
		deferred_init_zone_parts(zone, deferred_init_free_part);
	for (map = rcu_dereference_raw(deferred_maps); map; map = map->next)
		deferred_init_fill_map(map);
	for (range = deferred_ranges; range < deferred_ranges + deferred_nr_ranges; range++) {
		for (pfn = range->start_pfn; pfn < range->end_pfn; pfn += MAX_ORDER_NR_PAGES)
			deferred_init_fill_reserved(pfn);
	}
	if (deferred_holder)
		deferred_holder->setup();
	for_each_node_state(nid, N_MEMORY)
		NODE_DATA(nid)->first_deferred_pfn = ULONG_MAX;
	if (deferred_reserved)
		deferred_init_reserved_used();

	if (deferred_nr_pages) {
		static_branch_enable(&deferred_init_key);
	} else {
		deferred_init_reserved_rest();
		deferred_init_free_maps();
	}
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
	if (!static_key_enabled(&deferred_init_key)) {
		deferred_zero_finish();
		return false;
	}

	if (deferred_init_mode == DEFERRED_MODE_BACKGROUND) {
		deferred_init_wq = deferred_init_alloc_wq();
		if (!deferred_init_wq || deferred_init_start_threads(deferred_init_wq))
			pr_warn("no threads: struct pages are initialised on demand\n");
	}
	deferred_init_task = kthread_run(deferred_init_main, NULL, "deferred_init");
	if (IS_ERR(deferred_init_task))
		pr_warn("no thread: the map cannot be completed\n");
	/* Small machines may have used up all of it by now. */
	if (atomic_dec_and_test(&deferred_maps_left))
		deferred_init_request(DEFERRED_REQUEST_FINISH);
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
/* The image is made from struct pages: all of them must be there. */
static int deferred_init_pm_notify(struct notifier_block *nb, unsigned long action,
				   void *data)
{
	if (action == PM_HIBERNATION_PREPARE)
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
