// SPDX-License-Identifier: GPL-2.0
/*
 * Use memory in several ways at the same time, at random, and check what it
 * holds.
 *
 *	churn SEED JOB...
 *
 * Each JOB runs in a process of its own; PERCENT is a share of MemAvailable at
 * the start.
 *	4k:PROCESSES:PERCENT	fill, check, drop a part, fill that again, check
 *	thp:PROCESSES:PERCENT	the same with huge pages
 *	file:PERCENT		the same with a file in tmpfs, without dropping
 *	huge:PERCENT		a pool of huge pages grows, is filled, shrinks
 *	blocks:ROUNDS		memory blocks go offline and come back
 *	read:ROUNDS		read files that walk pages
 *	drop:ROUNDS		drop caches
 *	compact:ROUNDS		compact memory
 *	fork:ROUNDS		a bunch of processes comes and goes
 *	complete:MILLISECONDS	initialise the rest, after that time
 *
 * Results:
 *	churn.SEED.NUMBER	how job NUMBER ended: ok, or "status N"
 *	churn.SEED.bad_words	words that did not hold their value, or that
 *				were not zero in a fresh page
 *	churn.SEED.stranded	memory blocks that did not come back
 *	churn.SEED.offline	memory blocks that went offline
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define BLOCKS "/sys/devices/system/memory/"
#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"

enum { PAGE = 4096, WORDS = PAGE / 8, HUGE_PAGES = 512, MOST_JOBS = 16 };
enum { OFFLINE_S = 10, BLOCKS_S = 10, BUNCH = 8 };

static struct {
	atomic_long bad_words, stranded, offline;
} * sum;

static long available_kb;
static uint64_t state;

static uint64_t next_random(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static long below(long end)
{
	return (long)(next_random() % (uint64_t)end);
}

static void fail(const char *what)
{
	perror(what);
	_exit(2);
}

static void nap(long milliseconds)
{
	struct timespec time = { .tv_sec = milliseconds / 1000,
				 .tv_nsec = milliseconds % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static ssize_t put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	ssize_t wrote = fd < 0 ? -1 : write(fd, value, strlen(value));
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return wrote;
}

static void put_number(const char *path, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	if (put(path, text) < 0)
		fail(path);
}

/* The number in a file, after @key if that is given. */
static long number(const char *path, const char *key, int base)
{
	char text[8192] = "", *at = text;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		fail(path);
	close(fd);
	if (key)
		at = strstr(text, key);
	return at ? strtol(at + (key ? strlen(key) : 0), NULL, base) : 0;
}

static long share(long percent)
{
	return available_kb / (PAGE / 1024) * percent / 100;
}

/* A page's words hold @value + i; make them so, after a look at a fresh one. */
static void fill_page(uint64_t *page, uint64_t value)
{
	long bad = 0;

	/* The write comes first: a read would find the kernel's zero page. */
	((volatile uint64_t *)page)[0] = value;
	for (int i = 1; i < WORDS; i++) {
		bad += page[i] != 0;
		page[i] = value + (uint64_t)i;
	}
	sum->bad_words += bad;
}

static void check(uint64_t *memory, long pages, uint64_t key)
{
	long bad = 0;

	for (long page = 0; page < pages; page++)
		for (int i = 0; i < WORDS; i++)
			bad += memory[page * WORDS + i] !=
			       (key ^ (uint64_t)page << 20) + (uint64_t)i;
	sum->bad_words += bad;
}

static void fill(uint64_t *memory, long from, long to, uint64_t key)
{
	for (long page = from; page < to; page++)
		fill_page(memory + page * WORDS, key ^ (uint64_t)page << 20);
}

/* Fill @pages of anonymous memory; drop runs of it, and fill them again. */
static void fill_anonymous(long pages, int advice)
{
	uint64_t key = next_random() & ~0xfffffULL;
	size_t size = (size_t)pages * PAGE;
	uint64_t *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || madvise(memory, size, advice))
		fail("mmap");
	fill(memory, 0, pages, key);
	for (int round = 0; round < 4; round++) {
		long from = below(pages), length = 1 + below(pages / 4 + 1);
		long to = from + length < pages ? from + length : pages;

		if (madvise(memory + from * WORDS, (size_t)(to - from) * PAGE,
			    MADV_DONTNEED))
			fail("madvise");
		fill(memory, from, to, key);
	}
	check(memory, pages, key);
	munmap(memory, size);
}

static void spread(long processes, long pages, int advice)
{
	int status;

	for (long i = 0; i < processes; i++) {
		state = next_random();
		if (fork() == 0) {
			fill_anonymous(pages / processes + 1, advice);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		if (status)
			_exit(3);
}

static void job_4k(long processes, long percent)
{
	spread(processes, share(percent), MADV_NOHUGEPAGE);
}

static void job_thp(long processes, long percent)
{
	spread(processes, share(percent), MADV_HUGEPAGE);
}

static void job_file(long percent, long unused)
{
	uint64_t key = next_random() & ~0xfffffULL;
	long pages = share(percent) + 1;
	size_t size = (size_t)pages * PAGE;
	uint64_t *memory;
	char path[] = "/tmp/churn.XXXXXX";
	int fd = mkstemp(path);

	(void)unused;
	if (fd < 0 || ftruncate(fd, (off_t)size))
		fail(path);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	fill(memory, 0, pages, key);
	check(memory, pages, key);
	unlink(path);
}

static void job_huge(long percent, long unused)
{
	uint64_t key = next_random() & ~0xfffffULL;
	long before = number(POOL "nr_hugepages", NULL, 10), pages;
	uint64_t *memory;

	(void)unused;
	put_number(POOL "nr_hugepages", before + share(percent) / HUGE_PAGES);
	pages = number(POOL "free_hugepages", NULL, 10) * HUGE_PAGES;
	memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	/* A memory block that goes offline takes huge pages with it. */
	if (pages && memory != MAP_FAILED) {
		fill(memory, 0, pages, key);
		check(memory, pages, key);
		munmap(memory, (size_t)pages * PAGE);
	}
	put_number(POOL "nr_hugepages", before);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Take a block offline, if it can be, and bring it back. */
static void cycle_block(const char *path)
{
	static const char *const ways[] = { "online", "online_movable" };
	ssize_t wrote;

	alarm(OFFLINE_S);
	wrote = put(path, "offline");
	alarm(0);
	if (wrote < 0)
		return;
	sum->offline++;
	nap(below(50));
	if (put(path, ways[below(2)]) < 0) {
		perror(path);
		sum->stranded++;
	}
}

static void job_blocks(long rounds, long unused)
{
	/* Without SA_RESTART, so that it ends a write that takes too long. */
	struct sigaction action = { .sa_handler = on_alarm };
	long size_kb = number(BLOCKS "block_size_bytes", NULL, 16) >> 10;
	glob_t found;

	(void)unused;
	sigaction(SIGALRM, &action, NULL);
	/* They are registered when the system is up. */
	for (int i = 0; glob(BLOCKS "memory*/state", 0, NULL, &found); i++) {
		if (i == BLOCKS_S * 10)
			fail(BLOCKS);
		nap(100);
	}
	while (rounds--) {
		long now_kb = number("/proc/meminfo", "MemAvailable:", 10);
		long one = below((long)found.gl_pathc);

		if (now_kb > 3 * size_kb)
			cycle_block(found.gl_pathv[one]);
		nap(below(20));
	}
}

/* Read a file to its end, or @length bytes of it from @from. */
static void read_file(const char *path, off_t from, off_t length)
{
	static char buffer[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		return;
	for (; length > 0; from += got, length -= got) {
		size_t most = sizeof(buffer);

		if ((off_t)most > length)
			most = (size_t)length;
		got = pread(fd, buffer, most, from);
		if (got <= 0)
			break;
	}
	close(fd);
}

/*
 * Read files of one entry a page, where there is memory: from page 0 on it
 * takes very long until memory at 1 TiB comes.
 */
static void read_blocks(const char *path, int entry_bits)
{
	long size = number(BLOCKS "block_size_bytes", NULL, 16);
	off_t length = size / PAGE * entry_bits / 8;
	glob_t found;

	if (glob(BLOCKS "memory*/phys_index", 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		read_file(path, number(found.gl_pathv[i], NULL, 16) * length,
			  length);
	globfree(&found);
}

static void job_read(long rounds, long unused)
{
	static const struct {
		const char *path;
		/* Bits of an entry, one for each page; 0: read it whole. */
		int bits;
	} files[] = {
		{ "/proc/kpageflags", 64 },
		{ "/proc/kpagecount", 64 },
		{ "/proc/kpagecgroup", 64 },
		{ "/sys/kernel/mm/page_idle/bitmap", 1 },
		{ "/proc/pagetypeinfo", 0 },
		{ "/proc/buddyinfo", 0 },
		{ "/proc/zoneinfo", 0 },
		{ "/proc/vmallocinfo", 0 },
	};
	enum { FILES = sizeof(files) / sizeof(files[0]) };

	(void)unused;
	for (long i = 0; i < rounds * FILES; i++) {
		long one = below(FILES);

		if (files[one].bits)
			read_blocks(files[one].path, files[one].bits);
		else
			read_file(files[one].path, 0, 1 << 24);
	}
}

static void job_drop(long rounds, long unused)
{
	(void)unused;
	while (rounds--) {
		put_number("/proc/sys/vm/drop_caches", 3);
		nap(below(50));
	}
}

static void job_compact(long rounds, long unused)
{
	(void)unused;
	while (rounds--) {
		put_number("/proc/sys/vm/compact_memory", 1);
		nap(below(50));
	}
}

static void job_fork(long rounds, long unused)
{
	(void)unused;
	while (rounds--) {
		for (int i = 0; i < BUNCH; i++)
			if (fork() == 0)
				_exit(0);
		while (wait(NULL) > 0)
			;
	}
}

/* Only a kernel that has the memory map on demand has the file. */
static void job_complete(long milliseconds, long unused)
{
	(void)unused;
	nap(milliseconds);
	if (put("/sys/kernel/mm/deferred_init/complete", "1") < 0 &&
	    errno != ENOENT)
		fail("complete");
}

static const struct {
	const char *name;
	void (*run)(long first, long second);
} jobs[] = {
	{ "4k", job_4k },	  { "thp", job_thp },
	{ "file", job_file },	  { "huge", job_huge },
	{ "blocks", job_blocks }, { "read", job_read },
	{ "drop", job_drop },	  { "compact", job_compact },
	{ "fork", job_fork },	  { "complete", job_complete },
};

static void run_job(const char *text)
{
	char name[16] = "";
	long first = 0, second = 0;

	sscanf(text, "%15[^:]:%ld:%ld", name, &first, &second);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (!strcmp(jobs[i].name, name)) {
			jobs[i].run(first, second);
			_exit(0);
		}
	fprintf(stderr, "churn: no job %s\n", text);
	_exit(2);
}

int main(int argc, char **argv)
{
	pid_t pids[MOST_JOBS];
	int status;

	if (argc < 3 || argc > MOST_JOBS + 2) {
		fprintf(stderr, "usage: churn SEED JOB..., 1 to %d jobs\n",
			MOST_JOBS);
		return 2;
	}
	state = strtoull(argv[1], NULL, 10);
	available_kb = number("/proc/meminfo", "MemAvailable:", 10);
	sum = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		fail("mmap");
	for (int i = 2; i < argc; i++) {
		state = next_random();
		pids[i - 2] = fork();
		if (pids[i - 2] == 0)
			run_job(argv[i]);
	}
	for (int i = 2; i < argc; i++) {
		if (waitpid(pids[i - 2], &status, 0) != pids[i - 2])
			fail("waitpid");
		printf(RESULT "churn.%s.%d=", argv[1], i - 2);
		if (status)
			printf("status %d\n", status);
		else
			printf("ok\n");
	}
	printf(RESULT "churn.%s.bad_words=%ld\n", argv[1], sum->bad_words);
	printf(RESULT "churn.%s.stranded=%ld\n", argv[1], sum->stranded);
	printf(RESULT "churn.%s.offline=%ld\n", argv[1], sum->offline);
	fflush(stdout);
	/* What the processes held is freed behind RCU. */
	nap(300);
	return 0;
}
