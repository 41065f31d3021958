// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred memory: what mem= takes from the firmware's memory map
 */
#include <linux/cc_platform.h>
#include <linux/deferred_mem.h>
#include <linux/init.h>
#include <linux/kexec_handover.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/printk.h>
#include <linux/sizes.h>

#include <asm/e820/api.h>
#include <asm/msr.h>
#include <asm/setup.h>

/*
 * With that much memory at boot, memory blocks may be larger than a section
 * (probe_memory_block_size()).
 */
#define LARGE_BLOCKS	SZ_64G
#define LARGE_BLOCK	SZ_2G

/* Bytes of memory in a map, and in @end where the last of them ends. */
static u64 __init e820__ram(const struct e820_table *table, u64 *end)
{
	const struct e820_entry *entry;
	u64 bytes = 0;

	*end = 0;
	for (entry = table->entries; entry < table->entries + table->nr_entries; entry++) {
		if (entry->type != E820_TYPE_RAM)
			continue;
		*end = max(*end, entry->addr + entry->size);
		bytes += entry->size;
	}
	return bytes;
}

/* Why memory cannot be added behind boot here, or NULL */
static const char * __init e820__defer_decline(void)
{
	u32 mktme, tdx;

	/* Added memory would have to be accepted, or shared, first. */
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "confidential guest";
	/* What the kernel before it preserves may lie anywhere. */
	if (is_kho_boot())
		return "kexec handover";
	/* The TDX module takes the memory of boot for all there will be. */
	if (IS_ENABLED(CONFIG_INTEL_TDX_HOST) &&
	    !rdmsr_safe(MSR_IA32_MKTME_KEYID_PARTITIONING, &mktme, &tdx) && tdx)
		return "TDX host";
	return NULL;
}

/* The least for boot: the initrd is moved, and what it holds is unpacked beside it. */
static u64 __init e820__boot_least(void)
{
	u64 initrd = boot_params.hdr.ramdisk_size;

	initrd |= (u64)boot_params.ext_ramdisk_size << 32;
	return 4 * initrd;
}

/**
 * e820__defer_hidden - hand the memory that mem= hides to mm/deferred_mem.c
 * @own_map: has memmap= said what is memory, and not just what is reserved?
 *
 * A memory block that mem= cuts is given to boot as a whole: it could not be added
 * later.
 *
 * Context: early boot, after early parameters.
 */
void __init e820__defer_hidden(bool own_map)
{
	u64 limit, start, end, left, all, least = e820__boot_least();
	const char *decline;
	unsigned int i;

	if (max_mem_size == U64_MAX || !deferred_mem_wanted())
		return;
	left = e820__ram(e820_table, &end);
	/* A map of the user's own says what not to touch, by leaving it out. */
	if (own_map) {
		all = e820__ram(e820_table_firmware, &end);
		deferred_mem_refuse(all - min(all, left), "memmap= says what is memory");
		return;
	}
	/* Of several mem=, the least counts: each has taken away what lies behind it. */
	max_mem_size = min(max_mem_size, end);

	decline = e820__defer_decline();
	if (decline) {
		deferred_mem_decline(decline);
		limit = U64_MAX;
	} else {
		limit = max(max_mem_size, least);
		if (limit > max_mem_size)
			pr_warn("mem= is too small for the initrd: boot gets %llu MiB\n",
				limit / SZ_1M);
		limit = round_up(limit,
				 limit < LARGE_BLOCKS ? MIN_MEMORY_BLOCK_SIZE : LARGE_BLOCK);
	}
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
