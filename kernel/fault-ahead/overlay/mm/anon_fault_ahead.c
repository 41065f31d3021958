// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faulting in anonymous memory ahead of who populates or pins it
 *
 * mlock(), MAP_POPULATE and whoever pins memory for a device fault it in page
 * by page. Once the first fault of a range has done all that a fault has to do
 * once, the pages behind it in the same page table are allocated, charged, mapped
 * and pinned together.
 */
#include <linux/init.h>
#include <linux/gfp.h>
#include <linux/kstrtox.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/oom.h>
#include <linux/pgtable.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmstat.h>
#include "internal.h"

/* They are cleared with preemption off, and of 64 pages the pointers fit on the stack. */
#define ANON_FAULT_AHEAD	(SZ_256K / PAGE_SIZE)

static bool anon_fault_ahead_on __ro_after_init = true;

static int __init anon_fault_ahead_param(char *str)
{
	return kstrtobool(str, &anon_fault_ahead_on);
}
early_param("anon_fault_ahead", anon_fault_ahead_param);

/*
 * May pages be allocated for a range without a look at each address? Memory
 * policies, userfaultfd, tags and huge pages want one.
 */
static bool anon_fault_ahead_allowed(struct vm_area_struct *vma)
{
	if (!vma_is_anonymous(vma) || userfaultfd_armed(vma))
		return false;
	if ((vma->vm_flags & (VM_WRITE | VM_MTE)) != VM_WRITE)
		return false;
	if (vma->vm_mm != current->mm)
		return false;
#ifdef CONFIG_NUMA
	if (vma->vm_policy || current->mempolicy)
		return false;
#endif
	return !thp_vma_allowable_orders(vma, vma->vm_flags, TVA_PAGEFAULT,
					 THP_ORDERS_ALL_ANON);
}

/* How many of the next @nr pages have nothing in the page table, from @addr on */
static unsigned int anon_fault_ahead_none(pmd_t *pmd, unsigned long addr,
					  unsigned int nr)
{
	pte_t *pte = pte_offset_map(pmd, addr);
	unsigned int i;

	if (!pte)
		return 0;
	for (i = 0; i < nr && pte_none(ptep_get_lockless(pte + i)); i++)
		;
	pte_unmap(pte);
	return i;
}

/*
 * Allocate and charge up to @nr pages; return how many there are. For pages that
 * may never be used nobody is killed, and little is reclaimed.
 */
static unsigned int anon_fault_ahead_alloc(struct mm_struct *mm,
					   struct page **pages, unsigned int nr)
{
	const gfp_t gfp = __GFP_NORETRY | __GFP_NOWARN;
	unsigned int got, i;

	memset(pages, 0, nr * sizeof(*pages));
	got = alloc_pages_bulk(GFP_HIGHUSER_MOVABLE | __GFP_ZERO | gfp, nr, pages);
	nr = mem_cgroup_charge_pages(pages, got, mm, GFP_KERNEL | gfp);
	for (i = 0; i < nr; i++)
		__folio_mark_uptodate(page_folio(pages[i]));
	for (; i < got; i++)
		__free_page(pages[i]);
	return nr;
}

/*
 * Map pages where there is still nothing, and take the references that the caller
 * wants; return how many found their place.
 */
static unsigned int anon_fault_ahead_map(struct vm_area_struct *vma, pmd_t *pmd,
					 unsigned long addr, struct page **pages,
					 unsigned int nr, unsigned int gup_flags)
{
	struct mm_struct *mm = vma->vm_mm;
	unsigned int free = 0, i;
	spinlock_t *ptl;	/* of the page table */
	pte_t *pte;

	pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
	if (!pte)
		return 0;
	/* The OOM killer may be taking this mm's memory away. */
	if (!check_stable_address_space(mm))
		while (free < nr && pte_none(ptep_get(pte + free)))
			free++;
	pages_add_new_anon_rmap(pages, free, vma, addr);
	for (i = 0; i < free; i++, addr += PAGE_SIZE) {
		struct folio *folio = page_folio(pages[i]);
		pte_t entry = pte_sw_mkyoung(folio_mk_pte(folio, vma->vm_page_prot));

		entry = pte_mkwrite(pte_mkdirty(entry), vma);
		folio_add_lru_vma(folio, vma);
		set_pte_at(mm, addr, pte + i, entry);
		update_mmu_cache(vma, addr, pte + i);
		if (gup_flags & FOLL_TOUCH)
			folio_mark_accessed(folio);
	}
	grab_new_pages(pages, free, gup_flags);
	add_mm_counter(mm, MM_ANONPAGES, free);
	pte_unmap_unlock(pte, ptl);
	return free;
}

/**
 * anon_fault_ahead - fault in the anonymous pages behind one that was faulted in
 * @vma: its VMA
 * @addr: the address of the next page
 * @nr: how many pages from there on the caller wants
 * @gup_flags: what it wants of them, FOLL_WRITE among it
 * @found: gets the pages, if not NULL; with references as @gup_flags say
 *
 * Only for callers that write to all of them, and whose fault at the page before
 * was allowed. Maps as many as it may, in one page table, and none where it is not
 * sure: the caller has to look at each of the others.
 *
 * Context: may sleep; the mmap lock is held.
 * Return: how many there are.
 */
unsigned int anon_fault_ahead(struct vm_area_struct *vma, unsigned long addr,
			      unsigned long nr, unsigned int gup_flags,
			      struct page **found)
{
	struct page *pages[ANON_FAULT_AHEAD];
	unsigned int got, mapped, i;
	unsigned long last;
	pmd_t *pmd;

	addr &= PAGE_MASK;
	/* The end of the last page table may be no address. */
	last = min(vma->vm_end - 1, ALIGN(addr, PMD_SIZE) - 1);
	nr = min3(nr, (last - addr + 1) / PAGE_SIZE, ANON_FAULT_AHEAD);
	if (!anon_fault_ahead_on || !nr || !anon_fault_ahead_allowed(vma) ||
	    (gup_flags & (FOLL_WRITE | FOLL_NOWAIT)) != FOLL_WRITE)
		return 0;
	/* They are cleared before they are charged, so only as many as fit. */
	nr = min(nr, mem_cgroup_room(vma->vm_mm));
	pmd = mm_find_pmd(vma->vm_mm, addr);
	/* Without an anon_vma the first page was none of ours. */
	if (!nr || !pmd || !vma->anon_vma)
		return 0;
	nr = anon_fault_ahead_none(pmd, addr, nr);
	if (!nr)
		return 0;
	got = anon_fault_ahead_alloc(vma->vm_mm, pages, nr);
	if (!got)
		return 0;
	folio_throttle_swaprate(page_folio(pages[0]), GFP_KERNEL);

#ifdef CONFIG_LRU_GEN
	/* As a fault: what is wanted now belongs to the youngest generation. */
	current->in_lru_fault = vma_has_recency(vma);
#endif
	mapped = anon_fault_ahead_map(vma, pmd, addr, pages, got, gup_flags);
#ifdef CONFIG_LRU_GEN
	current->in_lru_fault = false;
#endif
	for (i = mapped; i < got; i++)
		folio_put(page_folio(pages[i]));
	if (found)
		memcpy(found, pages, mapped * sizeof(*pages));

	count_vm_events(PGFAULT, mapped);
	count_vm_events(PGFAULT_AHEAD, mapped);
	count_memcg_events_mm(vma->vm_mm, PGFAULT, mapped);
	current->min_flt += mapped;
	return mapped;
}
