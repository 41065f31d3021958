// SPDX-License-Identifier: GPL-2.0
/*
 * Touch MIB of fresh memory page by page, and tell how long each touch took.
 *
 *	latency MIB [4k|thp [THREADS [PAUSE]]]
 *
 * Each of THREADS threads is pinned to a CPU of its own and touches its share.
 * With thp the pages are huge ones. After each MiB a thread sleeps for PAUSE
 * milliseconds.
 *
 * Results, times in ticks of the raw counter:
 *	latency.pages	pages touched
 *	latency.worst	the longest touch
 *	latency.2^N	touches that took at least 2^N and less than 2^(N+1)
 *	latency.left_out	touches in which the CPU went to another task,
 *				which the others do not count
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/resource.h>

#include "guest.h"
#include "places.h"

enum { PAGE = 4096, HUGE = 2 << 20, CLASSES = 64, MOST_THREADS = 64 };
enum { MIB = 1 << 20, MS_IN_NS = 1000000 };

struct share {
	char *from, *to;
	uint64_t worst;
	unsigned long left_out;
	unsigned long count[CLASSES];
};

/*
 * Let the other CPUs run: an emulator that counts instructions runs one at a
 * time, and may leave a busy one with the turn for long.
 */
static void relax(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause");
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static unsigned long step = PAGE;
static struct timespec pause_time;
static pthread_barrier_t begin;

/* How often the CPU was taken from the calling thread. */
static long preempted(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

static void *touch(void *argument)
{
	struct share *share = argument;
	long before;

	pthread_barrier_wait(&begin);
	before = preempted();
	for (char *at = share->from; at < share->to; at += step) {
		uint64_t start = counter(), took;
		long after;

		*(volatile char *)at = 1;
		took = counter() - start;
		after = preempted();
		if (after == before) {
			if (took > share->worst)
				share->worst = took;
			share->count[63 - __builtin_clzll(took | 1)]++;
		} else {
			share->left_out++;
		}
		before = after;
		relax();
		if (pause_time.tv_nsec && (at - share->from) % MIB == 0)
			nanosleep(&pause_time, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct share shares[MOST_THREADS];
	unsigned long size = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	int huge = argc > 2 && !strcmp(argv[2], "thp");
	int threads = argc > 3 ? atoi(argv[3]) : 1;
	int pause_ms = argc > 4 ? atoi(argv[4]) : 0;
	pthread_t others[MOST_THREADS];
	unsigned long part;
	char *memory;

	if (size == 0 || threads < 1 || threads > MOST_THREADS ||
	    pause_ms < 0 || pause_ms > 999 ||
	    (argc > 2 && !huge && strcmp(argv[2], "4k"))) {
		fprintf(stderr,
			"usage: latency MIB [4k|thp [THREADS [PAUSE]]]\n");
		return 2;
	}
	pause_time.tv_nsec = (long)pause_ms * MS_IN_NS;
	step = huge ? HUGE : PAGE;
	memory = aligned_area(size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	part = size / threads / step * step;
	pthread_barrier_init(&begin, NULL, threads);
	/* A thread starts on the CPU that its maker is pinned to. */
	for (int i = threads - 1; i >= 0; i--) {
		shares[i].from = memory + part * i;
		shares[i].to = shares[i].from + part;
		pin(i);
		if (i && pthread_create(&others[i], NULL, touch, &shares[i])) {
			fprintf(stderr, "latency: no thread\n");
			return 1;
		}
	}
	touch(&shares[0]);
	for (int i = 1; i < threads; i++) {
		pthread_join(others[i], NULL);
		if (shares[i].worst > shares[0].worst)
			shares[0].worst = shares[i].worst;
		shares[0].left_out += shares[i].left_out;
		for (int class = 0; class < CLASSES; class ++)
			shares[0].count[class] += shares[i].count[class];
	}
	printf(RESULT "latency.pages=%lu\n", part * threads / step);
	printf(RESULT "latency.worst=%llu\n",
	       (unsigned long long)shares[0].worst);
	printf(RESULT "latency.left_out=%lu\n", shares[0].left_out);
	for (int class = 0; class < CLASSES; class ++)
		if (shares[0].count[class])
			printf(RESULT "latency.2^%d=%lu\n", class,
			       shares[0].count[class]);
	return 0;
}
