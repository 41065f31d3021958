// SPDX-License-Identifier: GPL-2.0-only
/*
 * Growing hugetlb pools with as many threads as help
 *
 * Every node grows at the same time as the others, in rounds. In a round some
 * threads, on CPUs of the node, take pages from the node's buddy allocator and
 * add them to the pool until the time of the round is over. How much they got done
 * tells how many threads the next round has (hugetlb_tune.h): beyond some number
 * they only wait for each other, or for memory.
 *
 * Pages are in the pool soon after they were allocated, so whoever stops it, by a
 * signal, keeps what there is.
 */
#define pr_fmt(fmt) "HugeTLB: " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpuset.h>
#include <linux/ctype.h>
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/padata.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>

#include "hugetlb_grow.h"
#include "hugetlb_internal.h"
#include "hugetlb_tune.h"
#include "hugetlb_vmemmap.h"

/* A thread has its pages added together: the vmemmap optimization flushes TLBs. */
#define HUGETLB_GROW_AT_ONCE	SZ_64M

/* Long beside starting threads, short beside a pool that takes somebody's time */
#define HUGETLB_GROW_ROUND_NS	(8 * NSEC_PER_MSEC)

/* Who waits looks up sooner than the kernel takes it for stuck. */
#define HUGETLB_GROW_WAIT	(10 * HZ)

/* What a node without a better number begins with */
#define HUGETLB_GROW_BEGIN	2

/* Threads of all nodes together; 0 for auto. */
static unsigned int hugetlb_alloc_threads __read_mostly;

/* What did most when a node grew last. */
static unsigned int hugetlb_best_threads[MAX_NUMNODES];

/* Pages that the pool of a size got, of those that it was last to get. */
static struct hugetlb_grow_done {
	atomic_long_t	done;
	unsigned long	wanted;
} hugetlb_grow_done[HUGE_MAX_HSTATE];

struct hugetlb_grow;

/**
 * struct hugetlb_grow_node - what a node is to get
 * @grow: the request
 * @work: what its first thread runs, if that is not the caller
 * @done: that has ended
 * @nid: the node
 * @threads: how many threads there are in this round
 * @left: pages that no thread has taken on
 * @built: pages that were added
 * @until: when the round ends, by hugetlb_grow_clock()
 * @failed: an allocation failed
 */
struct hugetlb_grow_node {
	struct hugetlb_grow	*grow;
	struct work_struct	work;
	struct completion	done;
	int			nid;
	unsigned int		threads;
	atomic_long_t		left;
	atomic_long_t		built;
	u64			until;
	bool			failed;
};

/**
 * struct hugetlb_grow - a request to grow a pool
 * @h: the pool
 * @task: a signal of this task ends it; NULL at boot
 * @threads: threads of all nodes together, or 0 for auto
 * @nr_nodes: how many of @nodes there are
 * @noretry: nodes where an allocation has failed, so that less effort is made
 * @nodes: the nodes
 */
struct hugetlb_grow {
	struct hstate			*h;
	struct task_struct		*task;
	unsigned int			threads;
	unsigned int			nr_nodes;
	nodemask_t			noretry;
	struct hugetlb_grow_node	nodes[] __counted_by(nr_nodes);
};

static bool hugetlb_grow_stopped(const struct hugetlb_grow *grow)
{
	return grow->task && signal_pending(grow->task);
}

/*
 * Nanoseconds. In boot local_clock() goes by ticks, of which a round has two; clocks
 * of CPUs that differ then lead to a number of threads that is not the best.
 */
static u64 hugetlb_grow_clock(void)
{
	return system_state < SYSTEM_RUNNING ? sched_clock() : local_clock();
}

/* Take on pages of a node: fewer towards the end, so that all threads end together. */
static unsigned long hugetlb_grow_take(struct hugetlb_grow_node *node)
{
	long most = max_t(long, HUGETLB_GROW_AT_ONCE / huge_page_size(node->grow->h), 1);
	long left, nr, threads = node->threads;

	if (READ_ONCE(node->failed) || hugetlb_grow_stopped(node->grow) ||
	    hugetlb_grow_clock() >= node->until)
		return 0;
	left = atomic_long_read(&node->left);
	do {
		nr = min(most, DIV_ROUND_UP(left, 2 * threads));
	} while (nr && !atomic_long_try_cmpxchg(&node->left, &left, left - nr));
	return nr;
}

/* What each thread does of a round */
static void hugetlb_grow_thread(unsigned long start, unsigned long end, void *arg)
{
	struct hugetlb_grow_node *node = arg;
	struct hugetlb_grow *grow = node->grow;
	struct hstate *h = grow->h;
	nodemask_t nodes = nodemask_of_node(node->nid);
	unsigned long nr, got;
	int next = node->nid;

	while ((nr = hugetlb_grow_take(node))) {
		LIST_HEAD(folios);

		for (got = 0; got < nr && !hugetlb_grow_stopped(grow); got++) {
			if (READ_ONCE(node->failed))
				break;
			struct folio *folio;

			folio = alloc_pool_huge_folio(h, &nodes, &grow->noretry, &next);
			if (!folio) {
				WRITE_ONCE(node->failed, true);
				break;
			}
			list_add(&folio->lru, &folios);
			cond_resched();
		}
		prep_and_add_allocated_folios(h, &folios);
		atomic_long_add(nr - got, &node->left);
		atomic_long_add(got, &node->built);
		atomic_long_add(got, &hugetlb_grow_done[hstate_index(h)].done);
	}
}

/* CPUs that threads of a node run on */
static unsigned int hugetlb_grow_cpus(int nid)
{
	return node_state(nid, N_CPU) ? nr_cpus_node(nid) : num_online_cpus();
}

/* Returns how many pages were added in how many ns */
static unsigned long hugetlb_grow_round(struct hugetlb_grow_node *node, u64 *ns)
{
	nodemask_t nodes = nodemask_of_node(node->nid);
	struct padata_mt_job job = {
		.thread_fn	= hugetlb_grow_thread,
		.fn_arg		= node,
		.size		= node->threads,
		.align		= 1,
		.min_chunk	= 1,
		.max_threads	= node->threads,
		.numa_aware	= true,
		.nodes		= node_state(node->nid, N_CPU) ? &nodes : NULL,
	};
	unsigned long before = atomic_long_read(&node->built);
	u64 start = hugetlb_grow_clock();

	node->until = start + *ns;
	padata_do_multithreaded(&job);
	*ns = max((s64)(hugetlb_grow_clock() - start), 1);
	return atomic_long_read(&node->built) - before;
}

/* Grow a node by what is left for it, as far as that can be. */
static void hugetlb_grow_node(struct hugetlb_grow_node *node, unsigned int threads)
{
	struct hugetlb_grow *grow = node->grow;
	unsigned int best = READ_ONCE(hugetlb_best_threads[node->nid]);
	struct hugetlb_tune tune;
	unsigned long left, nr;
	bool alone = false, started = false;
	u64 ns;

	/* alloc_contig_pages() of two threads would be in each other's way. */
	if (hstate_is_gigantic(grow->h))
		threads = 1;
	/* In boot nobody else wants the CPUs. */
	hugetlb_tune_begin(&tune, best ?: HUGETLB_GROW_BEGIN, hugetlb_grow_cpus(node->nid),
			   !grow->task);
	while ((left = atomic_long_read(&node->left)) && !hugetlb_grow_stopped(grow)) {
		node->threads = alone ? 1 : min(threads ?: tune.threads, left);
		ns = HUGETLB_GROW_ROUND_NS;
		if (threads || hugetlb_tune_stays(&tune))
			ns *= HUGETLB_TUNE_STAY;
		node->failed = false;
		nr = hugetlb_grow_round(node, &ns);
		/*
		 * Threads that look for the last pages isolate what others would need
		 * for compaction, so it is for one to say that there is no more.
		 */
		if (node->failed && !alone && node->threads > 1) {
			alone = true;
			node_clear(node->nid, grow->noretry);
			continue;
		}
		/*
		 * The vmemmap optimization of what was added may have freed some. At
		 * run time others may need that.
		 */
		if (node->failed && (grow->task || !nr || !hugetlb_vmemmap_optimizable(grow->h)))
			break;
		/*
		 * The first round may have to make its threads, and the last ends before its
		 * time: they tell nothing.
		 */
		if (!threads && !alone && started && atomic_long_read(&node->left))
			hugetlb_tune_round(&tune, div64_u64((u64)nr * NSEC_PER_SEC, ns));
		started = true;
		alone = false;
	}
	if (!threads)
		WRITE_ONCE(hugetlb_best_threads[node->nid], tune.best);
}

/* Threads of node number @i of a request, or 0 for auto */
static unsigned int hugetlb_grow_share(const struct hugetlb_grow *grow, unsigned int i)
{
	if (!grow->threads)
		return 0;
	return max(grow->threads / grow->nr_nodes + (i < grow->threads % grow->nr_nodes), 1);
}

static void hugetlb_grow_node_work(struct work_struct *work)
{
	struct hugetlb_grow_node *node = container_of(work, struct hugetlb_grow_node, work);
	struct hugetlb_grow *grow = node->grow;

	hugetlb_grow_node(node, hugetlb_grow_share(grow, node - grow->nodes));
	complete(&node->done);
}

static void hugetlb_grow_wait(struct hugetlb_grow_node *node)
{
	while (!wait_for_completion_timeout(&node->done, HUGETLB_GROW_WAIT))
		;
}

/*
 * May the caller do all? A gigantic page takes long to find, and then a signal ends the
 * search only of the task that gets it.
 */
static bool hugetlb_grow_alone(const struct hugetlb_grow *grow)
{
	return grow->nr_nodes == 1 || (grow->task && hstate_is_gigantic(grow->h));
}

/* Have all nodes grow, by works on their CPUs or the caller. Returns how many pages were added. */
static unsigned long hugetlb_grow_all(struct hugetlb_grow *grow)
{
	unsigned int i, waited = 0, most = grow->threads ?: grow->nr_nodes;
	unsigned long built = 0;

	if (hugetlb_grow_alone(grow)) {
		for (i = 0; i < grow->nr_nodes; i++)
			hugetlb_grow_node(&grow->nodes[i], hugetlb_grow_share(grow, i));
		waited = grow->nr_nodes;
	}
	for (i = waited; i < grow->nr_nodes; i++) {
		struct hugetlb_grow_node *node = &grow->nodes[i];

		/* No more nodes at a time than there are threads */
		if (i - waited == most)
			hugetlb_grow_wait(&grow->nodes[waited++]);
		INIT_WORK(&node->work, hugetlb_grow_node_work);
		init_completion(&node->done);
		queue_work_node(node->nid, system_dfl_wq, &node->work);
	}
	while (waited < grow->nr_nodes)
		hugetlb_grow_wait(&grow->nodes[waited++]);
	for (i = 0; i < grow->nr_nodes; i++)
		built += atomic_long_xchg(&grow->nodes[i].built, 0);
	return built;
}

static struct hugetlb_grow *hugetlb_grow_begin(struct hstate *h, const nodemask_t *nodes)
{
	struct hugetlb_grow *grow;
	unsigned int nr = nodes_weight(*nodes), i = 0;
	int nid;

	grow = kzalloc_flex(*grow, nodes, nr);
	if (!grow)
		return NULL;
	grow->h = h;
	grow->threads = READ_ONCE(hugetlb_alloc_threads);
	grow->nr_nodes = nr;
	for_each_node_mask(nid, *nodes) {
		grow->nodes[i].grow = grow;
		grow->nodes[i++].nid = nid;
	}
	return grow;
}

/* At boot, the vmemmap optimization may have freed some. Later, others may need that. */
static bool hugetlb_grow_full(const struct hugetlb_grow *grow, unsigned int i)
{
	return grow->task && grow->nodes[i].failed;
}

/*
 * Have each node that is not full grow by the same, and by one more from the pool's
 * next node on. Returns false if all are full.
 */
static bool hugetlb_grow_share_out(struct hugetlb_grow *grow, unsigned long nr)
{
	unsigned int first = 0, nodes = 0;
	unsigned long more;

	for (unsigned int i = 0; i < grow->nr_nodes; i++) {
		if (grow->nodes[i].nid == grow->h->next_nid_to_alloc)
			first = i;
		nodes += !hugetlb_grow_full(grow, i);
		atomic_long_set(&grow->nodes[i].left, 0);
	}
	if (!nodes)
		return false;
	more = nr % nodes;
	for (unsigned int n = 0; n < grow->nr_nodes; n++) {
		unsigned int i = (first + n) % grow->nr_nodes;

		if (hugetlb_grow_full(grow, i))
			continue;
		atomic_long_set(&grow->nodes[i].left, nr / nodes + !!more);
		if (more && !--more)
			grow->h->next_nid_to_alloc = grow->nodes[(i + 1) % grow->nr_nodes].nid;
	}
	return true;
}

/*
 * Grow all nodes evenly, and some by more if others have no more. Returns how many
 * pages were not had.
 */
static unsigned long hugetlb_grow_evenly(struct hugetlb_grow *grow, unsigned long nr)
{
	unsigned long built;

	/* More cannot be had. */
	nr = min(nr, totalram_pages());
	while (nr && !hugetlb_grow_stopped(grow) && hugetlb_grow_share_out(grow, nr)) {
		built = hugetlb_grow_all(grow);
		if (!built)
			break;
		nr -= built;
	}
	return nr;
}

static void hugetlb_grow_progress_begin(struct hstate *h, unsigned long wanted)
{
	struct hugetlb_grow_done *done = &hugetlb_grow_done[hstate_index(h)];

	atomic_long_set(&done->done, 0);
	WRITE_ONCE(done->wanted, wanted);
}

/**
 * hugetlb_grow_progress - tell how far growing a pool is, or how far it got
 * @h: the hstate
 * @buf: of a sysfs file
 *
 * Context: any.
 * Return: length of the text.
 */
ssize_t hugetlb_grow_progress(struct hstate *h, char *buf)
{
	struct hugetlb_grow_done *done = &hugetlb_grow_done[hstate_index(h)];

	return sysfs_emit(buf, "%lu %lu\n", atomic_long_read(&done->done),
			  READ_ONCE(done->wanted));
}

/**
 * hugetlb_grow - add pages to a pool at run time
 * @h: the hstate
 * @nr: how many
 * @nodes: the nodes to take them from, the same number of each if they have it
 *
 * Fewer are added if memory runs out or the caller gets a signal.
 *
 * Context: process context, h->resize_lock held.
 * Return: true if it was tried, and fewer were added.
 */
bool hugetlb_grow(struct hstate *h, unsigned long nr, const nodemask_t *nodes)
{
	struct hugetlb_grow *grow = NULL;
	nodemask_t allowed;
	unsigned long missed;

	/* The threads are in no cpuset; who asks for it may be. */
	nodes_and(allowed, *nodes, cpuset_current_mems_allowed);
	hugetlb_grow_progress_begin(h, nr);
	if (!nodes_empty(allowed))
		grow = hugetlb_grow_begin(h, &allowed);
	if (!grow)
		return false;
	grow->task = current;
	missed = hugetlb_grow_evenly(grow, nr);
	kfree(grow);
	return missed;
}

/* What hugepages= asks of each node; -1 if it names none */
static long __init hugetlb_grow_of_nodes(struct hstate *h, struct hugetlb_grow *grow)
{
	long nr = -1;
	int nid;

	/* A node without memory may be named as well. */
	for_each_online_node(nid) {
		if (h->max_huge_pages_node[nid])
			nr = 0;
	}
	for (unsigned int i = 0; nr >= 0 && i < grow->nr_nodes; i++) {
		struct hugetlb_grow_node *node = &grow->nodes[i];
		unsigned long of_node = min(h->max_huge_pages_node[node->nid], totalram_pages());

		if (of_node <= h->nr_huge_pages_node[node->nid])
			continue;
		atomic_long_set(&node->left, of_node - h->nr_huge_pages_node[node->nid]);
		nr += atomic_long_read(&node->left);
	}
	return nr;
}

/**
 * hugetlb_grow_boot - fill a pool of boot, of pages that the buddy allocator has
 * @h: the hstate
 *
 * Context: initcalls, nobody else changes the pool.
 * Return: true if all was tried; false if it is left to the caller.
 */
bool __init hugetlb_grow_boot(struct hstate *h)
{
	struct hugetlb_grow *grow = hugetlb_grow_begin(h, &node_states[N_MEMORY]);
	unsigned int threads = 0;
	u64 start = local_clock();
	long nr;

	if (!grow)
		return false;
	nr = hugetlb_grow_of_nodes(h, grow);
	if (nr >= 0) {
		hugetlb_grow_progress_begin(h, nr);
		hugetlb_grow_all(grow);
	} else {
		nr = h->max_huge_pages - h->nr_huge_pages;
		hugetlb_grow_progress_begin(h, nr);
		hugetlb_grow_evenly(grow, nr);
	}
	for (unsigned int i = 0; i < grow->nr_nodes; i++)
		threads += grow->nodes[i].threads;
	if (nr)
		pr_info("allocation took %llums with hugepage_allocation_threads=%u%s\n",
			div_u64(local_clock() - start, NSEC_PER_MSEC),
			grow->threads ?: threads, grow->threads ? "" : " (auto)");
	kfree(grow);
	return true;
}

/* Returns -EINVAL if it is neither auto nor a number of threads */
static int hugetlb_threads_parse(const char *text, unsigned int *threads)
{
	if (!strcmp(text, "auto"))
		*threads = 0;
	else if (kstrtouint(text, 0, threads) || !*threads || *threads > INT_MAX)
		return -EINVAL;
	return 0;
}

/**
 * hugetlb_grow_setup - set the number of threads at boot
 * @text: the value of hugepage_alloc_threads=
 *
 * Return: true, it has been seen to.
 */
bool __init hugetlb_grow_setup(const char *text)
{
	unsigned int threads;

	if (hugetlb_threads_parse(text, &threads))
		pr_warn("hugepage_alloc_threads=%s is neither auto nor a number from 1 on, ignoring\n",
			text);
	else
		hugetlb_alloc_threads = threads;
	return true;
}

#ifdef CONFIG_SYSCTL
static int hugetlb_threads_sysctl(const struct ctl_table *table, int write, void *buffer,
				  size_t *length, loff_t *ppos)
{
	unsigned int threads = READ_ONCE(hugetlb_alloc_threads);
	char text[16] = "auto";
	const struct ctl_table string = { .data = text, .maxlen = sizeof(text) };
	int err;

	if (threads)
		snprintf(text, sizeof(text), "%u", threads);
	err = proc_dostring(&string, write, buffer, length, ppos);
	if (err || !write)
		return err;
	err = hugetlb_threads_parse(strim(text), &threads);
	if (!err)
		WRITE_ONCE(hugetlb_alloc_threads, threads);
	return err;
}

static const struct ctl_table hugetlb_grow_sysctls[] = {
	{
		.procname	= "hugepage_alloc_threads",
		.mode		= 0644,
		.proc_handler	= hugetlb_threads_sysctl,
	},
};

static int __init hugetlb_grow_sysctl_init(void)
{
	register_sysctl_init("vm", hugetlb_grow_sysctls);
	return 0;
}
late_initcall(hugetlb_grow_sysctl_init);
#endif /* CONFIG_SYSCTL */
