/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM cpu_group

#if !defined(_TRACE_CPU_GROUP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_CPU_GROUP_H

#include <linux/tracepoint.h>

TRACE_EVENT(cpu_group_begin,

	TP_PROTO(unsigned int first, unsigned int cpus),

	TP_ARGS(first, cpus),

	TP_STRUCT__entry(
		__field(unsigned int, first)
		__field(unsigned int, cpus)
	),

	TP_fast_assign(
		__entry->first = first;
		__entry->cpus = cpus;
	),

	TP_printk("first=%u cpus=%u", __entry->first, __entry->cpus)
);

TRACE_EVENT(cpu_group_waited,

	TP_PROTO(unsigned int left),

	TP_ARGS(left),

	TP_STRUCT__entry(
		__field(unsigned int, left)
	),

	TP_fast_assign(
		__entry->left = left;
	),

	TP_printk("left=%u", __entry->left)
);

TRACE_EVENT(cpu_group_end,

	TP_PROTO(unsigned int first, unsigned int up, unsigned int failed, u64 locked_ns),

	TP_ARGS(first, up, failed, locked_ns),

	TP_STRUCT__entry(
		__field(unsigned int, first)
		__field(unsigned int, up)
		__field(unsigned int, failed)
		__field(u64, locked_ns)
	),

	TP_fast_assign(
		__entry->first = first;
		__entry->up = up;
		__entry->failed = failed;
		__entry->locked_ns = locked_ns;
	),

	TP_printk("first=%u up=%u failed=%u locked_ns=%llu", __entry->first,
		  __entry->up, __entry->failed, __entry->locked_ns)
);

#endif /* _TRACE_CPU_GROUP_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
