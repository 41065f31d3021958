// SPDX-License-Identifier: GPL-2.0
/*
 * Fill the machine's memory up to where reclaim begins, check it, free it, and
 * fill it once more, unless once is enough.
 *
 *	fill 4k|thp THREADS [once]
 *
 * Each of THREADS threads is pinned to a CPU of its own. Memory is touched in
 * steps: a quarter of what is left above the low watermarks, at last 32 pages,
 * or one huge page with thp. The first step after which /proc/vmstat tells of
 * reclaim ends the fill. What reclaim finds then is a cushion of lazily freed
 * pages, so that nothing is killed. Every word of a page is written and
 * checked; it depends on the page and on its place in the page.
 *
 * Results, pages of the base size, times in ticks of the raw counter:
 *	fill.pages		filled when reclaim had begun
 *	fill.clean_pages	filled when it had not
 *	fill.listed		then free on the CPUs' lists, filled in batches
 *	fill.left		then free above the low watermarks
 *	fill.still_deferred	then deferred, in kB
 *	fill.short_left		as left, of the node that had the least left
 *	fill.short_deferred	pages still deferred on that node
 *	fill.touch_ticks	first write to each page of fill.pages
 *	fill.write_ticks	writing the rest of them
 *	fill.bad_words		words that did not hold their value
 *	fill.free_before, fill.free_after	kB free before and after
 *	fill.deferred_before, fill.deferred_after	Deferred likewise
 *	fill.vm.EVENT		what the fill added to a counter of /proc/vmstat
 *	refill.pages		filled the second time: seven eighths, as freed
 *				pages on other CPUs' lists are out of reach
 *	refill.touch_ticks	first write to each of them
 *	refill.bad_words	as above, the first word of each page
 *	refill.vm.EVENT		what the second fill added
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"

enum { PAGE = 4096, WORDS = PAGE / 8, HUGE_PAGES = 512, FINE_PAGES = 32 };
enum { MOST_THREADS = 64, MOST_EVENTS = 512, MOST_NODES = 64 };
enum work { TOUCH, WRITE, CHECK, CHECK_FIRST, END };

/* The counters that tell of reclaim, and those that are reported besides. */
static const char *const reclaim_events[] = {
	"pgscan_", "pgsteal_", "pageoutrun",	"allocstall",
	"kswapd_", "pswpout",  "slabs_scanned", "oom_kill",
};
static const char *const other_events[] = {
	"compact_", "thp_fault", "pgmigrate_", "deferred_init_", "pgfault",
};

struct event {
	char name[48];
	long value;
	int reclaim;
};

struct events {
	int count;
	struct event list[MOST_EVENTS];
};

static struct {
	uint64_t *memory;
	long unit, from, to;
	int threads;
	enum work work;
	pthread_barrier_t begin, end;
	long bad[MOST_THREADS];
} job;

static uint64_t seed(long page)
{
	return ((uint64_t)page + 1) * 0x9e3779b97f4a7c15;
}

static long work_on_page(enum work work, long page)
{
	volatile uint64_t *first = job.memory + page * WORDS;
	uint64_t *words = job.memory + page * WORDS;
	uint64_t value = seed(page);
	long bad = 0;

	switch (work) {
	case TOUCH:
		*first = value;
		break;
	case WRITE:
		for (int i = 1; i < WORDS; i++)
			words[i] = value + (uint64_t)i;
		break;
	case CHECK:
		for (int i = 0; i < WORDS; i++)
			bad += words[i] != value + (uint64_t)i;
		break;
	case CHECK_FIRST:
		bad = *first != value;
		break;
	case END:
		break;
	}
	return bad;
}

static void do_share(int thread)
{
	long units = (job.to - job.from) / job.unit;
	long page = job.from + units * thread / job.threads * job.unit;
	long end = job.from + units * (thread + 1) / job.threads * job.unit;

	for (; page < end; page++)
		job.bad[thread] += work_on_page(job.work, page);
}

static void *worker(void *argument)
{
	int thread = (int)(intptr_t)argument;

	for (;;) {
		pthread_barrier_wait(&job.begin);
		if (job.work == END)
			return NULL;
		do_share(thread);
		pthread_barrier_wait(&job.end);
	}
}

/* Do the work on pages from..to with all threads; the ticks that it took. */
static uint64_t run(enum work work, long from, long to)
{
	uint64_t start;

	job.work = work;
	job.from = from;
	job.to = to;
	start = counter();
	pthread_barrier_wait(&job.begin);
	do_share(0);
	pthread_barrier_wait(&job.end);
	return counter() - start;
}

static long bad_words(void)
{
	long sum = 0;

	for (int i = 0; i < job.threads; i++) {
		sum += job.bad[i];
		job.bad[i] = 0;
	}
	return sum;
}

static void start_threads(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t cpus;

	pthread_barrier_init(&job.begin, NULL, (unsigned int)job.threads);
	pthread_barrier_init(&job.end, NULL, (unsigned int)job.threads);
	for (int i = job.threads - 1; i >= 0; i--) {
		CPU_ZERO(&cpus);
		CPU_SET(i, &cpus);
		if (i == 0) {
			if (sched_setaffinity(0, sizeof(cpus), &cpus))
				fail("sched_setaffinity");
			break;
		}
		pthread_attr_init(&attributes);
		pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
		if (pthread_create(&thread, &attributes, worker,
				   (void *)(intptr_t)i))
			fail("pthread_create");
	}
}

/* Read a file whole without allocating memory for it here. */
static int matches(const char *name, const char *const *prefixes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return 1;
	return 0;
}

#define MATCHES(name, list) \
	matches(name, list, sizeof(list) / sizeof((list)[0]))

static void read_events(struct events *events)
{
	char *line = text_of("/proc/vmstat");

	events->count = 0;
	for (; *line && events->count < MOST_EVENTS;
	     line += strcspn(line, "\n") + 1) {
		struct event *event = &events->list[events->count];

		if (sscanf(line, "%47s %ld", event->name, &event->value) != 2)
			break;
		event->reclaim = MATCHES(event->name, reclaim_events);
		if (event->reclaim || MATCHES(event->name, other_events))
			events->count++;
	}
}

static int reclaim_began(const struct events *before)
{
	static struct events now;

	read_events(&now);
	for (int i = 0; i < now.count; i++)
		if (now.list[i].reclaim &&
		    now.list[i].value != before->list[i].value)
			return 1;
	return 0;
}

static void report_events(const char *key, const struct events *before)
{
	static struct events now;

	read_events(&now);
	for (int i = 0; i < now.count; i++)
		if (now.list[i].value != before->list[i].value)
			printf(RESULT "%s.vm.%s=%ld\n", key, now.list[i].name,
			       now.list[i].value - before->list[i].value);
}

static long meminfo(const char *key)
{
	return number("/proc/meminfo", key);
}

/* Free pages on the CPUs' own lists. */
static long listed_pages(void)
{
	long pages = 0, value;

	for (char *line = text_of("/proc/zoneinfo"); *line;
	     line += strcspn(line, "\n") + 1)
		if (sscanf(line, " count: %ld", &value) == 1)
			pages += value;
	return pages;
}

static long free_kb(void)
{
	return meminfo("MemFree:") + listed_pages() * (PAGE / 1024);
}

/*
 * What a node, or all of them, can still give user space before a low watermark
 * wakes kswapd, and what is deferred of it, in pages.
 */
struct room {
	long left, deferred;
};

/* Read the room of all nodes and, into @shortest, of the node with the least.
 */
static struct room read_room(struct room *shortest)
{
	struct room nodes[MOST_NODES] = { 0 }, all = { 0 };
	long free = 0, low = 0, value, present = 0;
	int node = 0, count = 0;

	for (char *line = text_of("/proc/zoneinfo"); *line;
	     line += strcspn(line, "\n") + 1) {
		if (sscanf(line, "Node %d", &node) == 1) {
			node = node < MOST_NODES ? node : MOST_NODES - 1;
			count = node + 1;
			present = 0;
		} else if (sscanf(line, " pages free %ld", &value) == 1) {
			free = value;
		} else if (sscanf(line, " low %ld", &value) == 1) {
			low = value;
		} else if (sscanf(line, " present %ld", &value) == 1) {
			present = value;
		} else if (present &&
			   !strncmp(line, "        protection: (", 21)) {
			/* What the highest zone's users must leave. */
			char *last = line + strcspn(line, ")");

			while (last[-1] >= '0' && last[-1] <= '9')
				last--;
			value = free - low - atol(last);
			nodes[node].left += value > 0 ? value : 0;
		} else if (sscanf(line, " nr_deferred %ld", &value) == 1) {
			nodes[node].deferred += value;
		}
	}
	*shortest = nodes[0];
	for (int i = 0; i < count; i++) {
		all.left += nodes[i].left;
		all.deferred += nodes[i].deferred;
		if (nodes[i].left < shortest->left)
			*shortest = nodes[i];
	}
	return all;
}

static char *map(size_t size)
{
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	return area;
}

static void map_memory(size_t size)
{
	char *area = map(size + (2 << 20));

	area += -(uintptr_t)area & ((2 << 20) - 1);
	job.memory = (uint64_t *)area;
}

static void lay_cushion(void)
{
	size_t size = 16 << 20;
	char *area = map(size);

	if (madvise(area, size, MADV_NOHUGEPAGE))
		fail("madvise");
	memset(area, 1, size);
	if (madvise(area, size, MADV_FREE))
		fail("madvise");
}

static long fill(long most)
{
	static struct events before;
	uint64_t touch = 0, write = 0;
	long pages = 0, clean = 0, listed = 0;
	struct room shortest, room = read_room(&shortest);
	int reclaim = 0;

	read_events(&before);
	printf(RESULT "fill.free_before=%ld\n", free_kb());
	printf(RESULT "fill.deferred_before=%ld\n", meminfo("Deferred:"));
	while (!reclaim && pages < most) {
		long fine = job.unit == 1 ? FINE_PAGES : job.unit;
		long step = room.left / 4 / job.unit * job.unit;

		step = step < fine ? fine : step;
		step = step < most - pages ? step : most - pages;
		touch += run(TOUCH, pages, pages + step);
		/* Let kswapd run if it was woken. */
		nap(2);
		reclaim = reclaim_began(&before);
		listed = listed_pages();
		room = read_room(&shortest);
		write += run(WRITE, pages, pages + step);
		clean = reclaim ? pages : pages + step;
		pages += step;
	}
	printf(RESULT "fill.pages=%ld\n", pages);
	printf(RESULT "fill.clean_pages=%ld\n", clean);
	printf(RESULT "fill.reclaim=%d\n", reclaim);
	printf(RESULT "fill.listed=%ld\n", listed);
	printf(RESULT "fill.left=%ld\n", room.left);
	printf(RESULT "fill.still_deferred=%ld\n",
	       room.deferred * (PAGE / 1024));
	printf(RESULT "fill.short_left=%ld\n", shortest.left);
	printf(RESULT "fill.short_deferred=%ld\n", shortest.deferred);
	report_events("fill", &before);
	run(CHECK, 0, pages);
	printf(RESULT "fill.touch_ticks=%llu\n", (unsigned long long)touch);
	printf(RESULT "fill.write_ticks=%llu\n", (unsigned long long)write);
	printf(RESULT "fill.bad_words=%ld\n", bad_words());
	return clean;
}

static void refill(long pages)
{
	static struct events before;

	read_events(&before);
	printf(RESULT "refill.pages=%ld\n", pages);
	printf(RESULT "refill.touch_ticks=%llu\n",
	       (unsigned long long)run(TOUCH, 0, pages));
	report_events("refill", &before);
	run(CHECK_FIRST, 0, pages);
	printf(RESULT "refill.bad_words=%ld\n", bad_words());
}

int main(int argc, char **argv)
{
	size_t size;
	long pages;
	int huge, once;

	once = argc == 4 && !strcmp(argv[3], "once");
	if (argc != 3 + once ||
	    (strcmp(argv[1], "4k") && strcmp(argv[1], "thp"))) {
		fprintf(stderr, "usage: fill 4k|thp THREADS [once]\n");
		return 2;
	}
	huge = !strcmp(argv[1], "thp");
	job.unit = huge ? HUGE_PAGES : 1;
	job.threads = atoi(argv[2]);
	if (job.threads < 1 || job.threads > MOST_THREADS) {
		fprintf(stderr, "fill: 1 to %d threads\n", MOST_THREADS);
		return 2;
	}
	/* khugepaged would take memory of its own while the fill goes on. */
	put(THP "khugepaged/scan_sleep_millisecs", "4000000000");
	put(THP "enabled", huge ? "always" : "never");
	start_threads();
	lay_cushion();

	size = (size_t)meminfo("MemTotal:") << 10;
	size = (size + (2 << 20) - 1) & ~(size_t)((2 << 20) - 1);
	map_memory(size);
	pages = fill((long)(size / PAGE));
	munmap(job.memory, size);
	/* Page tables are freed behind RCU. */
	nap(500);
	printf(RESULT "fill.free_after=%ld\n", free_kb());
	printf(RESULT "fill.deferred_after=%ld\n", meminfo("Deferred:"));
	if (!once) {
		map_memory(size);
		refill(pages / 8 / job.unit * 7 * job.unit);
		munmap(job.memory, size);
	}
	job.work = END;
	pthread_barrier_wait(&job.begin);
	return 0;
}
