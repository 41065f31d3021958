// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot-time tables zeroed on demand.
 *
 * The hash tables of the VFS grow with memory, and so does the time to zero them
 * in early boot, and, in a virtual machine, what they take from the host, although
 * most of their buckets are not used for long. With deferred_init=lazy or
 * background, tables whose users call deferred_zero() before each access, or ask
 * deferred_zero_missing() whether they have to, are zeroed in chunks at the first
 * access to each. They are finished together with the memory map.
 */
#include <linux/bitmap.h>
#include <linux/deferred_zero.h>
#include <linux/memblock.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "deferred_init.h"

/* What is zeroed faster than it is worth. */
#define DEFERRED_ZERO_MIN	SZ_1M

/**
 * struct deferred_table - memory that is zeroed on demand
 * @start: the memory
 * @size: its size in bytes
 * @zeroed: a set bit for each chunk that is zeroed
 *
 * Set up once, and never freed, as a reader may look at it at any time.
 */
struct deferred_table {
	char		*start;
	size_t		size;
	unsigned long	*zeroed;
};

DEFINE_STATIC_KEY_FALSE(deferred_zero_key);

static struct deferred_table deferred_tables[DEFERRED_ZERO_TABLES] __ro_after_init;
static unsigned int deferred_nr_tables __ro_after_init;
static DEFINE_RAW_SPINLOCK(deferred_zero_lock);

/**
 * deferred_zero_add - have memory zeroed on demand
 * @start: memory that stays allocated for ever
 * @size: its size in bytes
 *
 * Context: boot, process context, one CPU.
 * Return: true if deferred_zero() will zero it; false if the caller has to.
 */
bool __ref deferred_zero_add(void *start, size_t size)
{
	size_t bytes = BITS_TO_LONGS(DIV_ROUND_UP(size, DEFERRED_ZERO_CHUNK)) * sizeof(long);
	struct deferred_table *table = &deferred_tables[deferred_nr_tables];

	if (system_state != SYSTEM_BOOTING || !deferred_init_wanted() ||
	    size < DEFERRED_ZERO_MIN || deferred_nr_tables == DEFERRED_ZERO_TABLES)
		return false;
	if (slab_is_available())
		table->zeroed = kvzalloc(bytes, GFP_KERNEL);
	else
		table->zeroed = memblock_alloc(bytes, SMP_CACHE_BYTES);
	if (!table->zeroed)
		return false;
	if (!slab_is_available())
		deferred_init_skip_reserved(__pa(start), __pa(start) + size);

	table->start = start;
	table->size = size;
	deferred_nr_tables++;
	static_branch_enable(&deferred_zero_key);
	return true;
}

/**
 * deferred_zero_map - get the bitmap for deferred_zero_missing()
 * @start: memory that deferred_zero_add() accepted or not
 *
 * Context: boot.
 * Return: a set bit for each part of DEFERRED_ZERO_CHUNK that is zeroed; it is kept up
 * to date and never freed. NULL if the memory is not zeroed on demand.
 */
const unsigned long * __init deferred_zero_map(const void *start)
{
	const struct deferred_table *table;

	for (table = deferred_tables; table < deferred_tables + deferred_nr_tables; table++) {
		if (table->start == start && table->size)
			return table->zeroed;
	}
	return NULL;
}

/**
 * deferred_zero_del - take back deferred_zero_add(), to free the memory
 * @start: the memory
 *
 * Its struct pages, if they were left for later, are initialised too.
 *
 * Context: boot, process context; nobody uses the memory any more.
 */
void __init deferred_zero_del(void *start)
{
	struct deferred_table *table;

	for (table = deferred_tables; table < deferred_tables + deferred_nr_tables; table++) {
		if (table->start != start)
			continue;
		deferred_init_range(PHYS_PFN(__pa(start)), PFN_UP(table->size));
		/* The entry stays, and matches nothing any more. */
		scoped_guard(raw_spinlock_irqsave, &deferred_zero_lock)
			table->size = 0;
	}
}

static void deferred_zero_chunk(const struct deferred_table *table, unsigned long chunk)
{
	size_t offset = chunk * DEFERRED_ZERO_CHUNK;

	if (test_bit_acquire(chunk, table->zeroed))
		return;
	guard(raw_spinlock_irqsave)(&deferred_zero_lock);
	/* deferred_zero_del() may have come first. */
	if (test_bit(chunk, table->zeroed) || offset >= table->size)
		return;
	memset(table->start + offset, 0, min(DEFERRED_ZERO_CHUNK, table->size - offset));
	/* Pairs with test_bit_acquire() above. */
	smp_mb__before_atomic();
	set_bit(chunk, table->zeroed);
}

static noinline void deferred_zero_range(const struct deferred_table *table, size_t offset,
					 size_t size)
{
	unsigned long last = (offset + size - 1) / DEFERRED_ZERO_CHUNK;
	unsigned long chunk;

	for (chunk = offset / DEFERRED_ZERO_CHUNK; chunk <= last; chunk++)
		deferred_zero_chunk(table, chunk);
}

void __deferred_zero(const void *p, size_t size)
{
	const struct deferred_table *table;

	/* What is not in use has no size. */
	for (table = deferred_tables; table < deferred_tables + DEFERRED_ZERO_TABLES; table++) {
		size_t offset = (const char *)p - table->start;
		unsigned long chunk = offset / DEFERRED_ZERO_CHUNK;

		if (offset >= table->size)
			continue;
		/* A bucket in use, as nearly always. */
		if (offset + size > (chunk + 1) * DEFERRED_ZERO_CHUNK ||
		    !test_bit_acquire(chunk, table->zeroed))
			deferred_zero_range(table, offset, size);
		return;
	}
}

/**
 * deferred_zero_finish - zero what is left
 *
 * Context: process context, may sleep.
 */
void deferred_zero_finish(void)
{
	const struct deferred_table *table;
	unsigned long chunk;

	for (table = deferred_tables; table < deferred_tables + deferred_nr_tables; table++) {
		for (chunk = 0; chunk < DIV_ROUND_UP(table->size, DEFERRED_ZERO_CHUNK); chunk++) {
			deferred_zero_chunk(table, chunk);
			cond_resched();
		}
	}
	static_branch_disable(&deferred_zero_key);
}

#ifdef CONFIG_DEFERRED_INIT_KUNIT_TEST
#include "deferred_zero_test.c"
#endif
