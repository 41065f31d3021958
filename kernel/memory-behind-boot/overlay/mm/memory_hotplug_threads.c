// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that share the long parts of adding memory: its struct pages, and the page
 * tables of the linear map where that is made of small pages.
 *
 * They hold no lock. Whoever adds memory holds mem_hotplug_lock for writing and, but for
 * ACPI when it finds a device, device_hotplug_lock, and waits for them. So what they call
 * must take neither.
 *
 * This is not padata, which waits for all helpers that it asked for: here nobody waits
 * for one that has not begun, and so for memory that a new worker may need. And the
 * caller can do something else before it helps.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cond_resched_lazy.h>
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/math.h>
#include <linux/memory_hotplug_threads.h>
#include <linux/mmzone.h>
#include <linux/moduleparam.h>
#include <linux/pfn.h>
#include <linux/pgtable.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "memory_hotplug."

static unsigned int threads __read_mostly;
module_param(threads, uint, 0644);
MODULE_PARM_DESC(threads, "Threads that set up added memory, at most; 0: as many as CPUs");

/* As much as one entry of a page table maps, or the buddy allocator takes as one. */
#define MHP_PART_PAGES	max(PHYS_PFN(PMD_SIZE), MAX_ORDER_NR_PAGES)

/* As many parts as are told apart, at most. */
#define MHP_MOST_PARTS	1024

/* Less is not worth waking another thread. */
#define MHP_MIN_PARTS	4

/* How often to look for a part to be done before going to sleep. */
#define MHP_SPINS	4096

/**
 * struct mhp_job - work on memory that is being added
 * @fn: does it for a part
 * @arg: its argument
 * @start_pfn: first page
 * @end_pfn: the page behind the last
 * @part_pages: size of a part
 * @nr_parts: how many there are
 * @next: the first part that helpers have not looked at
 * @taken: parts that somebody does, or has done
 * @done: parts that are done
 * @nr_helpers: number of @helpers
 * @helpers: each takes part after part
 */
struct mhp_job {
	void			(*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg);
	void			*arg;
	unsigned long		start_pfn;
	unsigned long		end_pfn;
	unsigned long		part_pages;
	long			nr_parts;
	atomic_long_t		next;
	DECLARE_BITMAP(taken, MHP_MOST_PARTS);
	DECLARE_BITMAP(done, MHP_MOST_PARTS);
	unsigned int		nr_helpers;
	struct mhp_helper {
		struct work_struct	work;
		struct mhp_job		*job;
	} helpers[] __counted_by(nr_helpers);
};

/*
 * What is done before it is needed, and for whom. A task claims it with mem_hotplug_lock
 * held for writing, and gives it up without; no other touches it meanwhile.
 */
static struct mhp_job *mhp_ahead;
static struct task_struct *mhp_ahead_task;
static DECLARE_WAIT_QUEUE_HEAD(mhp_waitq);

static void mhp_do(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
		   void *arg, unsigned long pfn, unsigned long end_pfn)
{
	unsigned long next;

	for (; pfn < end_pfn; pfn = next) {
		next = min(end_pfn, ALIGN(pfn + 1, MHP_PART_PAGES));
		fn(pfn, next, arg);
		cond_resched_lazy();
	}
}

/* Do a part, unless somebody else does. */
static void mhp_take_part(struct mhp_job *job, long part)
{
	unsigned long start_pfn = job->start_pfn + part * job->part_pages;

	if (test_and_set_bit(part, job->taken))
		return;
	mhp_do(job->fn, job->arg, start_pfn, min(start_pfn + job->part_pages, job->end_pfn));
	/* Pairs with mhp_await_part(). */
	smp_mb__before_atomic();
	set_bit(part, job->done);
	if (wq_has_sleeper(&mhp_waitq))
		wake_up(&mhp_waitq);
}

static void mhp_help(struct work_struct *work)
{
	struct mhp_job *job = container_of(work, struct mhp_helper, work)->job;
	long part;

	while ((part = atomic_long_fetch_inc_relaxed(&job->next)) < job->nr_parts)
		mhp_take_part(job, part);
}

static unsigned int mhp_max_threads(void)
{
	unsigned int most = num_online_cpus();

	/* What the caller may allocate, or must not start, holds for itself alone. */
	if (current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOIO | PF_MEMALLOC_NOFS))
		return 1;
	return min(READ_ONCE(threads) ?: most, most);
}

/* Have others begin; NULL if there are none. */
static struct mhp_job *mhp_begin(void (*fn)(unsigned long start_pfn, unsigned long end_pfn,
					    void *arg),
				 void *arg, unsigned long start_pfn, unsigned long nr_pages)
{
	unsigned long part_pages = max(MHP_PART_PAGES, DIV_ROUND_UP(nr_pages, MHP_MOST_PARTS));
	unsigned long nr_helpers;
	struct mhp_job *job;

	part_pages = roundup_pow_of_two(part_pages);
	/* The caller is a thread, too. */
	nr_helpers = min(mhp_max_threads() - 1UL, nr_pages / part_pages / MHP_MIN_PARTS);
	if (!nr_helpers)
		return NULL;
	job = kzalloc_flex(*job, helpers, nr_helpers, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!job)
		return NULL;

	job->fn = fn;
	job->arg = arg;
	job->start_pfn = start_pfn;
	job->end_pfn = start_pfn + nr_pages;
	job->part_pages = part_pages;
	job->nr_parts = DIV_ROUND_UP(nr_pages, part_pages);
	job->nr_helpers = nr_helpers;
	for (unsigned int i = 0; i < nr_helpers; i++) {
		job->helpers[i].job = job;
		INIT_WORK(&job->helpers[i].work, mhp_help);
		queue_work(system_dfl_wq, &job->helpers[i].work);
	}
	return job;
}

/*
 * Wait for a part that somebody has begun. It takes microseconds as a rule: less than to
 * sleep and to be woken.
 */
static void mhp_await_part(struct mhp_job *job, long part)
{
	for (unsigned int i = 0; i < MHP_SPINS && !need_resched(); i++) {
		/* Pairs with mhp_take_part(). */
		if (test_bit_acquire(part, job->done))
			return;
		cpu_relax();
	}
	wait_event(mhp_waitq, test_bit_acquire(part, job->done));
}

/* Help with a part of the range, and wait for what others have begun there. */
static void mhp_finish(struct mhp_job *job, unsigned long start_pfn, unsigned long nr_pages)
{
	long first = (start_pfn - job->start_pfn) / job->part_pages;
	long last = (start_pfn - job->start_pfn + nr_pages - 1) / job->part_pages;
	long part;

	for (part = first; part <= last; part++)
		mhp_take_part(job, part);
	for (part = first; part <= last; part++)
		mhp_await_part(job, part);
}

/* What nobody has begun is left undone. */
static void mhp_end(struct mhp_job *job)
{
	atomic_long_set(&job->next, job->nr_parts);
	for (unsigned int i = 0; i < job->nr_helpers; i++)
		cancel_work_sync(&job->helpers[i].work);
	kfree(job);
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
	struct mhp_job *job = mhp_begin(fn, arg, start_pfn, nr_pages);

	if (!job) {
		mhp_do(fn, arg, start_pfn, start_pfn + nr_pages);
		return;
	}
	mhp_finish(job, start_pfn, nr_pages);
	mhp_end(job);
}

/**
 * mhp_ahead_busy - does another task have work done ahead, or does nobody do such work?
 *
 * Context: mem_hotplug_lock is held for writing.
 * Return: true if mhp_ahead_begin() must not be called.
 */
bool mhp_ahead_busy(void)
{
	/* Pairs with mhp_ahead_end(). */
	return smp_load_acquire(&mhp_ahead_task);
}

/**
 * mhp_ahead_begin - begin work on memory that is being added before it is needed
 * @fn: see mhp_do_multithreaded()
 * @arg: its argument, valid up to mhp_ahead_end()
 * @start_pfn: the range
 * @nr_pages: its size
 *
 * Other threads do part after part while the caller goes on; nothing happens if there
 * are none. @fn must not take device_hotplug_lock, either.
 *
 * Context: process context, may sleep; mem_hotplug_lock is held for writing, with which
 * mhp_ahead_busy() said no. What is done ahead belongs to the caller up to mhp_ahead_end().
 */
void mhp_ahead_begin(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
		     void *arg, unsigned long start_pfn, unsigned long nr_pages)
{
	mhp_ahead = mhp_begin(fn, arg, start_pfn, nr_pages);
	if (mhp_ahead)
		WRITE_ONCE(mhp_ahead_task, current);
}

/**
 * mhp_ahead_finish - have the work on some of the memory done
 * @start_pfn: the part of the range
 * @nr_pages: its size
 *
 * The caller helps, and waits for what others have begun.
 *
 * Context: process context, may sleep.
 * Return: true if it is done, false if the caller did not begin it.
 */
bool mhp_ahead_finish(unsigned long start_pfn, unsigned long nr_pages)
{
	struct mhp_job *job;

	if (READ_ONCE(mhp_ahead_task) != current)
		return false;
	job = mhp_ahead;
	if (start_pfn < job->start_pfn || start_pfn + nr_pages > job->end_pfn)
		return false;
	mhp_finish(job, start_pfn, nr_pages);
	return true;
}

/**
 * mhp_ahead_end - end the work that the caller had mhp_ahead_begin() begin, if any
 *
 * What is not done by now is left undone.
 *
 * Context: process context, may sleep.
 */
void mhp_ahead_end(void)
{
	if (READ_ONCE(mhp_ahead_task) != current)
		return;
	mhp_end(mhp_ahead);
	/* Pairs with mhp_ahead_busy(). */
	smp_store_release(&mhp_ahead_task, NULL);
}
