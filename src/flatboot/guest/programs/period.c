// SPDX-License-Identifier: GPL-2.0
/*
 * A task that wants to run each millisecond, and how late it does.
 *
 *	period NAME MILLISECONDS
 *
 * It is an ordinary task. Results, in nanoseconds after the time it wanted:
 *	period.NAME.median
 *	period.NAME.p99
 *	period.NAME.worst
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "files.h"
#include "guest.h"

#define PERIOD_NS 1000000L
#define SECOND_NS 1000000000L

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

static long since(const struct timespec *wanted)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - wanted->tv_sec) * SECOND_NS + now.tv_nsec -
	       wanted->tv_nsec;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 0;
	struct timespec wanted;
	long *late;

	if (count < 1) {
		fputs("usage: period NAME MILLISECONDS\n", stderr);
		return 2;
	}
	late = calloc((size_t)count, sizeof(*late));
	if (!late)
		fail("memory");
	/* Otherwise a timer may be 50 us late for the sake of others. */
	prctl(PR_SET_TIMERSLACK, 1);
	clock_gettime(CLOCK_MONOTONIC, &wanted);
	for (long i = 0; i < count; i++) {
		wanted.tv_nsec += PERIOD_NS;
		wanted.tv_sec += wanted.tv_nsec / SECOND_NS;
		wanted.tv_nsec %= SECOND_NS;
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wanted,
				    NULL))
			fail("clock_nanosleep");
		late[i] = since(&wanted);
	}
	qsort(late, (size_t)count, sizeof(*late), by_size);
	printf(RESULT "period.%s.median=%ld\n", argv[1], late[count / 2]);
	printf(RESULT "period.%s.p99=%ld\n", argv[1], late[count * 99 / 100]);
	printf(RESULT "period.%s.worst=%ld\n", argv[1], late[count - 1]);
	return 0;
}
