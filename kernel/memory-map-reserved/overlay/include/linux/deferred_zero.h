/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_DEFERRED_ZERO_H
#define _LINUX_DEFERRED_ZERO_H

#include <linux/jump_label.h>
#include <linux/types.h>

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

/* True while there may be memory left to zero. */
DECLARE_STATIC_KEY_FALSE(deferred_zero_key);

bool deferred_zero_add(void *start, size_t size);
void deferred_zero_del(void *start);
void __deferred_zero(const void *p, size_t size);

/* For those whose call of deferred_zero() is out of line. */
static inline bool deferred_zero_pending(void)
{
	return static_branch_unlikely(&deferred_zero_key);
}

/**
 * deferred_zero - zero memory before its first use
 * @p: start of what is about to be read or written
 * @size: its size in bytes
 *
 * To be called before each access to memory that deferred_zero_add() accepted.
 * Other memory may be passed too; nothing happens to it. When this returns, what
 * of @p was never passed before holds zeroes, and the rest what was written to it.
 *
 * Context: any but NMI.
 */
static inline void deferred_zero(const void *p, size_t size)
{
	if (deferred_zero_pending())
		__deferred_zero(p, size);
}

#else

static inline bool deferred_zero_add(void *start, size_t size)
{
	return false;
}

static inline void deferred_zero_del(void *start)
{
}

static inline bool deferred_zero_pending(void)
{
	return false;
}

static inline void deferred_zero(const void *p, size_t size)
{
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* _LINUX_DEFERRED_ZERO_H */
