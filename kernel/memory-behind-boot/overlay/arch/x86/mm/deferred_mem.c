// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred memory: what mem= takes from the firmware's memory map
 */
#include <linux/deferred_mem.h>
#include <linux/init.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/printk.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include <asm/e820/api.h>

/*
 * With that much memory at boot, memory blocks may be larger than a section
 * (probe_memory_block_size()).
 */
#define LARGE_BLOCKS	SZ_64G
#define LARGE_BLOCK	SZ_2G

/**
 * e820__defer_hidden - hand the memory that mem= hides to mm/deferred_mem.c
 *
 * A memory block that mem= cuts is given to boot as a whole: it could not be added
 * later.
 *
 * Context: early boot, after early parameters.
 */
void __init e820__defer_hidden(void)
{
	u64 limit, start, end;
	unsigned int i;

	if (max_mem_size == U64_MAX || !deferred_mem_wanted())
		return;
	/* A map of the user's own says what not to touch, by leaving it out. */
	if (strstr(boot_command_line, "memmap=")) {
		pr_warn("deferred_mem: with memmap= no memory is deferred\n");
		return;
	}

	limit = round_up(max_mem_size,
			 max_mem_size < LARGE_BLOCKS ? MIN_MEMORY_BLOCK_SIZE : LARGE_BLOCK);
	for (i = 0; i < e820_table_firmware->nr_entries; i++) {
		const struct e820_entry *entry = e820_table_firmware->entries + i;

		end = entry->addr + entry->size;
		if (entry->type != E820_TYPE_RAM || end <= max_mem_size)
			continue;
		start = max(entry->addr, max_mem_size);
		if (start < limit)
			e820__range_add(start, min(end, limit) - start, E820_TYPE_RAM);
		if (end > limit)
			deferred_mem_hide(max(start, limit), end);
	}
	max_mem_size = limit;
}

/* What boot found out of the map since. */
static int __init e820__keep_hidden(void)
{
	const struct e820_entry *entry = e820_table->entries;
	unsigned int i;

	for (i = 0; i < e820_table->nr_entries; i++, entry++) {
		if (entry->type != E820_TYPE_RAM)
			deferred_mem_keep(entry->addr, entry->addr + entry->size);
	}
	return 0;
}
early_initcall(e820__keep_hidden);
