/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM prezero

#if !defined(_TRACE_PREZERO_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PREZERO_H

#include <linux/tracepoint.h>

/**
 * prezero_block - a free block was cleared
 * @nid: its node
 * @pfn: its first page
 * @order: how many pages it has
 * @cleared: how many of them were not zeroed before
 */
TRACE_EVENT(prezero_block,

	TP_PROTO(int nid, unsigned long pfn, unsigned int order,
		 unsigned int cleared),

	TP_ARGS(nid, pfn, order, cleared),

	TP_STRUCT__entry(
		__field(unsigned long, pfn)
		__field(int, nid)
		__field(unsigned int, order)
		__field(unsigned int, cleared)
	),

	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->nid = nid;
		__entry->order = order;
		__entry->cleared = cleared;
	),

	TP_printk("nid=%d pfn=%#lx order=%u cleared=%u", __entry->nid,
		  __entry->pfn, __entry->order, __entry->cleared)
);

#endif /* _TRACE_PREZERO_H */

#include <trace/define_trace.h>
