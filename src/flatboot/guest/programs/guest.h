/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs that run inside a measured guest share. */
#ifndef FLATBOOT_GUEST_H
#define FLATBOOT_GUEST_H

#include <stdint.h>

/*
 * Read the raw counter: on the exact clock one tick is one instruction on
 * x86-64 and sixteen on arm64.
 */
static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
#else
#error "no counter is known for this architecture"
#endif
}

/*
 * A program reports a result by printing a line "flatboot: KEY=VALUE"; it is
 * found in the record's results under KEY.
 */
#define RESULT "flatboot: "

#endif
