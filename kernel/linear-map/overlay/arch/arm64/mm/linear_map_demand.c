// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page tables of the linear map on demand.
 *
 * Where the linear map has to consist of pages, since their permissions change and the
 * CPU cannot change the size of a mapping that is in use, boot writes an entry for each
 * page of memory. With deferred_init=lazy and background it maps memory by blocks (PMDs)
 * at first, and a block becomes a table of pages before anything in it is used. The page
 * allocator and memblock know such memory: it is memory that has to be accepted, so
 * accept_memory() is called before it is handed out.
 *
 * Nobody uses a block while it is replaced, so break-before-make will do, on any CPU: the
 * entry is cleared, the TLBs forget it, the table is written and put in its place. What
 * looks at memory that it does not use, such as /proc/kcore, passes by what is not
 * accepted; a load that runs into a block by mistake finds it mapped, or is fixed up.
 *
 * The tables are set aside when the memory is mapped, one page for each block, next to
 * each other: nothing is allocated later, so accepting memory cannot fail. That is as
 * much as boot would have allocated.
 */
#define pr_fmt(fmt) "linear map: " fmt

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/deferred_init.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/kexec_handover.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pgalloc.h>
#include <linux/pgtable.h>
#include <linux/processor.h>
#include <linux/sizes.h>

#include <asm/barrier.h>
#include <asm/fixmap.h>
#include <asm/linear_map.h>
#include <asm/memory.h>
#include <asm/tlbflush.h>

/* Firmware leaves many small banks, which are not worth it. */
#define MAX_RANGES	32
#define MIN_SIZE	SZ_64M

/* Memory that was mapped by blocks, and the tables for it, one a block */
struct demand_range {
	phys_addr_t start;
	phys_addr_t end;
	phys_addr_t tables;
};

static struct demand_range ranges[MAX_RANGES] __ro_after_init;
static unsigned int nr_ranges __ro_after_init;
/* Memory that is allocated now has to be accepted. */
static bool in_use __ro_after_init;
static bool enabled __initdata = true;

static int __init linear_map_setup(char *arg)
{
	if (!arg || strcmp(arg, "pages"))
		return -EINVAL;
	enabled = false;
	return 0;
}
early_param("linear_map", linear_map_setup);

/**
 * linear_map_demand_add - may memory be mapped by blocks for now?
 * @start: where it begins
 * @end: where it ends
 *
 * Sets the tables aside that the blocks will be replaced by.
 *
 * Context: map_mem().
 * Return: true if it may; false if it has to be mapped by pages.
 */
bool __init linear_map_demand_add(phys_addr_t start, phys_addr_t end)
{
	phys_addr_t size;

	/* Struct pages are initialised by blocks of this order. */
	BUILD_BUG_ON(PMD_SHIFT - PAGE_SHIFT > MAX_PAGE_ORDER);

	start = ALIGN(start, PMD_SIZE);
	end = ALIGN_DOWN(end, PMD_SIZE);
	/* What another kernel handed over is in use, and nobody would accept it. */
	if (!enabled || !deferred_init_wanted() || is_kho_boot())
		return false;
	if (end <= start || end - start < MIN_SIZE || nr_ranges == MAX_RANGES)
		return false;
	size = ((end - start) >> PMD_SHIFT) * PAGE_SIZE;
	ranges[nr_ranges].tables = memblock_phys_alloc_range(size, PAGE_SIZE, 0,
							     MEMBLOCK_ALLOC_NOLEAKTRACE);
	if (!ranges[nr_ranges].tables)
		return false;
	ranges[nr_ranges].start = start;
	ranges[nr_ranges].end = end;
	nr_ranges++;
	return true;
}

/* The table for the block at @addr, 0 if it is not one of ours */
static phys_addr_t demand_table(phys_addr_t addr)
{
	const struct demand_range *range;

	for (range = ranges; range < ranges + nr_ranges; range++) {
		if (addr >= range->start && addr < range->end)
			return range->tables + ((addr - range->start) >> PMD_SHIFT) * PAGE_SIZE;
	}
	return 0;
}

/* The same if the linear map has a block there, or one that somebody is about to replace */
static phys_addr_t demand_block_table(phys_addr_t addr)
{
	phys_addr_t table = demand_table(addr);

	return table && !pmd_table(pmdp_get(pmd_off_k((unsigned long)__va(addr)))) ? table : 0;
}

/*
 * Replace the block at @addr, of which nothing is used, by pages of the same attributes.
 * @ptep is where @table can be written. Interrupts are off while there is neither: who
 * interrupts may want a part of the block, and waits for it. Before the memory is used,
 * also where somebody else did it, dsb(ish) and isb() have to follow.
 */
static void demand_split(pmd_t *pmdp, pte_t *ptep, phys_addr_t table, unsigned long addr)
{
	pmdval_t tableprot = PMD_TYPE_TABLE | PMD_TABLE_UXN | PMD_TABLE_AF;
	unsigned long pfn;
	pgprot_t prot;
	pmd_t pmd;
	int i;

	guard(irqsave)();
	do {
		pmd = pmdp_get(pmdp);
		if (pmd_table(pmd))
			return;
		if (pmd_none(pmd))
			cpu_relax();
	} while (pmd_none(pmd) || cmpxchg(&pmd_val(*pmdp), pmd_val(pmd), 0) != pmd_val(pmd));
	__flush_tlb_kernel_pgtable(addr);

	pfn = pmd_pfn(pmd);
	prot = pmd_pgprot(pmd);
	if (pgprot_val(prot) & PMD_SECT_PXN)
		tableprot |= PMD_TABLE_PXN;
	prot = __pgprot((pgprot_val(prot) & ~PTE_TYPE_MASK) | PTE_TYPE_PAGE);
	for (i = 0; i < PTRS_PER_PTE; i++, ptep++, pfn++)
		__set_pte_nosync(ptep, pfn_pte(pfn, prot));
	/* The table is there before what points to it. */
	dsb(ishst);
	__pmd_populate(pmdp, table, tableprot);
}

/**
 * accept_memory - have memory mapped by pages before it is used
 * @start: where it begins
 * @size: its size
 *
 * What was not accepted before is nobody's yet. Others may accept it at the same time.
 *
 * Context: any but NMI.
 */
void accept_memory(phys_addr_t start, unsigned long size)
{
	phys_addr_t addr, table, end = start + size;
	unsigned long va;

	if (!in_use)
		return;
	for (addr = ALIGN_DOWN(start, PMD_SIZE); addr < end; addr += PMD_SIZE) {
		table = demand_block_table(addr);
		va = (unsigned long)__va(addr);
		if (table)
			demand_split(pmd_off_k(va), __va(table), table, va);
	}
	/* Walks of the tables from here on see what this CPU has seen, or written. */
	dsb(ish);
	isb();
}

/**
 * range_contains_unaccepted_memory - is some of the memory mapped by blocks?
 * @start: where it begins
 * @size: its size
 *
 * Context: any.
 * Return: true if some of it is.
 */
bool range_contains_unaccepted_memory(phys_addr_t start, unsigned long size)
{
	phys_addr_t addr, end = start + size;

	if (!in_use)
		return false;
	for (addr = ALIGN_DOWN(start, PMD_SIZE); addr < end; addr += PMD_SIZE) {
		if (demand_block_table(addr))
			return true;
	}
	return false;
}

/* Replace a block by way of the fixmap. */
static void __init demand_split_used(phys_addr_t addr, phys_addr_t table)
{
	unsigned long va = (unsigned long)__va(addr);
	p4d_t *p4dp = p4d_set_fixmap_offset(pgd_offset_k(va), va);
	pud_t *pudp = pud_set_fixmap_offset(p4dp, va);
	pmd_t *pmdp = pmd_set_fixmap_offset(pudp, va);

	if (!pmd_table(pmdp_get(pmdp))) {
		demand_split(pmdp, pte_set_fixmap(table), table, va);
		dsb(ish);
		isb();
		pte_clear_fixmap();
	}
	pmd_clear_fixmap();
	pud_clear_fixmap();
	p4d_clear_fixmap();
}

/**
 * linear_map_demand_begin - have what is reserved by now mapped by pages
 *
 * Memory that memblock hands out after that is accepted at once.
 *
 * Context: map_mem(), after all memory is mapped; one CPU, interrupts off. Data in the
 * blocks may be in use, but nobody looks at it meanwhile.
 */
void __init linear_map_demand_begin(void)
{
	phys_addr_t start, end, addr, table, size = 0;
	unsigned int range;
	u64 i;

	if (!nr_ranges)
		return;
	for_each_reserved_mem_range(i, &start, &end) {
		/* The tables themselves may lie in such a block. */
		for (addr = ALIGN_DOWN(start, PMD_SIZE); addr < end; addr += PMD_SIZE) {
			table = demand_table(addr);
			if (table)
				demand_split_used(addr, table);
		}
	}
	in_use = true;
	for (range = 0; range < nr_ranges; range++)
		size += ranges[range].end - ranges[range].start;
	pr_info("up to %llu MiB are mapped by blocks until they are used\n", (u64)size >> 20);
}

/**
 * linear_map_demand_reserved - accept what was reserved, and not allocated, since then
 *
 * Such as tables of EFI, areas of CMA at a given place, and what memtest found bad: it is
 * in use, or is freed without being accepted.
 *
 * Context: boot, before memblock hands its memory to the page allocator.
 */
void __init linear_map_demand_reserved(void)
{
	phys_addr_t start, end;
	u64 i;

	for_each_reserved_mem_range(i, &start, &end)
		accept_memory(start, end - start);
}

#ifdef CONFIG_ARM64_LINEAR_MAP_KUNIT_TEST
#include "linear_map_demand_test.c"
#endif
