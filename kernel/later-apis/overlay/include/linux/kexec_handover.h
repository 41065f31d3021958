/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_KEXEC_HANDOVER_H
#define _LINUX_KEXEC_HANDOVER_H

#include <linux/mmzone.h>

/* No kernel hands memory over to this one. */
static inline bool is_kho_boot(void)
{
	return false;
}

static inline bool kho_scratch_overlap(phys_addr_t phys, size_t size)
{
	return false;
}

static inline enum migratetype kho_scratch_migratetype(unsigned long pfn, enum migratetype mt)
{
	return mt;
}

#endif /* _LINUX_KEXEC_HANDOVER_H */
