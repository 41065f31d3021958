/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ARM64_MM_LINEAR_MAP_ADD_H
#define _ARM64_MM_LINEAR_MAP_ADD_H

#include <linux/types.h>
#include <asm/pgtable-types.h>

int linear_map_add_pages(phys_addr_t start, phys_addr_t size, pgprot_t prot);

#endif /* _ARM64_MM_LINEAR_MAP_ADD_H */
