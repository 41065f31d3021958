// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory block devices registered behind boot.
 *
 * A machine has thousands of memory blocks, each a device with its sysfs files
 * and links, and nobody but user space and memory hotplug looks at them. With
 * deferred_init=lazy or background, the blocks that were there at boot are
 * registered when the system is up, by a thread of the lowest priority. Memory
 * hotplug, which looks blocks up, finds all of them: the first look-up registers
 * what is left.
 */
#include <linux/deferred_init.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/memory.h>
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

static struct boot_blocks *boot_blocks;
static unsigned int boot_blocks_left;
/* Held while a block is registered; taken inside device_hotplug_lock. */
static DEFINE_MUTEX(boot_blocks_mutex);

/* Register one block; false if there is none left. */
static bool memory_late_next(void)
{
	struct boot_blocks *blocks;
	int ret;

	guard(mutex)(&boot_blocks_mutex);
	if (!boot_blocks_left)
		return false;
	blocks = &boot_blocks[boot_blocks_left - 1];
	ret = memory_block_add_boot(blocks->next, blocks->nid);
	if (ret)
		pr_err("memory block %lu: cannot be registered: %d\n", blocks->next, ret);
	if (++blocks->next < blocks->end)
		return true;

	/* Pairs with the test in memory_late_complete(). */
	smp_store_release(&boot_blocks_left, boot_blocks_left - 1);
	if (!boot_blocks_left)
		kfree(boot_blocks);
	return true;
}

void memory_late_complete(void)
{
	/* Pairs with the store in memory_late_next(). */
	if (likely(!smp_load_acquire(&boot_blocks_left)))
		return;
	while (memory_late_next())
		cond_resched();
}

bool memory_late_pending(void)
{
	return boot_blocks_left;
}

static int memory_late_thread(void *unused)
{
	sched_set_normal(current, MAX_NICE);
	while (system_state < SYSTEM_RUNNING)
		schedule_timeout_idle(HZ / 10);
	memory_late_complete();
	return 0;
}

bool __init memory_late_defer(void)
{
	struct memblock_region *region;
	unsigned int nr = 0;

	if (!deferred_init_wanted())
		return false;
	boot_blocks = kmalloc_objs(*boot_blocks, memblock.memory.cnt);
	if (!boot_blocks)
		return false;
	for_each_mem_region(region) {
		boot_blocks[nr].next = phys_to_block_id(region->base);
		boot_blocks[nr].end = phys_to_block_id(region->base + region->size - 1) + 1;
		boot_blocks[nr].nid = memblock_get_region_node(region);
		nr++;
	}
	boot_blocks_left = nr;
	return true;
}

static int __init memory_late_init(void)
{
	struct task_struct *task;

	if (!boot_blocks_left)
		return 0;
	task = kthread_run(memory_late_thread, NULL, "memory_late");
	if (IS_ERR(task))
		memory_late_complete();
	return 0;
}
late_initcall(memory_late_init);
