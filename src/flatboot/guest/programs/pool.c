// SPDX-License-Identifier: GPL-2.0
/*
 * Reserve, take, check and free pages of a hugetlb pool, step by step, and
 * count what pools have in between. Runs on CPU 0, so that it takes pages of
 * the same node first in every boot; threads that touch run on a CPU each.
 *
 *	pool KEY 2m|1g STEP...
 *
 *	map:PAGES	map and reserve as many; the error's name is told
 *	noreserve:PAGES	map as many, which nobody keeps for it
 *	bind:NODE	have what is mapped next taken from this node alone
 *	touch:THREADS	take all that is mapped, in as many threads, check that
 *			it reads as zero, and fill each page with its own words
 *	check		are the words still there?
 *	punch:PAGES	give the first pages of the mapping back
 *	unmap		check, and free what is mapped
 *	count:LABEL	tell what all pools have
 *	run PROGRAM ...	run a program with the words up to "then", or all
 *
 * Results, those of pools also by node, as LABEL.2m.node0.free:
 *	map.KEY.N	how mapping in step N went: ok, or the error's name
 *	KEY.had		pages that were taken, in all
 *	KEY.bad_words	words that were not zero, or not what was written
 *	LABEL.2m.nr	nr_hugepages, and so on: .free .resv .surplus .unbuilt
 *	LABEL.memory	free memory in kB, what lies on the CPUs' lists too
 *	LABEL.total	HugePages_Total of /proc/meminfo, and so on: .hugetlb
 *			(Hugetlb), .broken (HardwareCorrupted)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { MOST_THREADS = 64, NODES = 8, CPUS = 64 };

static const struct size {
	const char *name;
	size_t bytes;
	int flag;
} sizes[] = {
	{ "2m", 2UL << 20, MAP_HUGE_2MB },
	{ "1g", 1UL << 30, MAP_HUGE_1GB },
};

static const char *const counts[] = { "nr", "free", "resv", "surplus",
				      "unbuilt" };

enum { SIZES = 2, COUNTS = 5 };

static const char *key;
static const struct size *size;
static char *area;
static size_t pages, threads;
static int bound = -1;
static unsigned char *had;
static atomic_ulong bad_words, all_had;

static void tell(const char *label, const char *what, long value)
{
	printf(RESULT "%s.%s=%ld\n", label, what, value);
}

static void count_pools(const char *label, const char *folder, const char *node)
{
	for (int i = 0; i < SIZES; i++) {
		for (int j = 0; j < COUNTS; j++) {
			char path[160], what[64];

			snprintf(path, sizeof(path),
				 "%s/hugepages-%zukB/%s_hugepages", folder,
				 sizes[i].bytes >> 10, counts[j]);
			snprintf(what, sizeof(what), "%s%s.%s", sizes[i].name,
				 node, counts[j]);
			if (!access(path, R_OK))
				tell(label, what, number(path, ""));
		}
	}
}

/* Have this thread run on one CPU, or, with CPUS, on any. */
static void stay_on(size_t cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (size_t i = 0; i < CPUS; i++)
		if (cpu == CPUS || cpu == i)
			CPU_SET(i, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fail("pool: sched_setaffinity");
}

static long free_pages(void)
{
	static const char *const keys[] = { "pages free", "count:" };
	const char *text = text_of("/proc/zoneinfo");
	long sum = 0;

	for (int i = 0; i < 2; i++)
		for (const char *at = text; (at = strstr(at, keys[i]));)
			sum += atol(at += strlen(keys[i]));
	return sum;
}

static void count(const char *label)
{
	static const char meminfo[] = "/proc/meminfo";

	count_pools(label, "/sys/kernel/mm/hugepages", "");
	for (int i = 0; i < NODES; i++) {
		char folder[80], node[16];

		snprintf(folder, sizeof(folder),
			 "/sys/devices/system/node/node%d/hugepages", i);
		snprintf(node, sizeof(node), ".node%d", i);
		count_pools(label, folder, node);
	}
	tell(label, "memory", free_pages() * 4);
	tell(label, "total", number(meminfo, "HugePages_Total:"));
	tell(label, "hugetlb", number(meminfo, "Hugetlb:"));
	tell(label, "broken", number(meminfo, "HardwareCorrupted:"));
}

static int map(size_t wanted, int flags)
{
	unsigned long mask = 1UL << bound;

	flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size->flag;
	area = mmap(NULL, wanted * size->bytes, PROT_READ | PROT_WRITE, flags,
		    -1, 0);
	if (area == MAP_FAILED) {
		area = NULL;
		return errno;
	}
	if (bound >= 0 && syscall(SYS_mbind, area, wanted * size->bytes,
				  MPOL_BIND, &mask, 64, 0))
		fail("pool: mbind");
	pages = wanted;
	had = calloc(pages, 1);
	if (!had)
		fail("pool: calloc");
	return 0;
}

static uint64_t word_of(size_t page, size_t word)
{
	return (page << 32 | word) * 0x9e3779b97f4a7c15 + 1;
}

static void check(void)
{
	for (size_t page = 0; page < pages; page++) {
		uint64_t *words = (uint64_t *)(area + page * size->bytes);

		for (size_t i = 0; had[page] && i < size->bytes / 8; i++)
			bad_words += words[i] != word_of(page, i);
	}
}

static void *touch_part(void *argument)
{
	unsigned long bad = 0, got = 0;

	stay_on((size_t)argument % (size_t)sysconf(_SC_NPROCESSORS_ONLN));
	for (size_t page = (size_t)argument; page < pages; page += threads) {
		uint64_t *words = (uint64_t *)(area + page * size->bytes);

		if (madvise(words, size->bytes, MADV_POPULATE_WRITE))
			continue;
		had[page] = 1;
		got++;
		for (size_t i = 0; i < size->bytes / 8; i++) {
			bad += words[i] != 0;
			words[i] = word_of(page, i);
		}
	}
	bad_words += bad;
	all_had += got;
	return NULL;
}

static void touch(size_t number_of_threads)
{
	pthread_t thread[MOST_THREADS];

	threads = number_of_threads;
	if (!threads || threads > MOST_THREADS)
		fail("pool: threads");
	for (size_t i = 1; i < threads; i++)
		if (pthread_create(&thread[i], NULL, touch_part, (void *)i))
			fail("pool: pthread_create");
	touch_part(NULL);
	for (size_t i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void punch(size_t first)
{
	if (madvise(area, first * size->bytes, MADV_DONTNEED))
		fail("pool: MADV_DONTNEED");
	memset(had, 0, first);
}

static void unmap(void)
{
	check();
	munmap(area, pages * size->bytes);
	free(had);
	area = NULL;
	pages = 0;
}

/* Run a program. Returns its last word, or the "then" behind it. */
static char **run(char **program)
{
	char **end = program;
	char path[64];
	int status;
	pid_t pid;

	while (*end && strcmp(*end, "then"))
		end++;
	snprintf(path, sizeof(path), "/bin/%s", program[0]);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		*end = NULL;
		stay_on(CPUS);
		execv(path, program);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fail(program[0]);
	return *end ? end : end - 1;
}

/* Is this the step @name? If so, @value is what stands behind its colon. */
static int is_step(const char *step, const char *name, const char **value)
{
	size_t length = strlen(name);

	*value = step[length] == ':' ? step + length + 1 : "";
	return !strncmp(step, name, length) && strchr(":", step[length]);
}

static int do_step(int number_of_step, const char *step)
{
	const char *value;

	if (is_step(step, "map", &value) ||
	    is_step(step, "noreserve", &value)) {
		int error = map(strtoul(value, NULL, 0),
				*step == 'n' ? MAP_NORESERVE : 0);

		printf(RESULT "map.%s.%d=%s\n", key, number_of_step,
		       error ? strerrorname_np(error) : "ok");
	} else if (is_step(step, "bind", &value)) {
		bound = atoi(value);
	} else if (is_step(step, "touch", &value)) {
		touch(strtoul(value, NULL, 0));
	} else if (is_step(step, "check", &value)) {
		check();
	} else if (is_step(step, "punch", &value)) {
		punch(strtoul(value, NULL, 0));
	} else if (is_step(step, "unmap", &value)) {
		unmap();
	} else if (is_step(step, "count", &value)) {
		count(value);
	} else {
		fprintf(stderr, "pool: %s is no step\n", step);
		return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int wrong = 0;

	for (int i = 0; argc > 2 && i < SIZES; i++)
		if (!strcmp(argv[2], sizes[i].name))
			size = &sizes[i];
	if (!size) {
		fprintf(stderr, "pool: see the comment at the top of pool.c\n");
		return 2;
	}
	key = argv[1];
	stay_on(0);
	for (char **step = argv + 3; *step && !wrong; step++) {
		if (!strcmp(*step, "run") && step[1])
			step = run(step + 1);
		else
			wrong = do_step((int)(step - argv) - 2, *step);
	}
	if (area)
		unmap();
	tell(key, "had", (long)all_had);
	tell(key, "bad_words", (long)bad_words);
	return wrong;
}
