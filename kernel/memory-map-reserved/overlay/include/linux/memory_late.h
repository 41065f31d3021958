/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_MEMORY_LATE_H
#define _LINUX_MEMORY_LATE_H

#if defined(CONFIG_DEFERRED_INIT_ON_DEMAND) && defined(CONFIG_MEMORY_HOTPLUG)

/**
 * memory_late_complete - register the memory blocks of boot that are left
 *
 * To be called by who is about to count something for a memory block, or to change
 * zones, which tell the zone of a block that is registered later.
 *
 * Context: process context, may sleep; device_hotplug_lock and mem_hotplug_lock may be
 * held, locks of pages not.
 * Return: 0, or the error that leaves some out: they are online all the same, and who
 * walks memory blocks must not take them for absent.
 */
int memory_late_complete(void);

#else

static inline int memory_late_complete(void)
{
	return 0;
}

#endif

#endif /* _LINUX_MEMORY_LATE_H */
