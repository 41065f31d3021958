/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __ASM_LINEAR_MAP_H
#define __ASM_LINEAR_MAP_H

#include <linux/types.h>

#ifdef CONFIG_ARM64_LINEAR_MAP_ON_DEMAND
bool linear_map_demand_add(phys_addr_t start, phys_addr_t end);
void linear_map_demand_begin(void);
void linear_map_demand_reserved(void);
#else
static inline bool linear_map_demand_add(phys_addr_t start, phys_addr_t end)
{
	return false;
}

static inline void linear_map_demand_begin(void)
{
}

static inline void linear_map_demand_reserved(void)
{
}
#endif

#endif /* __ASM_LINEAR_MAP_H */
