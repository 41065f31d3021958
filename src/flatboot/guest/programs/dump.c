// SPDX-License-Identifier: GPL-2.0
/*
 * What the tests of crash dumps do in a guest.
 *
 *	dump keep MIB		leave a process that holds MIB MiB each of small
 *				pages, huge pages, and a file in /tmp
 *	dump log TEXT		write TEXT into the kernel log
 *	dump crash		say on the console that it is wanted; panic
 *	dump find MIB		look for what "keep MIB" keeps in /proc/kcore
 *	dump copy FROM TO	copy FROM, such as /proc/vmcore, to the block
 *				device TO, but for pages of zeros
 *
 * A page that is kept tells what it is, in 64-bit words: MARK, its kind, its
 * number among those of its kind, and then its number plus the word's place.
 *
 * Results:
 *	dump.kept.KIND		pages kept: small, huge, file
 *	dump.found.KIND		of these, found
 *	dump.read		bytes of memory read
 *	dump.copied		bytes of FROM
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define MARK 0x746f6f6274616c66 /* "flatboot" */

enum { PAGE = 4096, WORDS = PAGE / 8, FIRST = 3, CHUNK = 4 << 20 };
enum { HUGE = 2 << 20 };
enum kind { SMALL, LARGE, IN_FILE, KINDS };

static const char *const kinds[] = { "small", "huge", "file" };

static void mark_page(uint64_t *words, enum kind kind, uint64_t number)
{
	words[0] = MARK;
	words[1] = kind;
	words[2] = number;
	for (uint64_t i = FIRST; i < WORDS; i++)
		words[i] = number + i;
}

static char *map(size_t size)
{
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	return area;
}

static void keep_memory(size_t size, enum kind kind)
{
	char *area = map(size + HUGE);

	area += -(uintptr_t)area & (HUGE - 1);
	if (madvise(area, size,
		    kind == LARGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		fail("madvise");
	for (size_t at = 0; at < size; at += PAGE)
		mark_page((uint64_t *)(area + at), kind, at / PAGE);
}

static void keep_file(size_t size)
{
	int fd = open("/tmp/kept", O_CREAT | O_RDWR, 0600);
	uint64_t page[WORDS];

	for (size_t at = 0; at < size; at += PAGE) {
		mark_page(page, IN_FILE, at / PAGE);
		if (write(fd, page, PAGE) != PAGE)
			fail("/tmp/kept");
	}
	close(fd);
	/* Of this program, only what it keeps is to look like that. */
	memset(page, 0, sizeof(page));
}

static int keep(size_t size)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		fail("pipe");
	if (fork() == 0) {
		keep_memory(size, SMALL);
		keep_memory(size, LARGE);
		keep_file(size);
		close(ready[0]);
		if (write(ready[1], "", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return 2;
	for (size_t kind = 0; kind < KINDS; kind++)
		printf(RESULT "dump.kept.%s=%zu\n", kinds[kind], size / PAGE);
	return 0;
}

/* Enter a page that is kept, with all of its words, in what was seen. */
static void look(const uint64_t *words, size_t pages, char *seen)
{
	uint64_t i;

	if (words[0] != MARK || words[1] >= KINDS || words[2] >= pages)
		return;
	for (i = FIRST; i < WORDS && words[i] == words[2] + i; i++)
		;
	if (i == WORDS)
		seen[words[1] * pages + words[2]] = 1;
}

static void find(size_t pages)
{
	static uint64_t part[CHUNK / 8];
	char *seen = calloc(KINDS, pages);
	int fd = open("/proc/kcore", O_RDONLY);
	unsigned long long total = 0;
	Elf64_Ehdr head;
	Elf64_Phdr load;

	if (!seen || fd < 0 || pread(fd, &head, sizeof(head), 0) < 0)
		fail("/proc/kcore");
	for (int i = 0; i < head.e_phnum; i++) {
		off_t at = (off_t)(head.e_phoff + (size_t)i * sizeof(load));

		if (pread(fd, &load, sizeof(load), at) != sizeof(load))
			fail("/proc/kcore");
		/* What is mapped without being memory has no address of it. */
		if (load.p_type != PT_LOAD || load.p_paddr == (Elf64_Addr)-1)
			continue;
		for (size_t done = 0; done < load.p_filesz; done += CHUNK) {
			size_t left = load.p_filesz - done;
			ssize_t got =
				pread(fd, part, left < CHUNK ? left : CHUNK,
				      (off_t)(load.p_offset + done));

			if (got < 0)
				fail("/proc/kcore");
			for (ssize_t word = 0; word < got / 8; word += WORDS)
				look(part + word, pages, seen);
			total += (unsigned long long)got;
		}
	}
	for (size_t kind = 0; kind < KINDS; kind++) {
		size_t found = 0;

		for (size_t page = 0; page < pages; page++)
			found += (size_t)seen[kind * pages + page];
		printf(RESULT "dump.found.%s=%zu\n", kinds[kind], found);
	}
	printf(RESULT "dump.read=%llu\n", total);
}

/* Reading /proc/vmcore maps a page at a time, mapping it many: faster. */
static void copy(const char *from, const char *to)
{
	static const char zeros[PAGE];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY);
	struct stat status;
	off_t at = 0;

	if (in < 0 || fstat(in, &status))
		fail(from);
	if (out < 0)
		fail(to);
	while (at < status.st_size) {
		off_t left = status.st_size - at;
		size_t size = left < CHUNK ? (size_t)left : CHUNK;
		char *part = mmap(NULL, size, PROT_READ, MAP_PRIVATE, in, at);

		if (part == MAP_FAILED)
			fail(from);
		for (size_t i = 0; i < size; i += PAGE)
			if (memcmp(part + i, zeros, PAGE) &&
			    pwrite(out, part + i, PAGE, at + (off_t)i) != PAGE)
				fail(to);
		munmap(part, size);
		at += (off_t)size;
	}
	if (fsync(out))
		fail(to);
	printf(RESULT "dump.copied=%lld\n", (long long)at);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (!strcmp(verb, "keep") && argc == 3)
		return keep((size_t)atol(argv[2]) << 20);
	if (!strcmp(verb, "log") && argc == 3) {
		put("/dev/kmsg", argv[2]);
	} else if (!strcmp(verb, "crash") && argc == 2) {
		printf(RESULT "panic=wanted\n");
		fflush(stdout);
		put("/proc/sysrq-trigger", "c");
	} else if (!strcmp(verb, "find") && argc == 3) {
		find(((size_t)atol(argv[2]) << 20) / PAGE);
	} else if (!strcmp(verb, "copy") && argc == 4) {
		copy(argv[2], argv[3]);
	} else {
		fprintf(stderr, "dump: see the comment at the top of dump.c\n");
		return 2;
	}
	return 0;
}
