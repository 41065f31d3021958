/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_DEFERRED_MEM_H
#define _LINUX_DEFERRED_MEM_H

#include <linux/mmzone.h>
#include <linux/types.h>

#ifdef CONFIG_DEFERRED_MEM
bool deferred_mem_wanted(void);
void deferred_mem_hide(phys_addr_t start, phys_addr_t end);
void deferred_mem_keep(phys_addr_t start, phys_addr_t end);
void deferred_mem_refuse(u64 bytes, const char *why);
bool deferred_mem_allows(u64 start, u64 size);
unsigned long deferred_mem_end_pfn(void);
phys_addr_t deferred_mem_limit(phys_addr_t limit, const char *decline);
void deferred_mem_decline(const char *why);
bool deferred_mem_pressure(gfp_t gfp, unsigned int order, enum zone_type highest);
bool deferred_mem_short(gfp_t gfp, unsigned int order, enum zone_type highest);
#else
static inline bool deferred_mem_wanted(void)
{
	return false;
}

static inline void deferred_mem_hide(phys_addr_t start, phys_addr_t end)
{
}

static inline void deferred_mem_keep(phys_addr_t start, phys_addr_t end)
{
}

static inline void deferred_mem_refuse(u64 bytes, const char *why)
{
}

static inline bool deferred_mem_allows(u64 start, u64 size)
{
	return false;
}

static inline unsigned long deferred_mem_end_pfn(void)
{
	return 0;
}

static inline phys_addr_t deferred_mem_limit(phys_addr_t limit, const char *decline)
{
	return limit;
}

static inline bool deferred_mem_pressure(gfp_t gfp, unsigned int order,
					 enum zone_type highest)
{
	return false;
}

static inline bool deferred_mem_short(gfp_t gfp, unsigned int order, enum zone_type highest)
{
	return false;
}
#endif

#endif
