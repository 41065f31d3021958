// SPDX-License-Identifier: GPL-2.0
/*
 * Wait for pages that are cleared ahead of time, and use memory in the ways in
 * which it has to read as zero.
 *
 *	zeroed wait
 *	zeroed touch KEY WAY MIB
 *	zeroed faults KEY 4k|thp THREADS MIB
 *	zeroed busy KEY THREADS
 *	zeroed idle KEY SECONDS
 *	zeroed scatter KEY MIB
 *	zeroed run KEY PROGRAM [ARGUMENT...]
 *	zeroed stress SECONDS THREADS MIB
 *
 * WAY is one of 4k, 64k, thp (touched pages), any (touched pages of the sizes
 * that the machine is set to), shmem (a touched memfd), populate, mlock,
 * huge-2m, huge-1g (touched pages of hugetlb pools) and fallocate (a hugetlbfs
 * file of 2 MiB pages).
 *
 * wait returns when nothing was cleared for a second and a half of the guest's
 * time. touch maps MIB, gets all of its pages in one way, checks that every
 * word is zero, writes every word, so that what it frees is not, and frees it.
 * faults touches MIB in THREADS threads at once. busy runs THREADS threads that
 * count to the same number each, and on until all have. idle sleeps. scatter
 * uses MIB in pieces of all sizes for a while, with pauses, frees half, and
 * asks for the rest of the memory as huge pages. run runs a program. stress
 * touches memory again and again, in THREADS threads, each an area of up to
 * MIB, all ways but huge-1g in turn; those of pools if there is one of 2 MiB
 * pages, which must be large enough for all threads.
 *
 * Results, times in ticks of the raw counter:
 *	zeroed.wait_ticks	how long wait took
 *	zeroed.most_ticks	until nine tenths of what is free were zeroed
 *	zeroed.free		pages in free blocks that are all zeroed, then
 *	zeroed.all_free		free pages, then
 *	KEY.ticks		getting the pages, or how long the program ran
 *	KEY.free_ticks		giving them back
 *	KEY.pages		how many there were, of the base size
 *	KEY.bad_words		words that were not zero
 *	KEY.EVENT		what that added to prezero_EVENT of /proc/vmstat
 *	KEY.faults		faults of all threads
 *	KEY.worst_ticks		the longest of them
 *	KEY.busy_ticks		how long counting took, all threads together
 *	KEY.cleared		pages that were cleared while threads counted
 *	KEY.wakeups		how often a thread that clears ran meanwhile
 *	KEY.huge		huge pages that scatter got
 *	KEY.small		and how often it got small ones instead
 *	KEY.order_N		free blocks of order N that it left
 *	stress.rounds		areas that were used
 *	stress.bad_words	words that were not zero
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define FREE "/sys/kernel/mm/prezero/free_pages"
#define THP "/sys/kernel/mm/transparent_hugepage/"

enum {
	PAGE = 4096,
	HUGE = 2 << 20,
	GIGANTIC = 1 << 30,
	MOST_THREADS = 64,
	STEP_MS = 100,
	QUIET = 15,
	SETTLE_MS = 10000,
	COUNT = 200000000,
	AREAS = 4096,
	ROUNDS = 16384,
	MOST_ORDER = 10
};

enum { ZEROED, TAKEN, MISSED, WASTED, EVENTS };

static const char *const events[EVENTS] = {
	"prezero_zeroed ",
	"prezero_taken ",
	"prezero_missed ",
	"prezero_wasted ",
};

/* How the pages of a mapping are got. */
enum way { TOUCH, POPULATE, LOCK, ALLOCATE };

static const struct kind {
	const char *name;
	int advice;
	enum way way;
	int file;
	int pool; /* flags that mmap() and memfd_create() share */
	size_t step;
} kinds[] = {
	{ "4k", MADV_NOHUGEPAGE, TOUCH, 0, 0, PAGE },
	{ "64k", 0, TOUCH, 0, 0, PAGE },
	{ "any", 0, TOUCH, 0, 0, PAGE },
	{ "thp", MADV_HUGEPAGE, TOUCH, 0, 0, HUGE },
	{ "shmem", 0, TOUCH, 1, 0, PAGE },
	{ "populate", MADV_NOHUGEPAGE, POPULATE, 0, 0, PAGE },
	{ "mlock", MADV_NOHUGEPAGE, LOCK, 0, 0, PAGE },
	{ "huge-2m", 0, TOUCH, 0, MAP_HUGE_2MB, HUGE },
	{ "fallocate", 0, ALLOCATE, 1, MAP_HUGE_2MB, HUGE },
	{ "huge-1g", 0, TOUCH, 0, MAP_HUGE_1GB, GIGANTIC },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), HUGE_KINDS = 2 };

static uint64_t dirt(uint64_t word)
{
	return (word + 1) * 0x9e3779b97f4a7c15;
}

/* An aligned area of fresh memory; the file behind it, or -1. */
static char *map(const struct kind *kind, size_t size, int *fd)
{
	int flags = kind->file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	unsigned int pool = kind->pool ? MFD_HUGETLB | (unsigned)kind->pool : 0;
	char *base, *at;

	*fd = kind->file ? memfd_create("zeroed", pool) : -1;
	if (kind->file && (*fd < 0 || ftruncate(*fd, (off_t)size)))
		fail("zeroed: memfd");
	if (kind->pool && !kind->file)
		flags |= MAP_HUGETLB | kind->pool;
	base = mmap(NULL, size + kind->step + HUGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		fail("zeroed: mmap");
	at = base + HUGE + kind->step - 1;
	at -= (uintptr_t)at % (kind->step > HUGE ? kind->step : HUGE);
	munmap(base, (size_t)(at - base));
	munmap(at + size, (size_t)(base + kind->step + HUGE - at));
	if (mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, *fd, 0) !=
	    at)
		fail("zeroed: mmap");
	if (kind->advice && madvise(at, size, kind->advice))
		fail("zeroed: madvise");
	return at;
}

static void unmap(char *at, size_t size, int fd)
{
	munmap(at, size);
	if (fd >= 0)
		close(fd);
}

static void get(const struct kind *kind, char *at, size_t size, int fd)
{
	switch (kind->way) {
	case TOUCH:
		/* The last word: what is before it must be zero as well. */
		for (size_t i = kind->step; i <= size; i += kind->step)
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
	case ALLOCATE:
		if (fallocate(fd, 0, 0, (off_t)size))
			fail("zeroed: fallocate");
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

static const struct kind *kind_of(const char *name)
{
	for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
		if (!strcmp(kind->name, name))
			return kind;
	fprintf(stderr, "zeroed: %s is not a way to get memory\n", name);
	exit(2);
}

static void touch(const char *key, const char *name, size_t size)
{
	const struct kind *kind = kind_of(name);
	long before[EVENTS], after[EVENTS];
	uint64_t ticks, free_ticks;
	unsigned long bad;
	char *at;
	int fd;

	if (!strcmp(name, "64k")) {
		put(THP "hugepages-2048kB/enabled", "never");
		put(THP "hugepages-64kB/enabled", "always");
	}
	at = map(kind, size, &fd);
	read_events(before);
	ticks = counter();
	get(kind, at, size, fd);
	ticks = counter() - ticks;
	read_events(after);
	bad = soil(at, size);
	free_ticks = counter();
	unmap(at, size, fd);
	free_ticks = counter() - free_ticks;
	if (!strcmp(name, "64k")) {
		put(THP "hugepages-64kB/enabled", "never");
		put(THP "hugepages-2048kB/enabled", "inherit");
	}
	printf(RESULT "%s.ticks=%llu\n", key, (unsigned long long)ticks);
	printf(RESULT "%s.free_ticks=%llu\n", key,
	       (unsigned long long)free_ticks);
	printf(RESULT "%s.pages=%zu\n", key, size / PAGE);
	printf(RESULT "%s.bad_words=%lu\n", key, bad);
	for (int i = 0; i < EVENTS; i++) {
		const char *event = strchr(events[i], '_') + 1;

		printf(RESULT "%s.%.*s=%ld\n", key, (int)strcspn(event, " "),
		       event, after[i] - before[i]);
	}
}

static struct toucher {
	pthread_t thread;
	pthread_barrier_t *begin;
	char *at;
	size_t size, step;
	uint64_t first, last, worst;
} touchers[MOST_THREADS];

static void *touch_part(void *argument)
{
	struct toucher *toucher = argument;

	pthread_barrier_wait(toucher->begin);
	toucher->first = counter();
	for (size_t i = 0; i < toucher->size; i += toucher->step) {
		uint64_t ticks = counter();

		((volatile char *)toucher->at)[i] = 1;
		ticks = counter() - ticks;
		if (ticks > toucher->worst)
			toucher->worst = ticks;
	}
	toucher->last = counter();
	return NULL;
}

static void faults(const char *key, const char *name, int threads, size_t size)
{
	size_t part = size / (size_t)threads & ~(size_t)(HUGE - 1);
	const struct kind *kind = kind_of(name);
	pthread_barrier_t begin;
	uint64_t first = UINT64_MAX, last = 0, worst = 0;
	int fd;

	if (kind->way != TOUCH || kind->file || kind->pool || !part)
		fail("zeroed: faults");
	pthread_barrier_init(&begin, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		touchers[i] = (struct toucher){ .begin = &begin,
						.at = map(kind, part, &fd),
						.size = part,
						.step = kind->step };
		if (pthread_create(&touchers[i].thread, NULL, touch_part,
				   &touchers[i]))
			fail("zeroed: pthread_create");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(touchers[i].thread, NULL);
		if (touchers[i].first < first)
			first = touchers[i].first;
		if (touchers[i].last > last)
			last = touchers[i].last;
		if (touchers[i].worst > worst)
			worst = touchers[i].worst;
		munmap(touchers[i].at, part);
	}
	printf(RESULT "%s.ticks=%llu\n", key,
	       (unsigned long long)(last - first));
	printf(RESULT "%s.faults=%zu\n", key,
	       part / kind->step * (size_t)threads);
	printf(RESULT "%s.worst_ticks=%llu\n", key, (unsigned long long)worst);
}

static long zeroed_pages(void)
{
	return access(FREE, R_OK) ? 0 : number(FREE, "");
}

static void await(void)
{
	long last = -1, now;
	uint64_t begin = counter(), quiet = begin, most = 0;

	for (int same = 0; same < QUIET;
	     same = now == last ? same + 1 : 0, last = now) {
		nap(STEP_MS);
		now = number("/proc/vmstat", "prezero_zeroed ");
		if (now != last)
			quiet = counter();
		if (!most &&
		    zeroed_pages() >=
			    number("/proc/vmstat", "nr_free_pages ") * 9 / 10)
			most = counter();
	}
	printf(RESULT "zeroed.wait_ticks=%llu\n",
	       (unsigned long long)(quiet - begin));
	printf(RESULT "zeroed.most_ticks=%llu\n",
	       (unsigned long long)(most ? most - begin : 0));
	printf(RESULT "zeroed.free=%ld\n", zeroed_pages());
	printf(RESULT "zeroed.all_free=%ld\n",
	       number("/proc/vmstat", "nr_free_pages "));
}

static atomic_int counting;

/* Nobody leaves a CPU idle before all are done. */
static void *count(void *argument)
{
	for (volatile long i = 0; i < COUNT; i++)
		;
	counting--;
	while (counting)
		;
	return argument;
}

static void busy(const char *key, int threads)
{
	long before[EVENTS], after[EVENTS];
	pthread_t thread[MOST_THREADS];
	uint64_t ticks;

	counting = threads;
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

	/*
	 * What starting this program freed is cleared first, and what the lists
	 * of CPUs give back, which takes them some seconds. To look takes
	 * memory as well, which is kept for the next time.
	 */
	switches();
	nap(SETTLE_MS);
	before = switches();
	nap(seconds * 1000L);
	printf(RESULT "%s.wakeups=%ld\n", key, switches() - before);
}

/*
 * A machine in use: areas of many sizes live for many lengths of time, partly
 * freed, with pauses in which free pages may be cleared. Then: how much of it
 * is there in huge pages?
 */
static void scatter(const char *key, size_t size)
{
	static struct area {
		char *at;
		size_t size;
	} areas[AREAS];
	const struct kind *small = kind_of("4k"), *huge = kind_of("thp");
	long before[2], after[2];
	unsigned int seed = 1;
	size_t used = 0;
	char *line, *at;
	int fd;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct area *area = &areas[(size_t)rand_r(&seed) % AREAS];

		if (area->at) {
			munmap(area->at, area->size);
			used -= area->size;
			area->at = NULL;
		}
		area->size = ((size_t)rand_r(&seed) % 512 + 1) * PAGE;
		if (used + area->size > size)
			continue;
		area->at = map(small, area->size, &fd);
		get(small, area->at, area->size, fd);
		used += area->size;
		/* What remains of it lies between the holes. */
		for (size_t i = 0; i + 16 * PAGE < area->size; i += 32 * PAGE)
			if (madvise(area->at + i, 16 * PAGE, MADV_DONTNEED))
				fail("zeroed: MADV_DONTNEED");
		if (round % 256 == 255)
			nap(STEP_MS);
	}
	for (size_t i = 0; i < AREAS; i += 2)
		if (areas[i].at)
			munmap(areas[i].at, areas[i].size);
	line = strstr(text_of("/proc/buddyinfo"), "Normal");
	if (!line)
		fail("zeroed: no zone Normal");
	strtok(line, " ");
	for (int order = 0; order <= MOST_ORDER; order++)
		printf(RESULT "%s.order_%d=%s\n", key, order,
		       strtok(NULL, " \n"));
	before[0] = number("/proc/vmstat", "thp_fault_alloc ");
	before[1] = number("/proc/vmstat", "thp_fault_fallback ");
	size = (size_t)number("/proc/meminfo", "MemAvailable:") * 972;
	size &= ~(size_t)(HUGE - 1);
	at = map(huge, size, &fd);
	get(huge, at, size, fd);
	munmap(at, size);
	after[0] = number("/proc/vmstat", "thp_fault_alloc ");
	after[1] = number("/proc/vmstat", "thp_fault_fallback ");
	printf(RESULT "%s.huge=%ld\n", key, after[0] - before[0]);
	printf(RESULT "%s.small=%ld\n", key, after[1] - before[1]);
}

static void run(const char *key, char **program)
{
	uint64_t ticks = counter();
	int status;
	pid_t pid = fork();

	if (!pid) {
		execvp(program[0], program);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fail(program[0]);
	printf(RESULT "%s.ticks=%llu\n", key,
	       (unsigned long long)(counter() - ticks));
}

static atomic_ulong stress_bad, stress_rounds;
static atomic_int stress_end;
static size_t stress_size;
static unsigned int stress_kinds;

static void *stress_one(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;

	for (unsigned int round = 0; !stress_end; round++) {
		const struct kind *kind = &kinds[(round + seed) % stress_kinds];
		size_t size =
			((size_t)rand_r(&seed) % (stress_size / PAGE) + 1) *
			PAGE;
		size_t part = size / 2 & ~(size_t)(PAGE - 1);
		char *at;
		int fd;

		if (kind->step == HUGE)
			size = (size + HUGE - 1) & ~(size_t)(HUGE - 1);
		at = map(kind, size, &fd);
		get(kind, at, size, fd);
		stress_bad += soil(at, size);
		/* A hole that is used again reads as zero as well. */
		if (part && !kind->file && !kind->pool && kind->way != LOCK) {
			if (madvise(at, part, MADV_DONTNEED))
				fail("zeroed: MADV_DONTNEED");
			stress_bad += soil(at, part);
		}
		unmap(at, size, fd);
		stress_rounds++;
	}
	return NULL;
}

static void stress(int seconds, int threads, size_t size)
{
	pthread_t thread[MOST_THREADS];

	stress_size = size;
	stress_kinds = KINDS - 1;
	if (!number("/proc/meminfo", "HugePages_Total:"))
		stress_kinds -= HUGE_KINDS;
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
	} else if (argc == 6 && !strcmp(argv[1], "faults") &&
		   atoi(argv[4]) > 0 && atoi(argv[4]) <= MOST_THREADS) {
		faults(argv[2], argv[3], atoi(argv[4]),
		       (size_t)atol(argv[5]) << 20);
	} else if (argc == 4 && !strcmp(argv[1], "scatter")) {
		scatter(argv[2], (size_t)atol(argv[3]) << 20);
	} else if (argc > 3 && !strcmp(argv[1], "run")) {
		run(argv[2], argv + 3);
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
