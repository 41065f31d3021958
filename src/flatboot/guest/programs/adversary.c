// SPDX-License-Identifier: GPL-2.0
/*
 * User space that looks for memory that another left: processes get, touch, use
 * and free memory in all ways that they have, drawn at random, and check every
 * byte of what has to read as zero.
 *
 *	adversary SECONDS SEED [MIB]
 *
 * There is one process for each CPU and one more. In a step it draws a source
 * of memory, at most MIB (16) of it, and a way to touch it: then all has to be
 * zero. It fills it with words that tell process, step and place, and uses it
 * up to three times, after each of which they have to be there, or zeroes where
 * it dropped them; then it draws a way to free it. Before all that, most of
 * memory is filled and freed. In the first third of each six seconds all sleep,
 * so that the kernel finds an idle machine, and each sleeps now and then.
 *
 * There must be swap space and a pool of eight huge pages for each process.
 * Settings of huge pages and KSM are changed for good. A line tells of what is
 * not as it should be, and the exit status is 1 then.
 *
 * Results:
 *	adversary.steps		steps of all processes
 *	adversary.mib		how much was compared
 *	adversary.bad		bytes that had to be zero and were not
 *	adversary.broken	bytes that had to be kept and were not
 *	adversary.way.NAME	how often a way was gone
 *	adversary.refused.NAME	how often the kernel refused it, if it did
 *	adversary.missing.NAME	the last error, of a way that was never gone
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "adversary_area.h"
#include "adversary_ways.h"
#include "files.h"
#include "guest.h"

#define MM "/sys/kernel/mm/"
#define THP MM "transparent_hugepage/"

enum { MOST_WORKERS = 64, PERIOD_MS = 6000, QUIET_MS = 2000 };

/* clang-format off */
static const struct way {
	const char *name;
	enum stage stage;
	int needs, never;	/* a source gives what it needs */
	int (*run)(void);
	unsigned long argument;	/* advice, if there is no function, or of a source */
	enum left left;		/* what following the advice leaves */
} ways[] = {
	{ "4k", SOURCE, .needs = PRIVATE, .argument = MADV_NOHUGEPAGE },
	{ "64k", SOURCE, .needs = PRIVATE | SMALL, .argument = MADV_HUGEPAGE },
	{ "thp", SOURCE, .needs = PRIVATE | BIG, .argument = MADV_HUGEPAGE },
	{ "any", SOURCE, .needs = PRIVATE },
	{ "shared", SOURCE, .needs = SHARED },
	{ "memfd", SOURCE, .needs = SHARED | WITH_FILE, .run = open_memfd },
	{ "memfd-64k", SOURCE, .needs = SHARED | WITH_FILE | SMALL, .run = open_memfd, .argument = MADV_HUGEPAGE },
	{ "memfd-thp", SOURCE, .needs = SHARED | WITH_FILE | BIG, .run = open_memfd, .argument = MADV_HUGEPAGE },
	{ "tmpfs", SOURCE, .needs = SHARED | WITH_FILE, .run = open_file },
	{ "pool-private", SOURCE, .needs = PRIVATE | POOL },
	{ "pool-shared", SOURCE, .needs = SHARED | POOL },
	{ "pool-memfd", SOURCE, .needs = SHARED | WITH_FILE | POOL, .run = open_memfd },
	{ "hugetlbfs", SOURCE, .needs = SHARED | WITH_FILE | POOL, .run = open_file },
	{ "aio-ring", SOURCE, .needs = KERNEL, .run = map_aio },

	{ "write", TOUCH, .needs = 0 },
	{ "read", TOUCH, .run = read_all },
	{ "populate-write", TOUCH, .never = KERNEL, .argument = MADV_POPULATE_WRITE },
	{ "populate-read", TOUCH, .never = KERNEL, .argument = MADV_POPULATE_READ },
	{ "mlock", TOUCH, .never = KERNEL, .run = lock },
	{ "fallocate", TOUCH, .needs = WITH_FILE, .run = allocate },
	{ "read-file", TOUCH, .needs = WITH_FILE, .run = read_file },
	{ "write-file", TOUCH, .needs = WITH_FILE, .never = POOL, .run = write_words, .argument = BY_FILE },
	{ "proc-mem", TOUCH, .never = KERNEL, .run = write_words, .argument = BY_MEMORY },
	{ "dev-zero", TOUCH, .never = KERNEL, .run = write_words, .argument = BY_DEVICE },
	{ "splice", TOUCH, .needs = WITH_FILE, .never = POOL, .run = splice_hole },
	{ "uffd-zeropage", TOUCH, .never = POOL | KERNEL, .run = by_userfault, .argument = UFFDIO_ZEROPAGE },
	{ "pin", TOUCH, .never = KERNEL, .run = pin },
	{ "io-uring", TOUCH, .never = KERNEL, .run = pin_io_uring },
	{ "direct-io", TOUCH, .never = KERNEL, .run = read_direct },

	{ "dontneed", USE, .needs = PRIVATE, .argument = MADV_DONTNEED, .left = HOLE },
	{ "remove", USE, .needs = SHARED, .argument = MADV_REMOVE, .left = HOLE },
	{ "free", USE, .needs = PRIVATE, .never = POOL, .run = free_lazily },
	{ "pageout", USE, .never = POOL | KERNEL, .argument = MADV_PAGEOUT },
	{ "cold", USE, .never = POOL | KERNEL, .argument = MADV_COLD },
	{ "hugepage", USE, .never = POOL | KERNEL, .argument = MADV_HUGEPAGE },
	{ "nohugepage", USE, .never = POOL | KERNEL, .argument = MADV_NOHUGEPAGE },
	{ "guard", USE, .needs = PRIVATE, .never = POOL, .run = guard },
	{ "collapse", USE, .needs = BIG, .run = collapse },
	{ "punch-hole", USE, .needs = WITH_FILE, .run = punch },
	{ "truncate", USE, .needs = WITH_FILE, .run = shrink },
	{ "fork", USE, .never = KERNEL, .run = copy_on_write },
	{ "private-copy", USE, .needs = WITH_FILE, .run = copy_file },
	{ "mremap", USE, .never = KERNEL, .run = move_away },
	{ "mremap-dontunmap", USE, .needs = PRIVATE, .never = POOL, .run = move_away, .argument = MREMAP_DONTUNMAP },
	{ "mbind", USE, .never = KERNEL, .run = bind_to_node },
	{ "move-pages", USE, .never = KERNEL, .run = move_pages },
	{ "ksm", USE, .needs = PRIVATE, .never = POOL, .run = merge },
	{ "vmsplice", USE, .needs = PRIVATE, .run = gift },
	{ "uffd-copy", USE, .never = KERNEL, .run = by_userfault, .argument = UFFDIO_COPY },
	{ "uffd-move", USE, .needs = PRIVATE, .never = POOL, .run = by_userfault, .argument = UFFDIO_MOVE },
	{ "compact", USE, .run = compact },
	{ "drop-caches", USE, .run = drop_caches },
	{ "pool-size", USE, .run = resize_pool },
	{ "perf-ring", USE, .run = read_perf },
	{ "exec", USE, .run = execute },

	{ "munmap", FREE, .never = KERNEL, .run = unmap },
	{ "munmap-pieces", FREE, .never = KERNEL, .run = unmap, .argument = 1 },
	{ "mmap-over", FREE, .never = KERNEL },
	{ "drop-all", FREE, .never = KERNEL, .run = drop },
	{ "truncate-all", FREE, .needs = WITH_FILE, .run = shrink },
	{ "release", FREE, .needs = KERNEL, .run = release },
	{ "exit", FREE, .needs = NEVER },
};
/* clang-format on */

enum { WAYS = sizeof(ways) / sizeof(ways[0]), EXIT = WAYS - 1 };
_Static_assert((int)WAYS <= (int)MOST_WAYS, "more ways than are counted");

/* Small areas as well as the largest. */
static size_t draw_size(void)
{
	size_t end = PAGE;

	if (traits & KERNEL)
		return RING_PAGES * PAGE;
	if (traits & SMALL)
		return (1 + draw(MIDDLE / PAGE)) * MIDDLE;
	if (traits & (POOL | BIG))
		return (1 + draw(traits & POOL ? 2 : 4)) * HUGE;
	while (end < most && draw(8))
		end *= 2;
	return (1 + draw(smaller(end, most) / PAGE)) * PAGE;
}

static int get(const struct way *way)
{
	int flags = way->needs & PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	char *at = window + (way->needs & SMALL ? MIDDLE : 0);

	traits = way->needs;
	unit = traits & POOL ? HUGE : PAGE;
	area_size = draw_size();
	if (!(traits & POOL) && area_size >= HUGE)
		traits |= BIG;
	if (way->run && way->run())
		return -1;
	if (traits & KERNEL)
		return 0;
	area = at;
	if (file < 0)
		flags |= MAP_ANONYMOUS | (traits & POOL ? MAP_HUGETLB : 0);
	return (file >= 0 && ftruncate(file, (off_t)area_size)) ||
	       mmap(at, area_size, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		    file, 0) != at ||
	       (way->argument && madvise(at, area_size, (int)way->argument));
}

static int go(size_t i)
{
	const struct way *way = &ways[i];
	int result = 0;

	now[way->stage] = way->name;
	argument = way->argument;
	left = KEPT;
	errno = 0;
	if (way->stage == SOURCE) {
		result = get(way);
	} else if (way->run) {
		result = way->run();
	} else if (argument) {
		result = madvise(part, part_size, (int)argument);
		left = result && way->left ? EITHER : way->left;
	}
	if (result) {
		sum->error[i] = errno;
		sum->refused[i]++;
	} else {
		sum->used[i]++;
	}
	return result;
}

/* Does the area allow a way? */
static int fits(const struct way *way)
{
	return way->stage == SOURCE ||
	       (!(way->needs & ~traits) && !(way->never & traits));
}

/* Go any way of a stage; half of the time that which was gone least often. */
static int go_any(enum stage stage)
{
	uint64_t least = UINT64_MAX, rank;
	size_t chosen = 0, rare = draw(2);

	for (size_t i = 0; i < WAYS; i++) {
		if (ways[i].stage != stage || !fits(&ways[i]))
			continue;
		rank = rare ? sum->used[i] + sum->refused[i] : draw(UINT64_MAX);
		if (rank < least) {
			least = rank;
			chosen = i;
		}
	}
	return go(chosen);
}

static void one_step(int leave)
{
	file = -1;
	ring = 0;
	now[TOUCH] = now[USE] = "-";
	if (!go_any(SOURCE)) {
		take_all();
		go_any(TOUCH);
		touch(area, area_size);
		compare(area, area_size, 0);
		fill(area, area_size, key);
		for (size_t uses = draw(4); uses; uses--) {
			draw_part();
			go_any(USE);
			check();
			reserve(spare);
		}
		if (leave) {
			go(EXIT);
			_exit(0);
		}
		take_all();
		go_any(FREE);
	}
	reserve(window);
	if (file >= 0)
		close(file);
}

static long clock_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void die(int signal_number)
{
	say("killed", -1, (uint64_t)signal_number, 0);
	_exit(3);
}

static void work(int which, uint64_t seed, long end)
{
	worker = which;
	state = seed;
	signal(SIGSEGV, die);
	signal(SIGBUS, die);
	window = reserve(NULL);
	spare = reserve(NULL);
	for (uint64_t i = 1; clock_ms() < end; i++) {
		long tide = clock_ms() % PERIOD_MS;

		if (tide < QUIET_MS)
			nap(QUIET_MS - tide);
		else if (!draw(8))
			nap((long)draw(300));
		key = (uint64_t)(which + 1) << 56 | (i & 0xffffff) << 32;
		seed = draw(UINT64_MAX);
		if (draw(8)) {
			one_step(0);
		} else {
			pid_t pid = fork();

			if (!pid) {
				state = seed;
				one_step(1);
				_exit(0);
			}
			if (!ended_well(pid))
				fail("adversary: a step");
		}
		sum->steps++;
	}
	_exit(0);
}

/* Most of memory holds what must not be seen again. */
static void soil(void)
{
	size_t size = (size_t)number("/proc/meminfo", "MemAvailable:") * 820;
	pid_t pid = fork();

	if (!pid) {
		char *all = mmap(NULL, size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				 -1, 0);

		if (all == MAP_FAILED)
			_exit(1);
		fill(all, size, (uint64_t)0xff << 56);
		_exit(0);
	}
	if (!ended_well(pid))
		fail("adversary: soil");
}

/* What is not there is a way that the kernel refuses, or goes otherwise. */
static void prepare(void)
{
	static const struct {
		const char *path, *value;
	} settings[] = {
		{ THP "shmem_enabled", "advise" },
		{ THP "hugepages-64kB/enabled", "madvise" },
		{ THP "hugepages-64kB/shmem_enabled", "advise" },
		{ THP "khugepaged/scan_sleep_millisecs", "200" },
		{ MM "ksm/use_zero_pages", "1" },
		{ MM "ksm/pages_to_scan", "1000" },
		{ MM "ksm/run", "1" },
		/* No lines in the log each time. */
		{ "/proc/sys/vm/drop_caches", "4" },
		{ "/proc/sys/vm/nr_overcommit_hugepages", "8" },
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (!access(settings[i].path, W_OK))
			put(settings[i].path, settings[i].value);
	mkdir("/tmp/pool", 0700);
	mount("pool", "/tmp/pool", "hugetlbfs", 0, NULL);
	pool = number("/proc/sys/vm/nr_hugepages", "");
}

static int tell(void)
{
	printf(RESULT "adversary.steps=%lu\n", sum->steps);
	printf(RESULT "adversary.mib=%lu\n", sum->bytes >> 20);
	printf(RESULT "adversary.bad=%lu\n", sum->bad);
	printf(RESULT "adversary.broken=%lu\n", sum->broken);
	for (size_t i = 0; i < WAYS; i++) {
		printf(RESULT "adversary.way.%s=%lu\n", ways[i].name,
		       sum->used[i]);
		if (sum->refused[i])
			printf(RESULT "adversary.refused.%s=%lu\n",
			       ways[i].name, sum->refused[i]);
		if (!sum->used[i])
			printf(RESULT "adversary.missing.%s=%s\n", ways[i].name,
			       strerrorname_np(sum->error[i]));
	}
	return sum->bad || sum->broken;
}

/* What is below the stack of a new program, and its data, are zero. */
static int begin(void)
{
	char *stack = __builtin_frame_address(0);

	now[SOURCE] = "a new program";
	stack -= (uintptr_t)stack % PAGE + 4 * MIDDLE;
	compare(stack, 3 * MIDDLE, 0);
	compare(buffer, sizeof(buffer), 0);
	return sum->bad != 0;
}

int main(int argc, char **argv)
{
	long end, workers = sysconf(_SC_NPROCESSORS_ONLN) + 1;
	pid_t pids[MOST_WORKERS];

	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		fail("adversary: mmap");
	if (argc == 1)
		return begin();
	if (argc < 3 || argc > 4 || workers > MOST_WORKERS) {
		fprintf(stderr, "usage: adversary SECONDS SEED [MIB]\n");
		return 2;
	}
	most = argc > 3 ? (size_t)atol(argv[3]) << 20 : most;
	state = strtoull(argv[2], NULL, 10);
	prepare();
	soil();
	end = clock_ms() + atol(argv[1]) * 1000;
	for (int i = 0; i < workers; i++) {
		uint64_t seed = draw(UINT64_MAX);

		pids[i] = fork();
		if (!pids[i])
			work(i, seed, end);
	}
	for (int i = 0; i < workers; i++)
		if (!ended_well(pids[i]))
			fail("adversary: a process");
	return tell();
}
