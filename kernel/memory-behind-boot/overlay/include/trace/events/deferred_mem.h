/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM deferred_mem

#if !defined(_TRACE_DEFERRED_MEM_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_DEFERRED_MEM_H

#include <linux/tracepoint.h>

TRACE_EVENT(deferred_mem_step,

	TP_PROTO(int nid, u64 start, u64 size, bool movable, u64 missing),

	TP_ARGS(nid, start, size, movable, missing),

	TP_STRUCT__entry(
		__field(int, nid)
		__field(u64, start)
		__field(u64, size)
		__field(bool, movable)
		__field(u64, missing)
	),

	TP_fast_assign(
		__entry->nid = nid;
		__entry->start = start;
		__entry->size = size;
		__entry->movable = movable;
		__entry->missing = missing;
	),

	TP_printk("nid=%d start=0x%llx size=0x%llx %s missing=0x%llx",
		  __entry->nid, __entry->start, __entry->size,
		  __entry->movable ? "movable" : "kernel", __entry->missing)
);

#endif /* _TRACE_DEFERRED_MEM_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
