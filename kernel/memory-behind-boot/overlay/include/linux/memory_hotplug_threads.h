/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_MEMORY_HOTPLUG_THREADS_H
#define _LINUX_MEMORY_HOTPLUG_THREADS_H

#include <linux/types.h>

#ifdef CONFIG_MEMORY_HOTPLUG_THREADS
void mhp_do_multithreaded(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
			  void *arg, unsigned long start_pfn, unsigned long nr_pages);
bool mhp_ahead_busy(void);
void mhp_ahead_begin(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
		     void *arg, unsigned long start_pfn, unsigned long nr_pages);
bool mhp_ahead_finish(unsigned long start_pfn, unsigned long nr_pages);
void mhp_ahead_end(void);
#else
static inline void
mhp_do_multithreaded(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
		     void *arg, unsigned long start_pfn, unsigned long nr_pages)
{
	fn(start_pfn, start_pfn + nr_pages, arg);
}

static inline bool mhp_ahead_busy(void)
{
	return true;
}

static inline void
mhp_ahead_begin(void (*fn)(unsigned long start_pfn, unsigned long end_pfn, void *arg),
		void *arg, unsigned long start_pfn, unsigned long nr_pages)
{
}

static inline bool mhp_ahead_finish(unsigned long start_pfn, unsigned long nr_pages)
{
	return false;
}

static inline void mhp_ahead_end(void)
{
}
#endif

#endif /* _LINUX_MEMORY_HOTPLUG_THREADS_H */
