// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory block devices registered behind boot.
 *
 * A machine has thousands of memory blocks, each a device with its sysfs files
 * and links, and nobody but user space and memory hotplug looks at them. With
 * deferred_init=lazy or background, the blocks that were there at boot are
 * registered when the system is up, by a thread of the lowest priority. Memory
 * hotplug, which looks blocks up and changes zones, memory failure, which counts bad
 * pages of a block, and user space, which asks for the size of a block before it lists
 * them, find all of them: the first of these registers what is left.
 */
#include <linux/deferred_init.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/node.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/slab.h>

#include "memory_late.h"

/**
 * struct boot_blocks - memory blocks of one range of boot memory
 * @next: first block that is left to register
 * @end: end of the blocks
 * @nid: their node
 */
struct boot_blocks {
	unsigned long	next;
	unsigned long	end;
	int		nid;
};

/* In the order of addresses; the ranges of one block follow each other. */
static struct boot_blocks *boot_blocks;
static unsigned int boot_ranges_nr __initdata;
static unsigned int boot_blocks_nr;
/* The first range with blocks left; boot_blocks_nr when all are registered. */
static unsigned int boot_blocks_first;
/* Held while a block is registered; taken inside the locks of hotplug. */
static DEFINE_MUTEX(boot_blocks_mutex);

#ifdef CONFIG_NUMA
void memory_late_set_nodes(struct memory_block *mem, unsigned long block_id)
{
	unsigned int i;

	for (i = boot_blocks_first; i < boot_blocks_nr && boot_blocks[i].next == block_id; i++) {
		if (node_online(boot_blocks[i].nid))
			memory_block_add_nid_early(mem, boot_blocks[i].nid);
	}
}
#endif

/* A section whose memory map could not be had is absent, although memblock has it. */
static bool memory_late_present(unsigned long block_id)
{
	unsigned long nr = pfn_to_section_nr(PHYS_PFN(memory_block_size_bytes()) * block_id);
	unsigned long end_nr = nr + memory_block_size_bytes() / (PAGES_PER_SECTION * PAGE_SIZE);

	for (; nr < end_nr; nr++) {
		if (present_section_nr(nr))
			return true;
	}
	return false;
}

/* Register a block with all its nodes; 1 if there are more, 0 if not, or an error. */
static int memory_late_next(void)
{
	unsigned int i, first;
	unsigned long block_id;
	int ret;

	guard(mutex)(&boot_blocks_mutex);
	first = boot_blocks_first;
	if (first == boot_blocks_nr)
		return 0;
	block_id = boot_blocks[first].next;
	for (i = first; i < boot_blocks_nr && boot_blocks[i].next == block_id; i++) {
		if (!memory_late_present(block_id))
			continue;
		ret = memory_block_add_boot(block_id, boot_blocks[i].nid);
		if (ret)
			return ret;
	}
	while (i-- > first)
		boot_blocks[i].next++;
	while (first < boot_blocks_nr && boot_blocks[first].next >= boot_blocks[first].end)
		first++;
	/* Pairs with memory_late_complete(). */
	smp_store_release(&boot_blocks_first, first);
	return first < boot_blocks_nr;
}

int memory_late_complete(void)
{
	int ret;

	/* Pairs with the store in memory_late_next(). */
	if (likely(smp_load_acquire(&boot_blocks_first) == boot_blocks_nr))
		return 0;
	while ((ret = memory_late_next()) > 0)
		cond_resched();
	return ret;
}

bool memory_late_pending(void)
{
	return READ_ONCE(boot_blocks_first) < boot_blocks_nr;
}

static int memory_late_thread(void *unused)
{
	sched_set_normal(current, MAX_NICE);
	while (system_state < SYSTEM_RUNNING)
		schedule_timeout_idle(HZ / 10);
	memory_late_complete();
	while (memory_late_pending()) {
		pr_warn_once("cannot register memory blocks yet\n");
		schedule_timeout_idle(HZ);
		memory_late_complete();
	}
	kfree(boot_blocks);
	return 0;
}

/*
 * Note the ranges, as pfns: the size of a block is not known yet, and memblock is
 * gone when the blocks are registered.
 */
static int __init memory_late_note(void)
{
	unsigned long start_pfn, end_pfn;
	int i, nid;

	if (!deferred_init_wanted())
		return 0;
	boot_blocks = kmalloc_objs(*boot_blocks, memblock.memory.cnt);
	if (!boot_blocks)
		return 0;
	for_each_mem_pfn_range(i, MAX_NUMNODES, &start_pfn, &end_pfn, &nid) {
		struct boot_blocks *blocks = &boot_blocks[boot_ranges_nr++];

		blocks->next = start_pfn;
		blocks->end = end_pfn;
		blocks->nid = nid;
	}
	return 0;
}
early_initcall(memory_late_note);

bool __init memory_late_defer(void)
{
	unsigned int i;

	for (i = 0; i < boot_ranges_nr; i++) {
		boot_blocks[i].next = phys_to_block_id(PFN_PHYS(boot_blocks[i].next));
		boot_blocks[i].end = phys_to_block_id(PFN_PHYS(boot_blocks[i].end) - 1) + 1;
	}
	boot_blocks_nr = boot_ranges_nr;
	return boot_blocks_nr;
}

static int __init memory_late_init(void)
{
	struct task_struct *task;

	if (!memory_late_pending())
		return 0;
	task = kthread_run(memory_late_thread, NULL, "memory_late");
	if (IS_ERR(task) && memory_late_complete())
		pr_warn("memory blocks are registered when one is looked up\n");
	return 0;
}
late_initcall(memory_late_init);
