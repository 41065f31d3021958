// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clearing free pages ahead of time
 *
 * One thread for each node, or more if its budget allows, clears blocks of free
 * pages while nothing else wants the CPU. The page allocator keeps track of
 * which free pages are zeroed (see prezero.h), and clears a page only if it is
 * not when somebody asks for zeroes.
 *
 * A thread takes one block at a time off the free lists, as page reporting
 * does, so that nobody else gets hold of it meanwhile, and marks each page that
 * it cleared. A page which nobody vouches for is never marked: not memory that
 * is not initialised yet, nor what was reported free to a hypervisor, which
 * would have to provide memory again for pages that nobody may ever use. While
 * free pages are reported, nothing is cleared.
 */
#define pr_fmt(fmt) "prezero: " fmt

#include <linux/cond_resched_lazy.h>
#include <linux/fault-inject.h>
#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/node.h>
#include <linux/nodemask.h>
#include <linux/power_supply.h>
#include <linux/prezero.h>
#include <linux/sched/cputime.h>
#include <linux/sched/debug.h>
#include <linux/slab.h>
#include <linux/string_choices.h>
#include <linux/sysfs.h>
#include <linux/timer.h>
#include <linux/vmstat.h>
#include <linux/wait.h>
#include <asm/page_nontemporal.h>
#include "hugetlb_prezero.h"
#include "internal.h"
#include "page_alloc.h"
#include "page_reporting.h"

#define CREATE_TRACE_POINTS
#include <trace/events/prezero.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX	"prezero."

/* Pages become free in bursts: look a while after the first one. */
#define PREZERO_DELAY		(HZ / 5)

/* Pages between two looks at whether somebody wants the CPU: 64 KiB */
#define PREZERO_PART_PAGES	16

/* A thread with less than a whole CPU rests after this much work. */
#define PREZERO_ROUND_NS	(5 * NSEC_PER_MSEC)

DEFINE_STATIC_KEY_FALSE(prezero_key);

/* The counters are those of /proc/vmstat, in that order. */
#define NR_PREZERO_COUNTS	(PREZERO_TIME_US - PREZERO_ZEROED + 1)

struct prezero_counts {
	unsigned long n[NR_PREZERO_COUNTS];
};

/**
 * struct prezero_node - the threads of a node
 * @kobj: its folder in sysfs
 * @counts: what /proc/vmstat shows for all nodes
 * @nid: the node
 * @nr_threads: how many there are
 * @share: how much of a CPU each may take, in percent
 * @idle: a thread found nothing to do: who frees a block sets @timer
 * @work: sets @timer; a free must not, as a timer may have to allocate memory
 * @timer: wakes the threads
 * @wait: where they sleep
 * @threads: their tasks; as many as the node has CPUs fit
 */
struct prezero_node {
	struct kobject kobj;
	struct prezero_counts __percpu *counts;
	int nid;
	unsigned int nr_threads;
	unsigned int share;
	bool idle;
	struct irq_work work;
	struct timer_list timer;
	wait_queue_head_t wait;
	struct task_struct *threads[] __counted_by(nr_threads);
};

/* Serialises what starts and stops threads, and settings that they depend on. */
static DEFINE_MUTEX(prezero_lock);

/* Never freed once there, as frees and allocations look at them at any time. */
static struct prezero_node *prezero_nodes[MAX_NUMNODES];
static bool prezero_enabled;
static bool prezero_on_boot __initdata;
static bool prezero_on_battery;

unsigned int prezero_order __read_mostly = 4;
static unsigned int prezero_target = 100;
static unsigned int prezero_budget = 100;
bool prezero_hugetlb __read_mostly = true;

bool prezero_verify __read_mostly;
module_param_named(verify, prezero_verify, bool, 0644);
MODULE_PARM_DESC(verify, "Check that pages marked as zeroed are, when they are taken");

#ifdef CONFIG_FAULT_INJECTION
static DECLARE_FAULT_ATTR(fail_prezero);

static int __init setup_fail_prezero(char *str)
{
	return str && setup_fault_attr(&fail_prezero, str) ? 0 : -EINVAL;
}
early_param("fail_prezero", setup_fail_prezero);

static int __init prezero_fault_init(void)
{
	return PTR_ERR_OR_ZERO(fault_create_debugfs_attr("fail_prezero", NULL,
							 &fail_prezero));
}
late_initcall(prezero_fault_init);

static bool prezero_should_fail(void)
{
	return should_fail(&fail_prezero, 1);
}
#else
static bool prezero_should_fail(void)
{
	return false;
}
#endif

/**
 * prezero_count - count what happened to pages
 * @nid: their node
 * @item: one of PREZERO_ZEROED to PREZERO_TIME_US
 * @n: how many there are
 *
 * Context: any.
 */
void prezero_count(int nid, enum vm_event_item item, unsigned long n)
{
	struct prezero_node *node = READ_ONCE(prezero_nodes[nid]);

	count_vm_events(item, n);
	if (likely(node))
		this_cpu_add(node->counts->n[item - PREZERO_ZEROED], n);
}

static void prezero_wake(struct prezero_node *node)
{
	WRITE_ONCE(node->idle, false);
	wake_up_all(&node->wait);
}

static void prezero_timer(struct timer_list *timer)
{
	struct prezero_node *node = timer_container_of(node, timer, timer);

	prezero_wake(node);
}

static void prezero_work(struct irq_work *work)
{
	struct prezero_node *node = container_of(work, struct prezero_node, work);

	mod_timer(&node->timer, jiffies + PREZERO_DELAY);
}

static void prezero_wake_all(void)
{
	int nid;

	lockdep_assert_held(&prezero_lock);
	for_each_node(nid)
		if (prezero_nodes[nid])
			prezero_wake(prezero_nodes[nid]);
}

/* Free memory is left alone on battery, and if a hypervisor learns what is free. */
static bool prezero_suspended(void)
{
#ifdef CONFIG_PAGE_REPORTING
	if (static_branch_unlikely(&page_reporting_enabled))
		return true;
#endif
	return READ_ONCE(prezero_on_battery);
}

/**
 * __prezero_notify_free - there may be something to clear on a node
 * @nid: the node
 *
 * Context: any. Called with locks of the allocator held.
 */
void __prezero_notify_free(int nid)
{
	struct prezero_node *node = READ_ONCE(prezero_nodes[nid]);

	if (node && READ_ONCE(node->idle) && !timer_pending(&node->timer) &&
	    !prezero_suspended())
		irq_work_queue(&node->work);
}

/**
 * prezero_check - is a page that is marked as zeroed really so?
 * @addr: where it is mapped
 * @nid: its node
 *
 * Context: any.
 * Return: false if it is not, which the log says, or true, also if nobody wants
 * to know (verify is off).
 */
bool prezero_check(const void *addr, int nid)
{
	const u8 *bad;

	if (likely(!READ_ONCE(prezero_verify)))
		return true;
	bad = memchr_inv(addr, 0, PAGE_SIZE);
	if (likely(!bad))
		return true;
	prezero_count(nid, PREZERO_BAD, 1);
	add_taint(TAINT_BAD_PAGE, LOCKDEP_STILL_OK);
	pr_err_ratelimited("pfn %#lx is marked as zeroed but holds %#x at offset %#zx\n",
			   PHYS_PFN(__pa(addr)), *bad, bad - (const u8 *)addr);
	return false;
}

/**
 * prezero_clear_page - clear a page that is about to be marked as zeroed
 * @addr: where it is mapped
 *
 * Context: any. Fault injection may leave out the clearing.
 */
void prezero_clear_page(void *addr)
{
	if (!prezero_should_fail())
		clear_page_nontemporal(addr);
}

/* Take the marks off pages; return how many had one. */
static unsigned int prezero_strip(struct page *page, unsigned int nr)
{
	unsigned int zeroed = 0;

	for (struct page *end = page + nr; page < end; page++) {
		if (PageZeroed(page)) {
			ClearPageZeroed(page);
			zeroed++;
		}
	}
	return zeroed;
}

/* Take the marks off pages and clear the others; return how many had one. */
static unsigned int prezero_clear_others(struct page *page, unsigned int nr)
{
	unsigned int zeroed = 0, i, next;

	for (i = 0; i < nr; i = next) {
		for (next = i; next < nr && !PageZeroed(page + next); next++)
			;
		if (next > i)
			clear_pages(page_address(page + i), next - i);
		for (i = next; next < nr && PageZeroed(page + next); next++) {
			ClearPageZeroed(page + next);
			if (likely(prezero_check(page_address(page + next),
						 page_to_nid(page))))
				zeroed++;
			else
				clear_page(page_address(page + next));
		}
	}
	return zeroed;
}

/* prezero_take() of several pages, or of one that is not simply what is wanted */
static noinline void prezero_take_any(struct page *page, unsigned int order, bool init)
{
	unsigned int nr = 1U << order, zeroed;
	int nid = page_to_nid(page);
	bool all = PageZeroedBlock(page);

	if (all)
		ClearPageZeroedBlock(page);
	if (!init) {
		zeroed = prezero_strip(page, nr);
		if (zeroed)
			prezero_count(nid, PREZERO_WASTED, zeroed);
	} else {
		if (all && !READ_ONCE(prezero_verify))
			zeroed = prezero_strip(page, nr);
		else
			zeroed = prezero_clear_others(page, nr);
		if (zeroed)
			prezero_count(nid, PREZERO_TAKEN, zeroed);
		if (zeroed < nr)
			prezero_count(nid, PREZERO_MISSED, nr - zeroed);
	}
	/* Below a target there may be others to clear in place of those. */
	if (zeroed && READ_ONCE(prezero_target) < 100)
		__prezero_notify_free(nid);
}

/**
 * prezero_take - take the marks off pages that are allocated, clear the others
 * @page: the first of them, mapped and unpoisoned
 * @order: how many there are
 * @init: must they hold zeroes?
 *
 * Context: any.
 */
void prezero_take(struct page *page, unsigned int order, bool init)
{
	if (order || !init || !PageZeroed(page) || READ_ONCE(prezero_verify) ||
	    READ_ONCE(prezero_target) < 100)
		return prezero_take_any(page, order, init);
	if (PageZeroedBlock(page))
		ClearPageZeroedBlock(page);
	ClearPageZeroed(page);
	prezero_count(page_to_nid(page), PREZERO_TAKEN, 1);
}

/* Pages of a zone in free blocks that are all zeroed */
static unsigned long prezero_zone_pages(struct zone *zone)
{
	unsigned long pages = 0;

	for (int order = 0; order < NR_PAGE_ORDERS; order++)
		pages += READ_ONCE(zone->free_area[order].nr_zeroed) << order;
	return pages;
}

/* Is there too little zeroed in this zone? */
static bool prezero_zone_wanted(struct zone *zone)
{
	unsigned int target = READ_ONCE(prezero_target);

	if (prezero_suspended() || !populated_zone(zone))
		return false;
	return target >= 100 ||
	       prezero_zone_pages(zone) < mult_frac(prezero_zone_free(zone), target, 100);
}

/*
 * Nobody else gets at a block that a thread holds, so the thread must not lose
 * the CPU meanwhile. With PREEMPT_RT it may: giving back takes a sleeping lock.
 */
static void prezero_hold_cpu(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

static void prezero_release_cpu(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

/*
 * Clear what is not zeroed of a block that is in no free list, and mark it, up
 * to where somebody wants the CPU. Return: a poisoned page in it, or NULL
 */
static struct page *prezero_clear_block(struct zone *zone, struct page *page,
					unsigned int order)
{
	unsigned int nr = 1U << order, cleared = 0, i;
	struct page *poisoned = NULL;

	debug_pagealloc_map_pages(page, nr);
	for (i = 0; i < nr; i++) {
		struct page *p = page + i;

		if (PageZeroed(p))
			continue;
		/* Memory failure comes at any time, also for pages that we hold. */
		if (unlikely(PageHWPoison(p))) {
			poisoned = p;
			continue;
		}
		prezero_clear_page(page_address(p));
		SetPageZeroed(p);
		if (!(++cleared % PREZERO_PART_PAGES) && prezero_cpu_wanted()) {
			i++;
			break;
		}
	}
	debug_pagealloc_unmap_pages(page, nr);

	/* One mark for each of the blocks that it may be given back as. */
	if (i == nr && !poisoned)
		for (i = 0; i < nr; i += pageblock_nr_pages)
			SetPageZeroedBlock(page + i);
	prezero_count(zone_to_nid(zone), PREZERO_ZEROED, cleared);
	trace_prezero_block(zone_to_nid(zone), page_to_pfn(page), order, cleared);
	return poisoned;
}

/* As if memory failure had found the page free, which is what it is now. */
static void prezero_take_off(struct page *page)
{
#ifdef CONFIG_MEMORY_FAILURE
	if (take_page_off_buddy(page))
		page_ref_inc(page);
#endif
}

/*
 * Clear a block, or else a part of a page of a hugetlb pool.
 * Return: false if there is nothing to clear on this node, or nothing allowed
 */
static bool prezero_one_block(struct prezero_node *node,
			      struct hugetlb_zeroing *hugetlb)
{
	pg_data_t *pgdat = NODE_DATA(node->nid);

	for (int i = MAX_NR_ZONES - 1; i >= 0; i--) {
		struct zone *zone = &pgdat->node_zones[i];
		struct page *page, *poisoned = NULL;
		unsigned int order;

		if (!prezero_zone_wanted(zone))
			continue;
		prezero_hold_cpu();
		page = prezero_isolate_block(zone, READ_ONCE(prezero_order),
					     high_wmark_pages(zone), &order);
		if (page) {
			poisoned = prezero_clear_block(zone, page, order);
			prezero_putback_block(zone, page, order);
		}
		prezero_release_cpu();
		/* A block with a poisoned page in it would be looked at for ever. */
		if (poisoned)
			prezero_take_off(poisoned);
		if (page)
			return true;
	}
	return READ_ONCE(prezero_hugetlb) && !prezero_suspended() &&
	       hugetlb_zero_some(hugetlb, node->nid);
}

/* Free pages are out of reach on the lists of CPUs: get those of idle ones. */
static void prezero_drain_node(struct prezero_node *node)
{
	struct zone *zone = NODE_DATA(node->nid)->node_zones;
	bool left = false;

	for (int i = 0; i < MAX_NR_ZONES; i++)
		if (prezero_zone_wanted(zone + i))
			left |= prezero_drain_idle(zone + i);
	/* Nobody tells when a CPU becomes idle. */
	if (left)
		mod_timer(&node->timer, jiffies + HZ);
}

/* Work a while. Return: false if there is nothing left to do. */
static bool prezero_round(struct prezero_node *node, struct hugetlb_zeroing *hugetlb)
{
	u64 start = task_sched_runtime(current), spent;
	bool more;

	do {
		cond_resched_lazy();
		more = prezero_one_block(node, hugetlb);
		spent = task_sched_runtime(current) - start;
	} while (more && spent < PREZERO_ROUND_NS && !freezing(current) &&
		 !kthread_should_stop());
	prezero_count(node->nid, PREZERO_TIME_US, div_u64(spent, NSEC_PER_USEC));
	if (more && node->share < 100)
		schedule_timeout_idle(nsecs_to_jiffies(div_u64(spent * (100 - node->share),
							       node->share)) + 1);
	return more;
}

static int prezero_thread(void *data)
{
	struct prezero_node *node = data;
	struct sched_param param = { };
	struct hugetlb_zeroing hugetlb;

	hugetlb_zeroing_init(&hugetlb);
	sched_setscheduler_nocheck(current, SCHED_IDLE, &param);
	set_freezable();
	while (!kthread_should_stop()) {
		try_to_freeze();
		if (prezero_round(node, &hugetlb))
			continue;
		/* Whoever frees something from now on sets the timer. */
		smp_store_mb(node->idle, true);
		prezero_drain_node(node);
		if (prezero_round(node, &hugetlb))
			continue;
		trace_prezero_idle(node->nid);
		wait_event_freezable(node->wait,
				     !READ_ONCE(node->idle) || kthread_should_stop());
	}
	hugetlb_zeroing_exit(&hugetlb);
	return 0;
}

static unsigned long prezero_node_pages(int nid)
{
	struct zone *zone = NODE_DATA(nid)->node_zones;
	unsigned long pages = 0;

	for (int i = 0; i < MAX_NR_ZONES; i++)
		pages += prezero_zone_pages(zone + i);
	return pages;
}

/* The order is that of the counters; the last two are none. */
#define PREZERO_FREE_PAGES	NR_PREZERO_COUNTS
#define PREZERO_HUGETLB_PAGES	(NR_PREZERO_COUNTS + 1)
#define NR_PREZERO_NODE_ATTRS	(NR_PREZERO_COUNTS + 2)

static struct attribute prezero_node_attr[] = {
	{ .name = "zeroed", .mode = 0444 },
	{ .name = "taken", .mode = 0444 },
	{ .name = "missed", .mode = 0444 },
	{ .name = "wasted", .mode = 0444 },
	{ .name = "bad", .mode = 0444 },
	{ .name = "time_us", .mode = 0444 },
	{ .name = "free_pages", .mode = 0444 },
	{ .name = "hugetlb_pages", .mode = 0444 },
};

static struct attribute *prezero_node_attrs[] = {
	&prezero_node_attr[0], &prezero_node_attr[1], &prezero_node_attr[2],
	&prezero_node_attr[3], &prezero_node_attr[4], &prezero_node_attr[5],
	&prezero_node_attr[6], &prezero_node_attr[7], NULL
};
ATTRIBUTE_GROUPS(prezero_node);

static ssize_t prezero_node_show(struct kobject *kobj, struct attribute *attr,
				 char *buf)
{
	struct prezero_node *node = container_of(kobj, struct prezero_node, kobj);
	unsigned int item = attr - prezero_node_attr, cpu;
	unsigned long sum = 0;

	BUILD_BUG_ON(ARRAY_SIZE(prezero_node_attr) != NR_PREZERO_NODE_ATTRS);
	if (item == PREZERO_FREE_PAGES)
		return sysfs_emit(buf, "%lu\n", prezero_node_pages(node->nid));
	if (item == PREZERO_HUGETLB_PAGES)
		return sysfs_emit(buf, "%lu\n", hugetlb_zeroed_pages(node->nid));
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(node->counts, cpu)->n[item]);
	return sysfs_emit(buf, "%lu\n", sum);
}

static const struct sysfs_ops prezero_node_sysfs_ops = {
	.show = prezero_node_show,
};

/* A node is never freed, so there is nothing to release. */
static void prezero_node_release(struct kobject *kobj)
{
}

static const struct kobj_type prezero_node_ktype = {
	.release = prezero_node_release,
	.sysfs_ops = &prezero_node_sysfs_ops,
	.default_groups = prezero_node_groups,
};

static struct kobject *prezero_kobj;

static void prezero_stop_node(struct prezero_node *node)
{
	while (node->nr_threads) {
		kthread_stop(node->threads[node->nr_threads - 1]);
		node->nr_threads--;
	}
	WRITE_ONCE(node->idle, false);
	irq_work_sync(&node->work);
	timer_delete_sync(&node->timer);
}

static struct prezero_node *prezero_get_node(int nid)
{
	struct prezero_node *node = prezero_nodes[nid];

	if (node)
		return node;
	node = kzalloc_node(struct_size(node, threads, nr_cpu_ids), GFP_KERNEL, nid);
	if (!node)
		return NULL;
	node->counts = alloc_percpu(struct prezero_counts);
	if (!node->counts) {
		kfree(node);
		return NULL;
	}
	node->nid = nid;
	if (kobject_init_and_add(&node->kobj, &prezero_node_ktype, prezero_kobj,
				 "node%d", nid))
		pr_warn("no files for node %d\n", nid);
	init_irq_work(&node->work, prezero_work);
	timer_setup(&node->timer, prezero_timer, 0);
	init_waitqueue_head(&node->wait);
	/* Frees see either none or all of it. */
	smp_store_release(&prezero_nodes[nid], node);
	return node;
}

/* Start as many threads on a node as the budget is worth CPUs. */
static int prezero_start_node(int nid)
{
	unsigned int cpus = max(cpumask_weight(cpumask_of_node(nid)), 1U);
	unsigned int wanted = min(DIV_ROUND_UP(prezero_budget, 100), cpus);
	struct prezero_node *node = prezero_get_node(nid);

	if (!node)
		return -ENOMEM;
	node->share = min(prezero_budget / wanted, 100U);
	while (node->nr_threads < wanted) {
		struct task_struct *task;

		task = kthread_create_on_node(prezero_thread, node, nid, "prezero%d/%u",
					      nid, node->nr_threads);
		if (IS_ERR(task))
			return node->nr_threads ? 0 : PTR_ERR(task);
		node->nr_threads++;
		node->threads[node->nr_threads - 1] = task;
		wake_up_process(task);
	}
	return 0;
}

static void prezero_stop(void)
{
	int nid;

	lockdep_assert_held(&prezero_lock);
	for_each_node(nid)
		if (prezero_nodes[nid])
			prezero_stop_node(prezero_nodes[nid]);
	prezero_enabled = false;
}

/* Return: why free pages cannot be cleared ahead of time here, or NULL */
static const char *prezero_refusal(void)
{
	if (page_poisoning_enabled())
		return "free pages are poisoned";
	if (want_init_on_free())
		return "pages are cleared when they are freed";
	if (kasan_hw_tags_enabled())
		return "KASAN clears pages together with their tags";
	return NULL;
}

static int prezero_start(void)
{
	int nid, ret;

	lockdep_assert_held(&prezero_lock);
	WRITE_ONCE(prezero_on_battery, !power_supply_is_system_supplied());
	prezero_enabled = true;
	for_each_node_state(nid, N_MEMORY) {
		ret = prezero_start_node(nid);
		if (ret) {
			pr_err("off: no thread for node %d (%d)\n", nid, ret);
			prezero_stop();
			return ret;
		}
	}
	return 0;
}

/**
 * prezero_prepare - let marks be made from now on
 *
 * Memory hotplug calls us with the lock for CPU hotplug held, which the static key
 * takes, so this is done without our own.
 *
 * Context: process context, prezero_lock not held.
 * Return: 0, or -EOPNOTSUPP where another setting clears or poisons free pages.
 */
int prezero_prepare(void)
{
	const char *why = prezero_refusal();

	if (why) {
		pr_warn("off: %s\n", why);
		return -EOPNOTSUPP;
	}
	static_branch_enable(&prezero_key);
	return 0;
}

static int prezero_node_callback(struct notifier_block *nb, unsigned long action,
				 void *arg)
{
	struct node_notify *notify = arg;

	guard(mutex)(&prezero_lock);
	switch (action) {
	case NODE_ADDED_FIRST_MEMORY:
	case NODE_CANCEL_REMOVING_LAST_MEMORY:
		if (prezero_enabled)
			prezero_start_node(notify->nid);
		break;
	case NODE_REMOVING_LAST_MEMORY:
		if (prezero_nodes[notify->nid])
			prezero_stop_node(prezero_nodes[notify->nid]);
		break;
	}
	return NOTIFY_OK;
}

static int prezero_power_callback(struct notifier_block *nb, unsigned long action,
				  void *arg)
{
	bool battery;

	guard(mutex)(&prezero_lock);
	/* To ask is to talk to batteries. */
	if (!prezero_enabled)
		return NOTIFY_OK;
	battery = !power_supply_is_system_supplied();
	if (battery == prezero_on_battery)
		return NOTIFY_OK;
	WRITE_ONCE(prezero_on_battery, battery);
	if (!battery)
		prezero_wake_all();
	return NOTIFY_OK;
}

static struct notifier_block prezero_power_nb = {
	.notifier_call = prezero_power_callback,
};

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", prezero_enabled);
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool enable;
	int ret = kstrtobool(buf, &enable);

	if (!ret && enable)
		ret = prezero_prepare();
	if (ret)
		return ret;
	guard(mutex)(&prezero_lock);
	if (enable != prezero_enabled) {
		if (!enable)
			prezero_stop();
		else
			ret = prezero_start();
	}
	return ret ?: count;
}

/* A setting from @min to @max; the threads look at what there is to do anew. */
static ssize_t prezero_store(unsigned int *setting, const char *buf, size_t count,
			     unsigned int min, unsigned int max)
{
	unsigned int value;
	int ret = kstrtouint(buf, 0, &value);

	if (ret)
		return ret;
	if (value < min || value > max)
		return -EINVAL;
	guard(mutex)(&prezero_lock);
	WRITE_ONCE(*setting, value);
	prezero_wake_all();
	return count;
}

/* The same for what is on or off. */
static ssize_t prezero_store_bool(bool *setting, const char *buf, size_t count)
{
	bool value;
	int ret = kstrtobool(buf, &value);

	if (ret)
		return ret;
	guard(mutex)(&prezero_lock);
	WRITE_ONCE(*setting, value);
	prezero_wake_all();
	return count;
}

static ssize_t order_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%u\n", prezero_order);
}

static ssize_t order_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	return prezero_store(&prezero_order, buf, count, 0, MAX_PAGE_ORDER);
}

static ssize_t target_percent_show(struct kobject *kobj,
				   struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", prezero_target);
}

static ssize_t target_percent_store(struct kobject *kobj,
				    struct kobj_attribute *attr,
				    const char *buf, size_t count)
{
	return prezero_store(&prezero_target, buf, count, 0, 100);
}

static ssize_t budget_percent_show(struct kobject *kobj,
				   struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", prezero_budget);
}

static ssize_t budget_percent_store(struct kobject *kobj,
				    struct kobj_attribute *attr,
				    const char *buf, size_t count)
{
	ssize_t ret = prezero_store(&prezero_budget, buf, count, 1, 100 * nr_cpu_ids);

	if (ret < 0)
		return ret;
	guard(mutex)(&prezero_lock);
	if (prezero_enabled) {
		int err;

		prezero_stop();
		err = prezero_start();
		if (err)
			return err;
	}
	return ret;
}

static ssize_t verify_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%d\n", prezero_verify);
}

static ssize_t verify_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	return prezero_store_bool(&prezero_verify, buf, count);
}

static ssize_t hugetlb_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", prezero_hugetlb);
}

static ssize_t hugetlb_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return prezero_store_bool(&prezero_hugetlb, buf, count);
}

static ssize_t prezero_show_sum(char *buf, unsigned long (*of_node)(int nid))
{
	unsigned long pages = 0;
	int nid;

	for_each_online_node(nid)
		pages += of_node(nid);
	return sysfs_emit(buf, "%lu\n", pages);
}

static ssize_t free_pages_show(struct kobject *kobj, struct kobj_attribute *attr,
			       char *buf)
{
	return prezero_show_sum(buf, prezero_node_pages);
}

static ssize_t hugetlb_pages_show(struct kobject *kobj, struct kobj_attribute *attr,
				  char *buf)
{
	return prezero_show_sum(buf, hugetlb_zeroed_pages);
}

static struct kobj_attribute prezero_attr_enabled = __ATTR_RW(enabled);
static struct kobj_attribute prezero_attr_order = __ATTR_RW(order);
static struct kobj_attribute prezero_attr_target = __ATTR_RW(target_percent);
static struct kobj_attribute prezero_attr_budget = __ATTR_RW(budget_percent);
static struct kobj_attribute prezero_attr_verify = __ATTR_RW(verify);
static struct kobj_attribute prezero_attr_hugetlb = __ATTR_RW(hugetlb);
static struct kobj_attribute prezero_attr_hugetlb_pages = __ATTR_RO(hugetlb_pages);
static struct kobj_attribute prezero_attr_free_pages = __ATTR_RO(free_pages);

static struct attribute *prezero_attrs[] = {
	&prezero_attr_enabled.attr,
	&prezero_attr_order.attr,
	&prezero_attr_target.attr,
	&prezero_attr_budget.attr,
	&prezero_attr_verify.attr,
	&prezero_attr_free_pages.attr,
	&prezero_attr_hugetlb.attr,
	&prezero_attr_hugetlb_pages.attr,
	NULL
};

static const struct attribute_group prezero_group = {
	.attrs = prezero_attrs,
};

static int __init prezero_setup(char *str)
{
	if (kstrtobool(str, &prezero_on_boot))
		pr_warn("prezero=%s: on and off are known, so it is off\n", str ?: "");
	return 0;
}
early_param("prezero", prezero_setup);

static int __init prezero_init(void)
{
	prezero_kobj = kobject_create_and_add("prezero", mm_kobj);
	if (!prezero_kobj || sysfs_create_group(prezero_kobj, &prezero_group))
		pr_err("no files in sysfs\n");
	hotplug_node_notifier(prezero_node_callback, 0);
	power_supply_reg_notifier(&prezero_power_nb);
	if (!prezero_on_boot || prezero_prepare())
		return 0;
	guard(mutex)(&prezero_lock);
	prezero_start();
	return 0;
}
late_initcall(prezero_init);

#ifdef CONFIG_PREZERO_KUNIT_TEST
#include "prezero_test.c"
#endif
