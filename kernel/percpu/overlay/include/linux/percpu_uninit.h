/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PERCPU_UNINIT_H
#define _LINUX_PERCPU_UNINIT_H

#include <linux/percpu-defs.h>

/**
 * DEFINE_PER_CPU_UNINIT - define a per-CPU variable without an initial value
 * @type: its type
 * @name: its name
 *
 * It is not even cleared: it holds whatever was in that memory, before an earlier
 * kernel ended, too. So it must be written before it is read, by hardware and by
 * entry code as well, and cleared before it is mapped for user space. For what is
 * large: stacks, buffers.
 */
#if defined(CONFIG_SMP) && !defined(MODULE)
#define DEFINE_PER_CPU_UNINIT(type, name)	DEFINE_PER_CPU_SECTION(type, name, "..uninit")
#else
#define DEFINE_PER_CPU_UNINIT(type, name)	DEFINE_PER_CPU(type, name)
#endif

/* Of one that is defined so, for other files. */
#ifdef CONFIG_SMP
#define DECLARE_PER_CPU_UNINIT(type, name)	DECLARE_PER_CPU_SECTION(type, name, "..uninit")
#else
#define DECLARE_PER_CPU_UNINIT(type, name)	DECLARE_PER_CPU(type, name)
#endif

#endif /* _LINUX_PERCPU_UNINIT_H */
