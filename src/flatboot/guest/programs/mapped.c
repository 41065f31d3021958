// SPDX-License-Identifier: GPL-2.0
/*
 * Maps memory and has the kernel work on it: merge it, make it huge, move
 * it, or take it for broken. What was written is checked afterwards.
 *
 *	mapped merge MB		KSM: merge.shared=pages that share another's,
 *				merge.bad=words that changed, .apart_bad
 *				after each page was written to
 *	mapped collapse MB	khugepaged: collapse.huge=kB, .bad
 *	mapped move MB		move_pages(2) from node 0 to 1: move.before
 *				and .moved=pages on node 1, .bad
 *	mapped balance MB	the same by NUMA balancing: balance.before,
 *				.moved and .bad
 *	mapped broken LABEL PATH UNIT
 *				tells PATH that a page of its own is broken,
 *				by its address (UNIT is bytes) or its number
 *				(pages): broken.LABEL.write=ok or the error's
 *				name, .killed=1 if touching it is SIGBUS, or
 *				.moved=1 if it is another page now, and .bad
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"
#include "places.h"

enum { PAGE = 4096, HUGE = 2 << 20, TRIES = 1200 };

/* Map @size bytes at a huge page's boundary, each page with its own word. */
static uint64_t *map(size_t size)
{
	char *area = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	area += -(uintptr_t)area & (HUGE - 1);
	if (madvise(area, size, MADV_NOHUGEPAGE))
		fail("MADV_NOHUGEPAGE");
	return (uint64_t *)area;
}

static void fill(uint64_t *area, size_t size, uint64_t step)
{
	for (size_t i = 0; i < size / PAGE; i++)
		for (size_t word = 0; word < PAGE / 8; word++)
			area[i * PAGE / 8 + word] = i * step + word;
}

static long bad_words(const uint64_t *area, size_t size, uint64_t step)
{
	long bad = 0;

	for (size_t i = 0; i < size / PAGE; i++)
		for (size_t word = 0; word < PAGE / 8; word++)
			bad += area[i * PAGE / 8 + word] != i * step + word;
	return bad;
}

static void merge(size_t size)
{
	static const char shared[] = "/sys/kernel/mm/ksm/pages_sharing";
	uint64_t *area = map(size);
	long wanted = (long)(size / PAGE) * 9 / 10;

	fill(area, size, 0);
	if (madvise(area, size, MADV_MERGEABLE))
		fail("MADV_MERGEABLE");
	put("/sys/kernel/mm/ksm/pages_to_scan", "2000");
	put("/sys/kernel/mm/ksm/sleep_millisecs", "10");
	put("/sys/kernel/mm/ksm/run", "1");
	for (int i = 0; i < TRIES && number(shared, "") < wanted; i++)
		nap(50);
	printf(RESULT "merge.shared=%ld\n", number(shared, ""));
	printf(RESULT "merge.bad=%ld\n", bad_words(area, size, 0));
	/* Break them apart: each gets a page of its own again. */
	fill(area, size, 1);
	printf(RESULT "merge.apart_bad=%ld\n", bad_words(area, size, 1));
	put("/sys/kernel/mm/ksm/run", "2");
}

static void collapse(size_t size)
{
	static const char khugepaged[] =
		"/sys/kernel/mm/transparent_hugepage/khugepaged/";
	uint64_t *area = map(size);
	char path[128];
	long huge = 0;

	fill(area, size, 1);
	snprintf(path, sizeof(path), "%sscan_sleep_millisecs", khugepaged);
	put(path, "10");
	snprintf(path, sizeof(path), "%sdefrag", khugepaged);
	put(path, "1");
	if (madvise(area, size, MADV_HUGEPAGE))
		fail("MADV_HUGEPAGE");
	for (int i = 0; i < TRIES; i++) {
		huge = number("/proc/self/smaps_rollup", "AnonHugePages:");
		if (huge >= (long)(size >> 10))
			break;
		nap(50);
	}
	printf(RESULT "collapse.huge=%ld\n", huge);
	printf(RESULT "collapse.bad=%ld\n", bad_words(area, size, 1));
}

/* Pages of an area that lie on node 1; with @to_node, after they were told to.
 */
static long on_node_1(uint64_t *area, size_t size, int to_node)
{
	size_t count = size / PAGE;
	void **pages = calloc(count, sizeof(*pages));
	int *nodes = calloc(count, sizeof(*nodes));
	int *status = calloc(count, sizeof(*status));
	long there = 0;

	if (!pages || !nodes || !status)
		fail("calloc");
	for (size_t i = 0; i < count; i++) {
		pages[i] = area + i * PAGE / 8;
		nodes[i] = 1;
	}
	if (syscall(SYS_move_pages, 0, count, pages, to_node ? nodes : NULL,
		    status, 0) < 0)
		fail("move_pages");
	for (size_t i = 0; i < count; i++)
		there += status[i] == 1;
	free(pages);
	free(nodes);
	free(status);
	return there;
}

static void move(size_t size)
{
	uint64_t *area = map(size);

	pin(0);
	fill(area, size, 1);
	printf(RESULT "move.before=%ld\n", on_node_1(area, size, 0));
	on_node_1(area, size, 1);
	printf(RESULT "move.moved=%ld\n", on_node_1(area, size, 0));
	printf(RESULT "move.bad=%ld\n", bad_words(area, size, 1));
}

static void balance(size_t size)
{
	uint64_t *area = map(size);
	long before, moved = 0, bad = 0;

	pin(0);
	fill(area, size, 1);
	before = on_node_1(area, size, 0);
	pin((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
	for (int i = 0; i < TRIES && moved <= (long)(size / PAGE) / 2; i++) {
		bad += bad_words(area, size, 1);
		moved = on_node_1(area, size, 0);
	}
	printf(RESULT "balance.before=%ld\n", before);
	printf(RESULT "balance.moved=%ld\n", moved);
	printf(RESULT "balance.bad=%ld\n", bad);
}

/* The number of the page at @address. */
static uint64_t page_number(const void *address)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (fd < 0 || pread(fd, &entry, sizeof(entry),
			    (off_t)((uintptr_t)address / PAGE *
				    sizeof(entry))) != sizeof(entry))
		fail("pagemap");
	close(fd);
	return entry & ((1ULL << 55) - 1);
}

static void broken(const char *label, const char *path, uint64_t unit)
{
	uint64_t *area = map(HUGE), before;
	int fd = open(path, O_WRONLY), status;
	ssize_t written;
	char text[32];
	pid_t child;

	if (fd < 0)
		fail(path);
	fill(area, PAGE, 1);
	before = page_number(area);
	snprintf(text, sizeof(text), "%#llx",
		 (unsigned long long)(before * unit));
	written = write(fd, text, strlen(text));
	printf(RESULT "broken.%s.write=%s\n", label,
	       written < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		printf(RESULT "broken.%s.bad=%ld\n", label,
		       bad_words(area, PAGE, 1));
		printf(RESULT "broken.%s.moved=%d\n", label,
		       page_number(area) != before);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		fail("fork");
	printf(RESULT "broken.%s.killed=%d\n", label,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	size_t size = argc > 2 ? strtoul(argv[2], NULL, 0) << 20 : 0;

	if (!strcmp(verb, "merge") && argc == 3) {
		merge(size);
	} else if (!strcmp(verb, "collapse") && argc == 3) {
		collapse(size);
	} else if (!strcmp(verb, "move") && argc == 3) {
		move(size);
	} else if (!strcmp(verb, "balance") && argc == 3) {
		balance(size);
	} else if (!strcmp(verb, "broken") && argc == 5) {
		broken(argv[2], argv[3], !strcmp(argv[4], "bytes") ? PAGE : 1);
	} else {
		fprintf(stderr,
			"mapped: see the comment at the top of mapped.c\n");
		return 2;
	}
	return 0;
}
