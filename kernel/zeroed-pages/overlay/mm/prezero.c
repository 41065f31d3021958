// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clearing free pages ahead of time
 *
 * One thread for each node clears blocks of free pages while nothing else wants
 * the CPU. The page allocator keeps track of which free pages are zeroed (see
 * prezero.h), and clears a page only if it is not when somebody asks for zeroes.
 *
 * A thread takes one block at a time off the free lists, as page reporting
 * does, so that nobody else gets hold of it meanwhile, and marks each page that
 * it cleared. A page which nobody vouches for is never marked: not memory that
 * is not initialised yet, nor what was reported free to a hypervisor, which
 * would have to provide memory again for pages that nobody may ever use.
 */
#define pr_fmt(fmt) "prezero: " fmt

#include <linux/cond_resched_lazy.h>
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
#include <linux/prezero.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/vmstat.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "hugetlb_prezero.h"
#include "internal.h"
#include "page_alloc.h"

#define CREATE_TRACE_POINTS
#include <trace/events/prezero.h>

/*
 * Pages become free in bursts: look a while after the first one, and not more often
 * than once a second.
 */
#define PREZERO_DELAY		(HZ / 5)

/* Pages that are cleared between two looks at whether somebody wants the CPU */
#define PREZERO_PART_PAGES	(SZ_64K / PAGE_SIZE)

/* As many at most while a block is out of reach */
#define PREZERO_MOST_PAGES	(SZ_4M / PAGE_SIZE)

DEFINE_STATIC_KEY_FALSE(prezero_key);

/**
 * struct prezero_node - the thread of a node
 * @nid: the node
 * @idle: nothing became free since it last began to look: who frees a block queues @work
 * @work: wakes it; a free holds the zone lock, under which nobody is woken
 * @drain: frees what lies on the lists of CPUs
 * @wait: where it sleeps
 * @task: the thread, or NULL
 * @hugetlb: what it is at in pools of huge pages
 */
struct prezero_node {
	int nid;
	bool idle;
	struct irq_work work;
	struct work_struct drain;
	wait_queue_head_t wait;
	struct task_struct *task;
	struct hugetlb_zeroing hugetlb;
};

/* Serialises what starts and stops threads. */
static DEFINE_MUTEX(prezero_lock);

/* Never freed once there, as frees look at them at any time. */
static struct prezero_node *prezero_nodes[MAX_NUMNODES];
bool prezero_enabled __read_mostly;
static bool prezero_on_boot __initdata;
static bool prezero_forced __ro_after_init;
static bool prezero_distrusted __read_mostly;

bool prezero_verify __read_mostly;
module_param_named(verify, prezero_verify, bool, 0644);
MODULE_PARM_DESC(verify, "Check that pages marked as zeroed are, when they are taken");

/**
 * prezero_distrust - free pages are about to be lent to somebody else
 *
 * They come back with any contents, so no mark counts from now on, and none are
 * made.
 *
 * Context: any, before the first page is lent.
 */
void prezero_distrust(void)
{
	/* Pairs with smp_store_mb() in prezero_start(). */
	smp_store_mb(prezero_distrusted, true);
	WRITE_ONCE(prezero_enabled, false);
}

/**
 * prezero_forget - what a free page held is lost
 * @page: the page, which is marked
 *
 * Clearing all of them where this is called would take far longer than interrupts
 * should be off.
 *
 * Context: resuming from hibernation: one CPU, interrupts off, no lock is held.
 */
void prezero_forget(struct page *page)
{
	if (PageBuddy(page))
		page_zone(page)->free_area[buddy_order(page)].nr_zeroed--;
	ClearPageZeroed(page);
}

/* What the thread of a node is at in pools of huge pages, or NULL if none ever ran */
struct hugetlb_zeroing *prezero_hugetlb(int nid)
{
	struct prezero_node *node = READ_ONCE(prezero_nodes[nid]);

	return node ? &node->hugetlb : NULL;
}

static void prezero_wake(struct irq_work *work)
{
	struct prezero_node *node = container_of(work, struct prezero_node, work);

	WRITE_ONCE(node->idle, false);
	wake_up(&node->wait);
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

	if (node && READ_ONCE(node->idle) && !READ_ONCE(prezero_distrusted))
		irq_work_queue(&node->work);
}

/**
 * prezero_check - is a page that is marked as zeroed really so?
 * @addr: where it is mapped
 *
 * Context: any.
 * Return: false if it is not, which the log says, or true, also if nobody wants
 * to know (verify is off).
 */
bool prezero_check(const void *addr)
{
	const u8 *bad;

	if (likely(!READ_ONCE(prezero_verify)))
		return true;
	bad = memchr_inv(addr, 0, PAGE_SIZE);
	if (likely(!bad))
		return true;
	add_taint(TAINT_BAD_PAGE, LOCKDEP_STILL_OK);
	pr_err_ratelimited("pfn %#lx is marked as zeroed but holds %#x at offset %#zx\n",
			   PHYS_PFN(__pa(addr)), *bad, bad - (const u8 *)addr);
	return false;
}

/* Take the mark off a page; return whether it is zeroed, if marks are to be trusted. */
static bool prezero_take_mark(struct page *page, bool trust, bool check)
{
	if (!PageZeroed(page))
		return false;
	ClearPageZeroed(page);
	return trust && (!check || prezero_check(page_address(page)));
}

static noinline void __prezero_take(struct page *page, unsigned int order, bool init, bool trust)
{
	bool check = init && READ_ONCE(prezero_verify);
	unsigned int nr = 1U << order, missed = 0, i, next;
	struct page *p = page;

	/* Most blocks are all zeroed. */
	if (trust && !check)
		for (; p < page + nr && PageZeroed(p); p++)
			ClearPageZeroed(p);
	for (i = p - page; i < nr; i = next + 1) {
		for (next = i; next < nr && !prezero_take_mark(page + next, trust, check); next++)
			;
		if (next == i)
			continue;
		missed += next - i;
		if (init)
			clear_pages(page_address(page + i), next - i);
	}
	if (init && missed)
		count_vm_events(PREZERO_MISSED, missed);
	if (nr > missed)
		count_vm_events(init ? PREZERO_TAKEN : PREZERO_WASTED, nr - missed);
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
	bool trust = !READ_ONCE(prezero_distrusted);

	/* Most are of these kinds, and want few instructions. */
	if (!order && !PageZeroed(page) && !init)
		return;
	if (!order && PageZeroed(page) && init && trust && !READ_ONCE(prezero_verify)) {
		ClearPageZeroed(page);
		count_vm_event(PREZERO_TAKEN);
		return;
	}
	__prezero_take(page, order, init, trust);
}

/*
 * Clear what is not zeroed of a block that is in no free list, and mark it, up
 * to where somebody wants the CPU. Memory failure comes at any time, also for
 * pages that we hold.
 */
static void prezero_clear_block(struct page *page, unsigned int order)
{
	unsigned int nr = 1U << order, cleared = 0, i;
	bool poisoned = false;

	debug_pagealloc_map_pages(page, nr);
	for (i = 0; i < nr; i++) {
		struct page *p = page + i;

		if (unlikely(PageHWPoison(p))) {
			poisoned = true;
			continue;
		}
		if (PageZeroed(p))
			continue;
		if (cleared == PREZERO_MOST_PAGES ||
		    (cleared && !(cleared % PREZERO_PART_PAGES) && prezero_cpu_wanted()))
			break;
		clear_page(page_address(p));
		SetPageZeroed(p);
		cleared++;
	}
	debug_pagealloc_unmap_pages(page, nr);
	if (i < nr || poisoned)
		unmark_zeroed_block(page);
	count_vm_events(PREZERO_ZEROED, cleared);
	trace_prezero_block(page_to_nid(page), page_to_pfn(page), order, cleared);
}

/*
 * Memory failure gives up on pages that are neither free nor in use, as those that
 * we held. Do what it would have done.
 */
static void prezero_take_poisoned(struct page *page, unsigned int order)
{
#ifdef CONFIG_MEMORY_FAILURE
	for (unsigned int i = 0; i < 1U << order; i++)
		if (unlikely(PageHWPoison(page + i)) && take_page_off_buddy(page + i))
			page_ref_inc(page + i);
#endif
}

/* Clear a block. Return: false if there is none on this node, or it is not allowed */
static bool prezero_one_block(int nid)
{
	if (READ_ONCE(prezero_distrusted))
		return false;
	for (int i = MAX_NR_ZONES - 1; i >= 0; i--) {
		struct zone *zone = &NODE_DATA(nid)->node_zones[i];
		unsigned int order;
		struct page *page;

		if (!populated_zone(zone))
			continue;
		/* Nobody else gets at the block meanwhile. */
		guard(preempt)();
		page = prezero_isolate_block(zone, PAGE_ALLOC_COSTLY_ORDER + 1,
					     high_wmark_pages(zone), &order);
		if (page) {
			prezero_clear_block(page, order);
			prezero_putback_block(zone, page, order);
			prezero_take_poisoned(page, order);
			return true;
		}
	}
	return false;
}

/*
 * Pages on the lists of CPUs, up to an eighth of a zone, are out of reach: have
 * them freed. Others wait for a lock that this takes, so it is not done at idle
 * priority.
 */
static void prezero_drain(struct work_struct *work)
{
	struct prezero_node *node = container_of(work, struct prezero_node, drain);
	struct zone *zones = NODE_DATA(node->nid)->node_zones;

	for (int i = 0; i < MAX_NR_ZONES; i++)
		if (populated_zone(zones + i))
			drain_all_pages(zones + i);
}

static bool prezero_has_to_stop(void)
{
	return kthread_should_stop() || freezing(current);
}

/* Clear all that there is, or until somebody wants the thread to stop. */
static void prezero_blocks(int nid)
{
	while (!prezero_has_to_stop() && prezero_one_block(nid))
		cond_resched_lazy();
}

static int prezero_thread(void *data)
{
	struct prezero_node *node = data;
	struct sched_param param = { };

	sched_setscheduler_nocheck(current, SCHED_IDLE, &param);
	set_freezable();
	while (!kthread_should_stop()) {
		unsigned long next = jiffies + HZ;

		try_to_freeze();
		prezero_blocks(node->nid);
		queue_work(system_dfl_wq, &node->drain);
		flush_work(&node->drain);
		/* Whoever frees something from now on has us look once more. */
		smp_store_mb(node->idle, true);
		prezero_blocks(node->nid);
		while (IS_ENABLED(CONFIG_HUGETLBFS) && !prezero_has_to_stop() &&
		       READ_ONCE(node->idle) && !READ_ONCE(prezero_distrusted) &&
		       hugetlb_zero_some(&node->hugetlb, node->nid))
			cond_resched_lazy();
		wait_event_freezable(node->wait, !READ_ONCE(node->idle) || kthread_should_stop());
		if (!kthread_should_stop())
			schedule_timeout_idle(max_t(long, next - jiffies, PREZERO_DELAY));
	}
	if (IS_ENABLED(CONFIG_HUGETLBFS))
		hugetlb_zeroing_end(&node->hugetlb);
	return 0;
}

/* Threads of nodes that lose their memory sleep. */
static int prezero_start_node(int nid)
{
	struct prezero_node *node = prezero_nodes[nid];
	struct task_struct *task;

	lockdep_assert_held(&prezero_lock);
	if (!node) {
		node = kzalloc_node(sizeof(*node), GFP_KERNEL, nid);
		if (!node)
			return -ENOMEM;
		node->nid = nid;
		/*
		 * Lazy: a self-IPI is lost if it is raised while a CPU is about
		 * to be suspended, and all irq_work after it then as well.
		 */
		node->work = IRQ_WORK_INIT_LAZY(prezero_wake);
		INIT_WORK(&node->drain, prezero_drain);
		init_waitqueue_head(&node->wait);
		raw_spin_lock_init(&node->hugetlb.lock);
		/* Frees see either none or all of it. */
		smp_store_release(&prezero_nodes[nid], node);
	}
	if (node->task)
		return 0;
	task = kthread_create_on_node(prezero_thread, node, nid, "prezero%d", nid);
	if (IS_ERR(task))
		return PTR_ERR(task);
	node->task = task;
	wake_up_process(task);
	return 0;
}

static void prezero_stop(void)
{
	int nid;

	lockdep_assert_held(&prezero_lock);
	for_each_node(nid) {
		struct prezero_node *node = prezero_nodes[nid];

		if (!node || !node->task)
			continue;
		/* It is waited for, so it is not to wait for everybody else. */
		sched_set_normal(node->task, 0);
		kthread_stop(node->task);
		node->task = NULL;
		WRITE_ONCE(node->idle, false);
	}
	WRITE_ONCE(prezero_enabled, false);
}

/* Return: why free pages cannot be cleared ahead of time here, or NULL */
static const char *prezero_refusal(void)
{
	if (READ_ONCE(prezero_distrusted))
		return "free pages are reported to a hypervisor";
	if (page_poisoning_enabled())
		return "free pages are poisoned";
	if (debug_guardpage_minorder())
		return "free pages are guards of others";
	if (want_init_on_free())
		return "pages are cleared when they are freed";
	if (kasan_hw_tags_enabled())
		return "KASAN clears pages together with their tags";
	if (want_init_on_alloc(0) && !prezero_forced)
		return "init_on_alloc=1 clears pages when they are allocated; see prezero=force";
	return NULL;
}

static bool prezero_in_guest(void)
{
#ifdef CONFIG_X86
	return boot_cpu_has(X86_FEATURE_HYPERVISOR);
#else
	return false;
#endif
}

static int prezero_start(void)
{
	int nid, ret;

	lockdep_assert_held(&prezero_lock);
	if (prezero_in_guest())
		pr_warn_once("the host of this virtual machine has to back all memory that is cleared; if it should not, use prezero=off, and a balloon with free page reporting\n");
	/* Either this sees prezero_distrusted, or who sets that sees this. */
	smp_store_mb(prezero_enabled, true);
	if (READ_ONCE(prezero_distrusted)) {
		WRITE_ONCE(prezero_enabled, false);
		return -EOPNOTSUPP;
	}
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

/*
 * Let marks be made from now on. Memory hotplug calls us with the lock for CPU
 * hotplug held, which the static key takes, so this is done without our own.
 */
static int prezero_prepare(void)
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

	if (action != NODE_ADDED_FIRST_MEMORY)
		return NOTIFY_OK;
	guard(mutex)(&prezero_lock);
	if (prezero_enabled && prezero_start_node(notify->nid))
		pr_warn("no thread for node %d\n", notify->nid);
	return NOTIFY_OK;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(prezero_enabled) &&
			  !READ_ONCE(prezero_distrusted));
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
	if (!enable)
		prezero_stop();
	else if (!prezero_enabled)
		ret = prezero_start();
	return ret ?: count;
}

static ssize_t free_pages_show(struct kobject *kobj, struct kobj_attribute *attr,
			       char *buf)
{
	unsigned long pages = 0;
	struct zone *zone;

	for_each_populated_zone(zone)
		for (int order = 0; order < NR_PAGE_ORDERS; order++)
			pages += READ_ONCE(zone->free_area[order].nr_zeroed) << order;
	return sysfs_emit(buf, "%lu\n", pages);
}

static struct kobj_attribute prezero_attr_enabled = __ATTR_RW(enabled);
static struct kobj_attribute prezero_attr_free_pages = __ATTR_RO(free_pages);

static struct attribute *prezero_attrs[] = {
	&prezero_attr_enabled.attr,
	&prezero_attr_free_pages.attr,
	NULL
};

static const struct attribute_group prezero_group = {
	.name = "prezero",
	.attrs = prezero_attrs,
};

static int __init prezero_setup(char *str)
{
	prezero_forced = str && !strcmp(str, "force");
	prezero_on_boot = prezero_forced;
	if (!prezero_forced && kstrtobool(str, &prezero_on_boot))
		pr_warn("prezero=%s: on, off and force are known, so it is off\n", str ?: "");
	return 0;
}
early_param("prezero", prezero_setup);

static int __init prezero_init(void)
{
	if (sysfs_create_group(mm_kobj, &prezero_group))
		pr_err("no files in sysfs\n");
	hotplug_node_notifier(prezero_node_callback, 0);
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
