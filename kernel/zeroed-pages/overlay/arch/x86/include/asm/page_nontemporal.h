/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_X86_PAGE_NONTEMPORAL_H
#define _ASM_X86_PAGE_NONTEMPORAL_H

#ifdef CONFIG_X86_64

#include <linux/kmsan-checks.h>
#include <asm/page.h>

/* Described in include/asm-generic/page_nontemporal.h. */
static inline void clear_page_nontemporal(void *page)
{
	void *end = page + PAGE_SIZE;

	kmsan_unpoison_memory(page, PAGE_SIZE);
	for (; page < end; page += 64)
		asm volatile("movnti %[zero], (%[page])\n\t"
			     "movnti %[zero], 8(%[page])\n\t"
			     "movnti %[zero], 16(%[page])\n\t"
			     "movnti %[zero], 24(%[page])\n\t"
			     "movnti %[zero], 32(%[page])\n\t"
			     "movnti %[zero], 40(%[page])\n\t"
			     "movnti %[zero], 48(%[page])\n\t"
			     "movnti %[zero], 56(%[page])"
			     : : [page] "r" (page), [zero] "r" (0UL) : "memory");
	/* Such stores are weakly ordered. */
	asm volatile("sfence" : : : "memory");
}

#else
#include <asm-generic/page_nontemporal.h>
#endif /* CONFIG_X86_64 */

#endif /* _ASM_X86_PAGE_NONTEMPORAL_H */
