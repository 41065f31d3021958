// SPDX-License-Identifier: GPL-2.0
/*
 * Looks at pages by their numbers, through the files that the kernel has.
 *
 *	pages idle LABEL	marks all pages idle: idle.LABEL.pages, and of
 *				those .idle, which took the mark
 *	pages kcore LABEL	reads every sixteenth page of memory, and one of
 *				its own, from /proc/kcore: kcore.LABEL.pages,
 *				.empty (zeroes only), .own (1 if it is right)
 *	pages devmem LABEL ADDRESS	devmem.LABEL=ok, or the error's name
 *	pages raw LABEL ADDRESS	raw.LABEL=poison if the struct page is as early
 *				boot left it (with DEBUG_VM), or written
 *	pages reserved LABEL	has kpageflags look at a page of each block that
 *				is poison: reserved.LABEL.N=address of each that
 *				was written then
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { PAGE = 4096, BLOCK = 4 << 20, STRUCT_PAGE = 64 };
enum { STRIDE = 16, MOST_SEGMENTS = 64 };

static int opened(const char *path, int mode)
{
	int fd = open(path, mode);

	if (fd < 0)
		fail(path);
	return fd;
}

static void mark_idle(const char *label)
{
	int fd = opened("/sys/kernel/mm/page_idle/bitmap", O_RDWR);
	static uint64_t all[PAGE / 8], now[PAGE / 8];
	unsigned long long pages = 0, idle = 0;
	off_t offset = 0;
	ssize_t got;

	memset(all, 0xff, sizeof(all));
	while ((got = pread(fd, now, sizeof(now), offset)) > 0) {
		if (pwrite(fd, all, (size_t)got, offset) != got ||
		    pread(fd, now, (size_t)got, offset) != got)
			fail("page_idle");
		for (size_t i = 0; i < (size_t)got / 8; i++)
			idle += (unsigned int)__builtin_popcountll(now[i]);
		pages += (unsigned long long)got * 8;
		offset += got;
	}
	if (got < 0)
		fail("page_idle");
	printf(RESULT "idle.%s.pages=%llu\n", label, pages);
	printf(RESULT "idle.%s.idle=%llu\n", label, idle);
}

/* The physical address of a page of this process. */
static uint64_t physical(const void *page)
{
	int fd = opened("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (pread(fd, &entry, sizeof(entry),
		  (off_t)((uintptr_t)page / PAGE * sizeof(entry))) !=
	    sizeof(entry))
		fail("pagemap");
	close(fd);
	return (entry & ((1ULL << 55) - 1)) * PAGE;
}

/* A segment of /proc/kcore, and where it is mapped. */
static struct {
	int fd;
	int count;
	Elf64_Phdr segments[MOST_SEGMENTS];
} core;

static void open_core(void)
{
	Elf64_Ehdr header;
	ssize_t size;

	core.fd = opened("/proc/kcore", O_RDONLY);
	if (pread(core.fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.e_phnum > MOST_SEGMENTS)
		fail("kcore");
	core.count = header.e_phnum;
	size = core.count * (ssize_t)sizeof(core.segments[0]);
	if (pread(core.fd, core.segments, (size_t)size,
		  (off_t)header.e_phoff) != size)
		fail("kcore");
}

static void read_core(const Elf64_Phdr *part, uint64_t at, void *to,
		      size_t size)
{
	if (pread(core.fd, to, size, (off_t)(part->p_offset + at)) !=
	    (ssize_t)size)
		fail("kcore");
}

static void read_memory(const char *label)
{
	static char zeroes[PAGE], page[PAGE];
	unsigned long long pages = 0, empty = 0;
	uint64_t address;
	int found = 0;
	char *own;

	own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (own == MAP_FAILED || mlock(own, PAGE))
		fail("mmap");
	memset(own, 0x5a, PAGE);
	address = physical(own);
	open_core();
	for (int i = 0; i < core.count; i++) {
		const Elf64_Phdr *part = &core.segments[i];

		/* Only memory has a physical address. */
		if (part->p_type != PT_LOAD || part->p_paddr == UINT64_MAX)
			continue;
		for (uint64_t at = 0; at + PAGE <= part->p_memsz;
		     at += STRIDE * PAGE) {
			read_core(part, at, page, PAGE);
			pages++;
			empty += !memcmp(page, zeroes, PAGE);
		}
		if (address - part->p_paddr < part->p_memsz) {
			read_core(part, address - part->p_paddr, page, PAGE);
			found |= !memcmp(page, own, PAGE);
		}
	}
	printf(RESULT "kcore.%s.pages=%llu\n", label, pages);
	printf(RESULT "kcore.%s.empty=%llu\n", label, empty);
	printf(RESULT "kcore.%s.own=%d\n", label, found);
}

/*
 * Is the struct page all poison? The memory map is at one of two addresses,
 * with page tables of four levels and of five.
 */
static int is_poison(uint64_t address)
{
	static const uint64_t bases[] = { 0xffffea0000000000,
					  0xffd4000000000000 };
	unsigned char all[STRUCT_PAGE], now[STRUCT_PAGE];

	memset(all, 0xff, sizeof(all));
	for (int i = 0; i < core.count; i++) {
		const Elf64_Phdr *part = &core.segments[i];

		for (int base = 0; base < 2; base++) {
			uint64_t at = bases[base] +
				      address / PAGE * STRUCT_PAGE -
				      part->p_vaddr;

			if (part->p_type != PT_LOAD || at >= part->p_memsz)
				continue;
			read_core(part, at, now, sizeof(now));
			return !memcmp(now, all, sizeof(all));
		}
	}
	return -1;
}

static void show_raw(const char *label, uint64_t address)
{
	static const char *const states[] = { "absent", "written", "poison" };

	open_core();
	printf(RESULT "raw.%s=%s\n", label, states[is_poison(address) + 1]);
}

static uint64_t flags_of(uint64_t address)
{
	int fd = opened("/proc/kpageflags", O_RDONLY);
	uint64_t word;

	if (pread(fd, &word, sizeof(word),
		  (off_t)(address / PAGE * sizeof(word))) != sizeof(word))
		fail("kpageflags");
	close(fd);
	return word;
}

static void show_reserved(const char *label)
{
	uint64_t end = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
	int found = 0;

	open_core();
	for (uint64_t block = 0; block < 2 * end; block += BLOCK) {
		if (is_poison(block) != 1)
			continue;
		flags_of(block);
		if (is_poison(block) == 0)
			printf(RESULT "reserved.%s.%d=%#llx\n", label, found++,
			       (unsigned long long)block);
	}
}

static void read_device(const char *label, uint64_t address)
{
	int fd = opened("/dev/mem", O_RDONLY);
	char byte;

	printf(RESULT "devmem.%s=%s\n", label,
	       pread(fd, &byte, 1, (off_t)address) == 1
		       ? "ok"
		       : strerrorname_np(errno));
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	uint64_t address = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;

	if (!strcmp(verb, "idle") && argc == 3) {
		mark_idle(argv[2]);
	} else if (!strcmp(verb, "kcore") && argc == 3) {
		read_memory(argv[2]);
	} else if (!strcmp(verb, "devmem") && argc == 4) {
		read_device(argv[2], address);
	} else if (!strcmp(verb, "raw") && argc == 4) {
		show_raw(argv[2], address);
	} else if (!strcmp(verb, "reserved") && argc == 3) {
		show_reserved(argv[2]);
	} else {
		fprintf(stderr,
			"pages: see the comment at the top of pages.c\n");
		return 2;
	}
	return 0;
}
