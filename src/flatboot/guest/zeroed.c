// SPDX-License-Identifier: GPL-2.0
/*
 * Wait for pages that are cleared ahead of time, and use memory in the ways in
 * which it has to read as zero.
 *
 *	zeroed wait
 *	zeroed touch KEY 4k|64k|thp|shmem|populate|mlock MIB
 *	zeroed busy KEY THREADS
 *	zeroed idle KEY SECONDS
 *	zeroed stress SECONDS THREADS MIB
 *
 * wait returns when nothing was cleared for half a second of the guest's time.
 * touch maps MIB, gets all of its pages in the way that it is told, checks that
 * every word is zero, writes every word, so that what it frees is not, and
 * frees it. busy runs THREADS threads that count to the same number each. idle
 * sleeps. stress does all of that again and again, in THREADS threads, each
 * with an area of up to MIB, all ways in turn.
 *
 * Results, times in ticks of the raw counter:
 *	zeroed.wait_ticks	how long wait took
 *	zeroed.free		pages in free blocks that are all zeroed, then
 *	zeroed.all_free		free pages, then
 *	KEY.ticks		getting the pages
 *	KEY.pages		how many there were, of the base size
 *	KEY.bad_words		words that were not zero
 *	KEY.EVENT		what that added to prezero_EVENT of /proc/vmstat
 *	KEY.busy_ticks		how long counting took, all threads together
 *	KEY.cleared		pages that were cleared while the threads
 *counted KEY.wakeups		how often a thread that clears ran while idle
 *slept stress.rounds		areas that were used stress.bad_words	words
 *that were not zero
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define FREE "/sys/kernel/mm/prezero/free_pages"
#define THP "/sys/kernel/mm/transparent_hugepage/"

enum {
	PAGE = 4096,
	HUGE = 2 << 20,
	MOST_THREADS = 64,
	STEP_MS = 100,
	QUIET = 5,
	SETTLE_MS = 3000,
	COUNT = 50000000
};

enum { ZEROED, TAKEN, MISSED, WASTED, EVENTS };

static const char *const events[EVENTS] = {
	"prezero_zeroed ",
	"prezero_taken ",
	"prezero_missed ",
	"prezero_wasted ",
};

/* How the pages of a mapping are got. */
enum way { TOUCH, POPULATE, LOCK };

static const struct kind {
	const char *name;
	int advice;
	enum way way;
	int file;
} kinds[] = {
	{ "4k", MADV_NOHUGEPAGE, TOUCH, 0 },
	{ "64k", 0, TOUCH, 0 },
	{ "thp", MADV_HUGEPAGE, TOUCH, 0 },
	{ "shmem", 0, TOUCH, 1 },
	{ "populate", MADV_NOHUGEPAGE, POPULATE, 0 },
	{ "mlock", MADV_NOHUGEPAGE, LOCK, 0 },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static uint64_t dirt(uint64_t word)
{
	return (word + 1) * 0x9e3779b97f4a7c15;
}

/* An aligned area of fresh memory. */
static char *map(const struct kind *kind, size_t size)
{
	int flags = kind->file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = kind->file ? memfd_create("zeroed", 0) : -1;
	char *base, *at;

	if (kind->file && (fd < 0 || ftruncate(fd, (off_t)size)))
		fail("zeroed: memfd");
	base = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (base == MAP_FAILED)
		fail("zeroed: mmap");
	at = (char *)(((uintptr_t)base + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	if (mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) !=
	    at)
		fail("zeroed: mmap");
	munmap(base, (size_t)(at - base));
	munmap(at + size, (size_t)(base + HUGE - at));
	if (fd >= 0)
		close(fd);
	if (kind->advice && madvise(at, size, kind->advice))
		fail("zeroed: madvise");
	return at;
}

static void get(const struct kind *kind, char *at, size_t size)
{
	size_t step = kind->advice == MADV_HUGEPAGE ? HUGE : PAGE;

	switch (kind->way) {
	case TOUCH:
		/* The last word: what is in front of it must be zero as well.
		 */
		for (size_t i = step; i <= size; i += step)
			((volatile uint64_t *)(at + i))[-1] = 0;
		break;
	case POPULATE:
		if (madvise(at, size, MADV_POPULATE_WRITE))
			fail("zeroed: MADV_POPULATE_WRITE");
		break;
	case LOCK:
		if (mlock(at, size))
			fail("zeroed: mlock");
		break;
	}
}

/* Count the words that are not zero, and leave none that is. */
static unsigned long soil(char *at, size_t size)
{
	volatile uint64_t *words = (volatile uint64_t *)at;
	unsigned long bad = 0;

	for (size_t i = 0; i < size / 8; i++) {
		bad += words[i] != 0;
		words[i] = dirt(i);
	}
	return bad;
}

static void read_events(long *values)
{
	char *text = text_of("/proc/vmstat");

	for (int i = 0; i < EVENTS; i++) {
		char *found = strstr(text, events[i]);

		values[i] = found ? atol(found + strlen(events[i])) : 0;
	}
}

static void touch(const char *key, const char *name, size_t size)
{
	long before[EVENTS], after[EVENTS];
	const struct kind *kind = kinds;
	unsigned long bad;
	uint64_t ticks;
	char *at;

	while (kind < kinds + KINDS && strcmp(kind->name, name))
		kind++;
	if (kind == kinds + KINDS) {
		fprintf(stderr, "zeroed: %s is not a way to get memory\n",
			name);
		exit(2);
	}
	if (!strcmp(name, "64k")) {
		put(THP "hugepages-2048kB/enabled", "never");
		put(THP "hugepages-64kB/enabled", "always");
	}
	at = map(kind, size);
	read_events(before);
	ticks = counter();
	get(kind, at, size);
	ticks = counter() - ticks;
	read_events(after);
	bad = soil(at, size);
	munmap(at, size);
	if (!strcmp(name, "64k")) {
		put(THP "hugepages-64kB/enabled", "never");
		put(THP "hugepages-2048kB/enabled", "inherit");
	}
	printf(RESULT "%s.ticks=%llu\n", key, (unsigned long long)ticks);
	printf(RESULT "%s.pages=%zu\n", key, size / PAGE);
	printf(RESULT "%s.bad_words=%lu\n", key, bad);
	for (int i = 0; i < EVENTS; i++) {
		const char *event = strchr(events[i], '_') + 1;

		printf(RESULT "%s.%.*s=%ld\n", key, (int)strcspn(event, " "),
		       event, after[i] - before[i]);
	}
}

static void await(void)
{
	long last = -1, now;
	uint64_t begin = counter(), quiet = begin;

	for (int same = 0; same < QUIET;
	     same = now == last ? same + 1 : 0, last = now) {
		nap(STEP_MS);
		now = number("/proc/vmstat", "prezero_zeroed ");
		if (now != last)
			quiet = counter();
	}
	printf(RESULT "zeroed.wait_ticks=%llu\n",
	       (unsigned long long)(quiet - begin));
	printf(RESULT "zeroed.free=%ld\n",
	       access(FREE, R_OK) ? 0 : number(FREE, ""));
	printf(RESULT "zeroed.all_free=%ld\n",
	       number("/proc/vmstat", "nr_free_pages "));
}

static void *count(void *argument)
{
	for (volatile long i = 0; i < COUNT; i++)
		;
	return argument;
}

static void busy(const char *key, int threads)
{
	long before[EVENTS], after[EVENTS];
	pthread_t thread[MOST_THREADS];
	uint64_t ticks;

	read_events(before);
	ticks = counter();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, count, NULL))
			fail("zeroed: pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	ticks = counter() - ticks;
	read_events(after);
	printf(RESULT "%s.busy_ticks=%llu\n", key, (unsigned long long)ticks);
	printf(RESULT "%s.cleared=%ld\n", key, after[ZEROED] - before[ZEROED]);
}

/* How often the threads that clear pages were switched to and from. */
static long switches(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char path[64];
	long sum = 0;

	if (!proc)
		fail("zeroed: /proc");
	while ((entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/status",
			 entry->d_name);
		if (strncmp(text_of(path), "Name:\tprezero", 13))
			continue;
		sum += number(path, "\nvoluntary_ctxt_switches:\t");
		sum += number(path, "nonvoluntary_ctxt_switches:\t");
	}
	closedir(proc);
	return sum;
}

static void idle(const char *key, int seconds)
{
	long before;

	/* What starting this program freed is cleared first. */
	nap(SETTLE_MS);
	before = switches();
	nap(seconds * 1000L);
	printf(RESULT "%s.wakeups=%ld\n", key, switches() - before);
}

static atomic_ulong stress_bad, stress_rounds;
static atomic_int stress_end;
static size_t stress_size;

static void *stress_one(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;

	for (unsigned int round = 0; !stress_end; round++) {
		const struct kind *kind = &kinds[(round + seed) % KINDS];
		size_t size =
			((size_t)rand_r(&seed) % (stress_size / PAGE) + 1) *
			PAGE;
		size_t part = size / 2 & ~(size_t)(PAGE - 1);
		char *at;

		if (kind->advice == MADV_HUGEPAGE)
			size = (size + HUGE - 1) & ~(size_t)(HUGE - 1);
		at = map(kind, size);
		get(kind, at, size);
		stress_bad += soil(at, size);
		/* A hole that is used again reads as zero as well. */
		if (part && !kind->file && kind->way != LOCK) {
			if (madvise(at, part, MADV_DONTNEED))
				fail("zeroed: MADV_DONTNEED");
			stress_bad += soil(at, part);
		}
		munmap(at, size);
		stress_rounds++;
	}
	return NULL;
}

static void stress(int seconds, int threads, size_t size)
{
	pthread_t thread[MOST_THREADS];

	stress_size = size;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, stress_one,
				   (void *)(uintptr_t)i))
			fail("zeroed: pthread_create");
	nap(seconds * 1000L);
	stress_end = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf(RESULT "stress.rounds=%lu\n", stress_rounds);
	printf(RESULT "stress.bad_words=%lu\n", stress_bad);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "wait")) {
		await();
	} else if (argc == 5 && !strcmp(argv[1], "touch")) {
		touch(argv[2], argv[3], (size_t)atol(argv[4]) << 20);
	} else if (argc == 4 && !strcmp(argv[1], "busy") && atoi(argv[3]) > 0 &&
		   atoi(argv[3]) <= MOST_THREADS) {
		busy(argv[2], atoi(argv[3]));
	} else if (argc == 4 && !strcmp(argv[1], "idle")) {
		idle(argv[2], atoi(argv[3]));
	} else if (argc == 5 && !strcmp(argv[1], "stress") &&
		   atoi(argv[3]) > 0 && atoi(argv[3]) <= MOST_THREADS &&
		   atol(argv[4]) > 0) {
		stress(atoi(argv[2]), atoi(argv[3]),
		       (size_t)atol(argv[4]) << 20);
	} else {
		fprintf(stderr,
			"zeroed: see the comment at the top of zeroed.c\n");
		return 2;
	}
	return 0;
}
