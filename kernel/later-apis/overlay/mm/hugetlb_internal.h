/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of hugetlb share. */
#ifndef _MM_HUGETLB_INTERNAL_H
#define _MM_HUGETLB_INTERNAL_H

#include <linux/hugetlb.h>

/*
 * Check if the hstate represents gigantic pages but gigantic page
 * runtime support is not available. This is a common condition used to
 * skip operations that cannot be performed on gigantic pages when runtime
 * support is disabled.
 */
static inline bool hstate_is_gigantic_no_runtime(struct hstate *h)
{
	return hstate_is_gigantic(h) && !gigantic_page_runtime_supported();
}

int hstate_next_node_to_free(struct hstate *h, nodemask_t *nodes_allowed);

#define for_each_node_mask_to_free(hs, nr_nodes, node, mask)			\
	for (nr_nodes = nodes_weight(*(mask));					\
	     nr_nodes > 0 && ((node = hstate_next_node_to_free(hs, mask)) || 1);	\
	     nr_nodes--)

void init_new_hugetlb_folio(struct folio *folio);
void prep_and_add_allocated_folios(struct hstate *h, struct list_head *folio_list);

#endif /* _MM_HUGETLB_INTERNAL_H */
