/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_HUGETLB_CMA_H
#define _MM_HUGETLB_CMA_H

#include <linux/hugetlb.h>

/* Boot allocates no gigantic pages where they come from CMA areas. */
static inline bool hugetlb_early_cma(struct hstate *h)
{
	return false;
}

#endif /* _MM_HUGETLB_CMA_H */
