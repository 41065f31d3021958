// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that share the long parts of adding memory: its struct pages, and the page
 * tables of the linear map where that is made of small pages.
 *
 * They hold no lock. Whoever adds memory holds mem_hotplug_lock for writing and waits
 * for them, so what they call must not take it.
 */
#include <linux/cond_resched_lazy.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/memory_hotplug_threads.h>
#include <linux/mmzone.h>
#include <linux/moduleparam.h>
#include <linux/padata.h>
#include <linux/pfn.h>
#include <linux/pgtable.h>
#include <linux/workqueue.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "memory_hotplug."

static unsigned int threads __read_mostly;
module_param(threads, uint, 0644);
MODULE_PARM_DESC(threads, "Threads that set up added memory, at most; 0: as many as CPUs");

/* As much as one entry of a page table maps, or the buddy allocator takes as one. */
#define MHP_PART_PAGES	max(PHYS_PFN(PMD_SIZE), MAX_ORDER_NR_PAGES)

/* Less is not worth waking another thread. */
#define MHP_MIN_PARTS	4

/* Until it is there the thread that adds memory is alone. */
static struct workqueue_struct *mhp_wq __ro_after_init;

struct mhp_job {
	void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg);
	void *arg;
};

static void mhp_do_part(unsigned long start_pfn, unsigned long end_pfn, void *arg)
{
	struct mhp_job *job = arg;
	unsigned long pfn, next;

	for (pfn = start_pfn; pfn < end_pfn; pfn = next) {
		next = min(end_pfn, ALIGN(pfn + 1, MHP_PART_PAGES));
		job->fn(pfn, next, job->arg);
		cond_resched_lazy();
	}
}

static int mhp_max_threads(void)
{
	unsigned int most = num_online_cpus();

	/* What the caller may allocate, or must not start, holds for itself alone. */
	if (!mhp_wq || current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOIO | PF_MEMALLOC_NOFS))
		return 1;
	return min(READ_ONCE(threads) ?: most, most);
}

/**
 * mhp_do_multithreaded - share work on memory that is being added
 * @fn: does it for a part; parts begin and end where the range does, or at a multiple of
 *	PMD_SIZE and of the largest block of the buddy allocator
 * @arg: its argument
 * @start_pfn: the range
 * @nr_pages: its size
 *
 * @fn is called for all parts, in any order and by several threads at the same time, the
 * caller among them. It may sleep and allocate memory. It must not take mem_hotplug_lock,
 * nor wait for who does.
 *
 * Context: process context, may sleep; mem_hotplug_lock is held for writing.
 */
void mhp_do_multithreaded(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
			  void *arg, unsigned long start_pfn, unsigned long nr_pages)
{
	struct mhp_job mhp_job = { .fn = fn, .arg = arg };
	struct padata_mt_job job = {
		.thread_fn = mhp_do_part,
		.fn_arg = &mhp_job,
		.start = start_pfn,
		.size = nr_pages,
		.align = MHP_PART_PAGES,
		.min_chunk = MHP_MIN_PARTS * MHP_PART_PAGES,
		.max_threads = mhp_max_threads(),
		.wq = mhp_wq,
	};

	padata_do_multithreaded(&job);
}

/*
 * padata waits for helpers also when nothing is left to do, and memory may be short by
 * then: a new worker must not be needed.
 */
static int __init mhp_threads_init(void)
{
	mhp_wq = alloc_workqueue("memory_hotplug", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return mhp_wq ? 0 : -ENOMEM;
}
core_initcall(mhp_threads_init);
