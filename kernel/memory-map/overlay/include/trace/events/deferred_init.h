/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM deferred_init

#if !defined(_TRACE_DEFERRED_INIT_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_DEFERRED_INIT_H

#include <linux/tracepoint.h>

TRACE_EVENT(deferred_init_block,

	TP_PROTO(int nid, unsigned long pfn, unsigned long nr_pages, bool demand),

	TP_ARGS(nid, pfn, nr_pages, demand),

	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, pfn)
		__field(unsigned long, nr_pages)
		__field(bool, demand)
	),

	TP_fast_assign(
		__entry->nid = nid;
		__entry->pfn = pfn;
		__entry->nr_pages = nr_pages;
		__entry->demand = demand;
	),

	TP_printk("nid=%d pfn=0x%lx nr_pages=%lu %s",
		  __entry->nid, __entry->pfn, __entry->nr_pages,
		  __entry->demand ? "demand" : "background")
);

TRACE_EVENT(deferred_init_done,

	TP_PROTO(unsigned long nr_pages),

	TP_ARGS(nr_pages),

	TP_STRUCT__entry(
		__field(unsigned long, nr_pages)
	),

	TP_fast_assign(
		__entry->nr_pages = nr_pages;
	),

	TP_printk("nr_pages=%lu", __entry->nr_pages)
);

#endif /* _TRACE_DEFERRED_INIT_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
