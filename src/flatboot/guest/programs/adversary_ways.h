/* SPDX-License-Identifier: GPL-2.0 */
/* The ways of adversary.c to get, touch, use and free an area of memory. */
#ifndef FLATBOOT_ADVERSARY_WAYS_H
#define FLATBOOT_ADVERSARY_WAYS_H

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "adversary_area.h"

enum { RING_EVENTS = 4096, RING_PAGES = 64 };
enum { DISK = 4 << 20, MOST_MOVED = 256, MOST_PIECES = 64 };

/* What the C library does not have yet, and mm/gup_test.h of the kernel. */
enum { COLLAPSE = 25, GUARD_INSTALL = 102, GUARD_REMOVE = 103, FOLL_WRITE = 1 };
#define UFFDIO_MOVE _IOWR(UFFDIO, 5, struct uffdio_copy)
struct gup_test {
	uint64_t get_usec, put_usec, at, size;
	uint32_t pages_per_call, gup_flags, test_flags, which_pages[8];
};
#define PIN_FAST _IOWR('g', 2, struct gup_test)
#define PIN_LONGTERM _IOWR('g', 3, struct gup_test)

/* How many pages the pool has. */
static long pool;

static int map_spare(size_t size, int flags, int fd)
{
	return mmap(spare, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED | flags, fd, 0) != spare;
}

/* Sources that are no plain mappings: files, and a ring of which the kernel has
 * the first page. */

static int open_memfd(void)
{
	file = memfd_create("adversary", traits & POOL ? MFD_HUGETLB : 0);
	return file < 0;
}

static int open_file(void)
{
	file = open(traits & POOL ? "/tmp/pool" : "/tmp", O_TMPFILE | O_RDWR,
		    0600);
	return file < 0;
}

static int map_aio(void)
{
	if (syscall(SYS_io_setup, RING_EVENTS, &ring))
		return -1;
	area = (char *)ring + PAGE;
	return 0;
}

/* Ways to touch an area all of which has to read as zero, then. */

static int read_all(void)
{
	compare(area, area_size, 0);
	return 0;
}

static int lock(void)
{
	return mlock(area, area_size) || munlock(area, area_size);
}

static int allocate(void)
{
	return fallocate(file, 0, 0, (off_t)area_size);
}

static int read_file(void)
{
	lseek(file, 0, SEEK_SET);
	return compare_file(file, area_size, 0);
}

/* The kernel writes a word of zeroes to each page, by three other ways. */
enum { BY_FILE, BY_MEMORY, BY_DEVICE };

static int write_words(void)
{
	static const char *const paths[] = { "/proc/self/fd/%d",
					     "/proc/self/mem", "/dev/zero" };
	static const uint64_t zero;
	char path[32];
	int fd, result = 0;

	snprintf(path, sizeof(path), paths[argument], file);
	fd = open(path, O_RDWR);
	for (size_t i = 0; !result && i < area_size; i += PAGE) {
		size_t at = i + draw(PAGE / 8) * 8;
		size_t base = argument == BY_FILE ? 0 : (uintptr_t)area;

		if (argument == BY_DEVICE)
			result = read(fd, area + at, 8) != 8;
		else
			result = pwrite(fd, &zero, 8, (off_t)(base + at)) != 8;
	}
	close(fd);
	return result;
}

static int splice_hole(void)
{
	int ends[2], result = pipe(ends);

	for (off_t at = 0; !result && at < (off_t)area_size;) {
		ssize_t got = splice(file, &at, ends[1], NULL, MIDDLE, 0);

		result = got <= 0 || compare_file(ends[0], (size_t)got, 0);
	}
	close(ends[0]);
	close(ends[1]);
	return result;
}

static int pin(void)
{
	struct gup_test test = { .at = (uintptr_t)area,
				 .size = area_size,
				 .pages_per_call = HUGE / PAGE,
				 .gup_flags = FOLL_WRITE };
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR);
	int result;

	if (fd < 0)
		return -1;
	result = ioctl(fd, draw(2) ? PIN_FAST : PIN_LONGTERM, &test);
	close(fd);
	return result || test.size != area_size;
}

static int pin_io_uring(void)
{
	struct io_uring_params params = { 0 };
	struct iovec all = { area, area_size };
	int fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	int result;

	if (fd < 0)
		return -1;
	result = (int)syscall(SYS_io_uring_register, fd,
			      IORING_REGISTER_BUFFERS, &all, 1);
	close(fd);
	return result;
}

/* Nobody ever wrote to the RAM disk. */
static int read_direct(void)
{
	size_t size = smaller(area_size, DISK);
	int fd = open("/dev/ram0", O_RDONLY | O_DIRECT);
	int result = read(fd, area, size) != (ssize_t)size;

	close(fd);
	return result;
}

/* Ways to use an area that is filled, or a part of it. */

static int drop(void)
{
	int result = madvise(part, part_size,
			     traits & PRIVATE ? MADV_DONTNEED : MADV_REMOVE);

	left = result ? EITHER : HOLE;
	return result;
}

/* Does what @argument asks userfaultfd for; copies and moves what belongs. */
static int by_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_range range = { (uintptr_t)part, part_size };
	struct uffdio_register wanted = {
		.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING
	};
	struct uffdio_zeropage zero = { .range = range };
	struct uffdio_copy copy = { .dst = range.start,
				    .src = (uintptr_t)spare,
				    .len = range.len };
	int fd, result;

	if (argument != UFFDIO_ZEROPAGE) {
		if (map_spare(part_size, MAP_ANONYMOUS, -1))
			return -1;
		fill(spare, part_size, word(part));
		if (drop())
			return -1;
		left = EITHER;
	}
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0)
		return -1;
	result = ioctl(fd, UFFDIO_API, &api) ||
		 ioctl(fd, UFFDIO_REGISTER, &wanted) ||
		 ioctl(fd, argument,
		       argument == UFFDIO_ZEROPAGE ? (void *)&zero : &copy);
	close(fd);
	if (!result)
		left = KEPT;
	if (!result && argument == UFFDIO_MOVE)
		compare(spare, part_size, 0);
	return result;
}

/* Half of the time what is lazily free is reclaimed at once. */
static int free_lazily(void)
{
	left = EITHER;
	if (madvise(part, part_size, MADV_FREE))
		return -1;
	return draw(2) ? madvise(part, part_size, MADV_PAGEOUT) : 0;
}

static int guard(void)
{
	if (madvise(part, part_size, GUARD_INSTALL))
		return -1;
	left = HOLE;
	return madvise(part, part_size, GUARD_REMOVE);
}

/* Not in whole pages, half of the time. */
static int punch(void)
{
	size_t cut = draw(2) * draw(unit / 8) * 8;

	part += cut;
	part_size -= cut;
	part_size -= draw(2) * draw(smaller(part_size, unit) / 8) * 8;
	left = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 part - area, (off_t)part_size)
		       ? EITHER
		       : HOLE;
	return left != HOLE;
}

static int shrink(void)
{
	if (!(traits & POOL))
		part += draw(PAGE / 8) * 8;
	part_size = area_size - (size_t)(part - area);
	if (ftruncate(file, part - area))
		return -1;
	left = HOLE;
	return ftruncate(file, (off_t)area_size);
}

/* What huge pages are made of has holes, too. */
static int collapse(void)
{
	int result;

	if (drop() || madvise(area, area_size, MADV_HUGEPAGE))
		return -1;
	result = madvise(area, area_size & ~(size_t)(HUGE - 1), COLLAPSE);
	if (draw(2))
		madvise(area, area_size, MADV_NOHUGEPAGE);
	return result;
}

static int ended_well(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* A child writes to what is private, and we do while it is there. */
static int copy_on_write(void)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid) {
		compare(area, area_size, key);
		if (traits & PRIVATE) {
			fill(part, part_size, ~key);
			compare(part, part_size, ~key);
			compare(area, (size_t)(part - area), key);
		}
		_exit(0);
	}
	if (draw(2))
		fill(part, part_size, word(part));
	if (!ended_well(pid))
		fail("adversary: fork");
	return 0;
}

/* What is written to in a private mapping of a file is copied. */
static int copy_file(void)
{
	if (map_spare(area_size, 0, file))
		return -1;
	for (size_t i = 0; i < part_size; i += PAGE)
		fill(spare + (part - area) + i, 8, word(part + i));
	compare(spare, area_size, key);
	return 0;
}

/* The part goes elsewhere and comes back; or what it holds goes. */
static int move_away(void)
{
	unsigned int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

	if (mremap(part, part_size, part_size, flags | argument, spare) !=
	    spare)
		return -1;
	compare(spare, part_size, word(part));
	if (argument)
		left = HOLE;
	else if (mremap(spare, part_size, part_size, flags, part) != part)
		fail("adversary: mremap");
	return 0;
}

static int bind_to_node(void)
{
	unsigned long node = 1UL << draw(2);
	long result = syscall(SYS_mbind, area, area_size, MPOL_BIND, &node, 64,
			      MPOL_MF_MOVE);

	syscall(SYS_mbind, area, area_size, MPOL_DEFAULT, NULL, 0, 0);
	return result != 0;
}

static int move_pages(void)
{
	size_t count = smaller(part_size / PAGE, MOST_MOVED);
	int nodes[MOST_MOVED], results[MOST_MOVED];
	void *pages[MOST_MOVED];
	int node = (int)draw(2);

	for (size_t i = 0; i < count; i++) {
		pages[i] = part + i * PAGE;
		nodes[i] = node;
	}
	return syscall(SYS_move_pages, 0, count, pages, nodes, results,
		       MPOL_MF_MOVE) < 0;
}

/* Pages that are equal, all zero or not, become one, and many again. */
static int merge(void)
{
	uint64_t first = draw(2) ? word(part) : 0;
	int result;

	for (size_t i = 0; i < part_size; i += PAGE)
		fill(part + i, PAGE, first);
	result = madvise(part, part_size, MADV_MERGEABLE);
	nap((long)draw(500));
	for (int i = 0; i < 2; i++) {
		for (size_t j = 0; j < part_size; j += PAGE)
			compare(part + j, PAGE, first);
		madvise(part, part_size, MADV_UNMERGEABLE);
	}
	fill(part, part_size, word(part));
	return result;
}

/* Pages that a pipe has are dropped, and read or written to a file later. */
static int gift(void)
{
	int ends[2], other = open("/tmp", O_TMPFILE | O_RDWR, 0600), result;
	size_t size = smaller(part_size, MIDDLE);
	struct iovec given = { part, size };

	result = pipe(ends) ||
		 vmsplice(ends[1], &given, 1, SPLICE_F_GIFT) != (ssize_t)size ||
		 drop();
	if (!result)
		touch(part, part_size);
	if (!result && draw(2)) {
		result = splice(ends[0], NULL, other, NULL, size,
				SPLICE_F_MOVE) != (ssize_t)size;
		lseek(other, 0, SEEK_SET);
		result = result || compare_file(other, size, word(part));
	} else if (!result) {
		result = compare_file(ends[0], size, word(part));
	}
	close(ends[0]);
	close(ends[1]);
	close(other);
	return result;
}

static int set(const char *path, long value)
{
	char text[16];
	int fd = open(path, O_WRONLY), result;

	snprintf(text, sizeof(text), "%ld", value);
	result = write(fd, text, strlen(text)) < 0;
	close(fd);
	return result;
}

static int compact(void)
{
	return set("/proc/sys/vm/compact_memory", 1);
}

static int drop_caches(void)
{
	return set("/proc/sys/vm/drop_caches", 3);
}

static int resize_pool(void)
{
	return set("/proc/sys/vm/nr_hugepages",
		   pool - (long)draw((size_t)pool / 4 + 1));
}

/* A buffer of the kernel's that can only be read. */
static int read_perf(void)
{
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
					 .size = sizeof(event),
					 .config = PERF_COUNT_SW_DUMMY };
	int fd = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
	size_t size = RING_PAGES * PAGE;
	char *at = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);

	close(fd);
	if (at == MAP_FAILED)
		return -1;
	compare(at + PAGE, size, 0);
	return munmap(at, size + PAGE);
}

/* A program that begins has memory that is no area: see begin(). */
static int execute(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "adversary", NULL);
		_exit(127);
	}
	if (pid > 0 && !ended_well(pid))
		sum->bad++;
	return pid < 0;
}

/* Ways to free an area; what is left is freed after that. */

/* Each second piece of it, then the others; or all at once. */
static int unmap(void)
{
	size_t size = unit * (1 + area_size / unit / MOST_PIECES);

	if (!argument)
		return munmap(area, area_size);
	for (size_t odd = 1; odd < 3; odd++)
		for (size_t i = odd % 2 * size; i < area_size; i += 2 * size)
			if (munmap(area + i, smaller(size, area_size - i)))
				return -1;
	return 0;
}

static int release(void)
{
	return (int)syscall(SYS_io_destroy, ring);
}

#endif
