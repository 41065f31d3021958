/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_GENERIC_PAGE_NONTEMPORAL_H
#define _ASM_GENERIC_PAGE_NONTEMPORAL_H

#include <asm/page.h>

/**
 * clear_page_nontemporal - clear a page that nobody is about to read
 * @page: its kernel virtual address
 *
 * As clear_page(), and does not displace what is in the caches, if the
 * architecture has stores that go past them. Ordered before all that the caller
 * stores later.
 */
static inline void clear_page_nontemporal(void *page)
{
	clear_page(page);
}

#endif /* _ASM_GENERIC_PAGE_NONTEMPORAL_H */
