/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_DEFERRED_ZERO_H
#define _LINUX_DEFERRED_ZERO_H

#include <linux/bitops.h>
#include <linux/jump_label.h>
#include <linux/sizes.h>
#include <linux/types.h>

#ifdef CONFIG_DEFERRED_INIT_ON_DEMAND

/* True while there may be memory left to zero. */
DECLARE_STATIC_KEY_FALSE(deferred_zero_key);

/* Small, as the buckets in use lie far apart, but a few cache lines at least. */
#define DEFERRED_ZERO_CHUNK	SZ_1K

bool deferred_zero_add(void *start, size_t size);
void deferred_zero_del(void *start);
const unsigned long *deferred_zero_map(const void *start);
void __deferred_zero(const void *p, size_t size);

/**
 * deferred_zero_missing - is a part of a table still to be zeroed?
 * @map: where the answer of deferred_zero_map() is kept
 * @offset: offset of the part in the table, in bytes
 *
 * For a look-up in which the call of deferred_zero() would cost saved registers.
 *
 * Context: any.
 * Return: true if deferred_zero() has to be called before it is looked at.
 */
static __always_inline bool deferred_zero_missing(const unsigned long **map, size_t offset)
{
	const unsigned long *zeroed;

	if (!static_branch_unlikely(&deferred_zero_key))
		return false;
	/* READ_ONCE() keeps the compiler from reading it where nothing is missing. */
	zeroed = READ_ONCE(*map);
	return zeroed && !test_bit_acquire(offset / DEFERRED_ZERO_CHUNK, zeroed);
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
	if (static_branch_unlikely(&deferred_zero_key))
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

static inline const unsigned long *deferred_zero_map(const void *start)
{
	return NULL;
}

static inline bool deferred_zero_missing(const unsigned long **map, size_t offset)
{
	return false;
}

static inline void deferred_zero(const void *p, size_t size)
{
}

#endif /* CONFIG_DEFERRED_INIT_ON_DEMAND */

#endif /* _LINUX_DEFERRED_ZERO_H */
