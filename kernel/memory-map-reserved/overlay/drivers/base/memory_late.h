/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _BASE_MEMORY_LATE_H
#define _BASE_MEMORY_LATE_H

#include <linux/memory_late.h>
#include <linux/types.h>

struct memory_block;

#if defined(CONFIG_DEFERRED_INIT_ON_DEMAND) && defined(CONFIG_MEMORY_HOTPLUG)

/**
 * memory_late_defer - leave the memory blocks of boot to be registered later
 *
 * Context: boot, with the slab allocator and memblock.
 * Return: false if the caller has to register them now.
 */
bool memory_late_defer(void);

/**
 * memory_late_pending - are there memory blocks left to register?
 *
 * Context: boot.
 */
bool memory_late_pending(void);

#ifdef CONFIG_NUMA
/**
 * memory_late_set_nodes - tell a block of boot memory its nodes, and with them its zone
 * @mem: the block, which is not registered yet: user space finds it complete
 * @block_id: its id
 *
 * Context: while memory_late.c registers the block; else there is nothing to tell.
 */
void memory_late_set_nodes(struct memory_block *mem, unsigned long block_id);
#else
static inline void memory_late_set_nodes(struct memory_block *mem, unsigned long block_id)
{
}
#endif

/* Registers a block of boot memory, which may be there already, under its node. */
int memory_block_add_boot(unsigned long block_id, int nid);

#else

static inline bool memory_late_defer(void)
{
	return false;
}

static inline void memory_late_set_nodes(struct memory_block *mem, unsigned long block_id)
{
}

static inline bool memory_late_pending(void)
{
	return false;
}

#endif

#endif /* _BASE_MEMORY_LATE_H */
