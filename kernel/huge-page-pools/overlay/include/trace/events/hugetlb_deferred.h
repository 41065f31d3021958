/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hugetlb_deferred

#if !defined(_TRACE_HUGETLB_DEFERRED_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_HUGETLB_DEFERRED_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(hugetlb_deferred_pages,

	TP_PROTO(int nid, unsigned int order, unsigned long pfn, unsigned long nr),

	TP_ARGS(nid, order, pfn, nr),

	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned int, order)
		__field(unsigned long, pfn)
		__field(unsigned long, nr)
	),

	TP_fast_assign(
		__entry->nid = nid;
		__entry->order = order;
		__entry->pfn = pfn;
		__entry->nr = nr;
	),

	TP_printk("nid=%d order=%u pfn=0x%lx nr=%lu",
		  __entry->nid, __entry->order, __entry->pfn, __entry->nr)
);

/* Huge pages are built: their struct pages are written, and they are in a free list. */
DEFINE_EVENT(hugetlb_deferred_pages, hugetlb_deferred_build,
	TP_PROTO(int nid, unsigned int order, unsigned long pfn, unsigned long nr),
	TP_ARGS(nid, order, pfn, nr)
);

/* Huge pages that were never built left their pool. */
DEFINE_EVENT(hugetlb_deferred_pages, hugetlb_deferred_release,
	TP_PROTO(int nid, unsigned int order, unsigned long pfn, unsigned long nr),
	TP_ARGS(nid, order, pfn, nr)
);

#endif /* _TRACE_HUGETLB_DEFERRED_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
