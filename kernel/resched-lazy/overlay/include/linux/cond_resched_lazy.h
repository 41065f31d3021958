/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_COND_RESCHED_LAZY_H
#define _LINUX_COND_RESCHED_LAZY_H

#include <linux/sched.h>

/**
 * cond_resched_lazy - give way to a task that woke up, also where that is lazy
 *
 * cond_resched() does nothing on kernels that are preempted lazily, where a
 * task that wakes up would wait for the next tick. For long work in the
 * background.
 *
 * Context: any that may sleep.
 */
static inline void cond_resched_lazy(void)
{
	if (test_thread_flag(TIF_NEED_RESCHED_LAZY))
		schedule();
	else
		cond_resched();
}

#endif /* _LINUX_COND_RESCHED_LAZY_H */
