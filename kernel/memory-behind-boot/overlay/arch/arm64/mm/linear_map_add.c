// SPDX-License-Identifier: GPL-2.0
/*
 * The linear map of memory that is added, made of pages by several threads
 */
#include <linux/memory_hotplug_threads.h>
#include <linux/mm.h>
#include <linux/pfn.h>
#include <linux/pgalloc.h>
#include <linux/pgtable.h>

#include "linear_map_add.h"

struct linear_map_job {
	pgprot_t prot;
	int error;
};

/* Tables down to the ones whose entries the threads make. */
static int linear_map_upper_tables(unsigned long addr, unsigned long end)
{
	/* Not pud_addr_end(): it is the end if there are no tables of that level. */
	for (; addr < end; addr = ALIGN(addr + 1, PUD_SIZE)) {
		p4d_t *p4dp = p4d_alloc(&init_mm, pgd_offset_k(addr), addr);
		pud_t *pudp = p4dp ? pud_alloc(&init_mm, p4dp, addr) : NULL;

		if (!pudp || !pmd_alloc(&init_mm, pudp, addr))
			return -ENOMEM;
	}
	return 0;
}

/* Fails rather than have somebody killed: the thread that adds memory could not help. */
static pte_t *linear_map_pte_table(void)
{
	struct ptdesc *ptdesc;

	/* Not zeroed: all of its entries are going to be written. */
	ptdesc = pagetable_alloc(GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN, 0);

	if (!ptdesc)
		return NULL;
	if (!pagetable_pte_ctor(&init_mm, ptdesc)) {
		pagetable_free(ptdesc);
		return NULL;
	}
	return ptdesc_address(ptdesc);
}

/* Nobody else works on this entry: it belongs to one part. */
static int linear_map_table(phys_addr_t phys, pgprot_t prot)
{
	pmd_t *pmdp = pmd_off_k((unsigned long)__va(phys));
	const pteval_t first = pte_val(pfn_pte(PHYS_PFN(phys), prot));
	pte_t *table;
	unsigned long i;

	if (WARN_ON_ONCE(!pmd_none(READ_ONCE(*pmdp))))
		return -EEXIST;
	table = linear_map_pte_table();
	if (!table)
		return -ENOMEM;
	/* The table maps PMD_SIZE, so its addresses differ in bits that an entry has in place. */
	for (i = 0; i < PTRS_PER_PTE; i++)
		__set_pte_nosync(table + i, __pte(first | i << PAGE_SHIFT));
	/* The table walker must not see the table before its entries. */
	dsb(ishst);
	__pmd_populate(pmdp, __pa(table),
		       PMD_TYPE_TABLE | PMD_TABLE_AF | PMD_TABLE_UXN | PMD_TABLE_PXN);
	return 0;
}

static void linear_map_part(unsigned long start_pfn, unsigned long end_pfn, void *arg)
{
	struct linear_map_job *job = arg;
	unsigned long pfn;
	int ret;

	for (pfn = start_pfn; pfn < end_pfn; pfn += PFN_DOWN(PMD_SIZE)) {
		if (READ_ONCE(job->error))
			return;
		ret = linear_map_table(PFN_PHYS(pfn), job->prot);
		if (ret)
			WRITE_ONCE(job->error, ret);
	}
}

/**
 * linear_map_add_pages - map added memory by pages
 * @start: physical address of memory that is not mapped, aligned to PMD_SIZE
 * @size: its size, aligned too
 * @prot: of all pages; it says that nothing is executable, as tables above it need not
 *
 * Context: process context, may sleep; mem_hotplug_lock is held for writing.
 * Return: 0, or -ENOMEM; then the caller unmaps what was mapped. -EEXIST, with a warning,
 * if there was a mapping.
 */
int linear_map_add_pages(phys_addr_t start, phys_addr_t size, pgprot_t prot)
{
	struct linear_map_job job = { .prot = prot };
	unsigned long addr = (unsigned long)__va(start);

	job.error = linear_map_upper_tables(addr, addr + size);
	if (job.error)
		return job.error;
	mhp_do_multithreaded(linear_map_part, &job, PHYS_PFN(start), PHYS_PFN(size));
	return job.error;
}
