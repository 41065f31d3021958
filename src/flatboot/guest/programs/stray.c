// SPDX-License-Identifier: GPL-2.0
/*
 * Let a device write to memory that is free, as a broken driver does.
 *
 *	stray KEY PAGES SECONDS DEVICE
 *
 * Huge pages are used and freed again. After SECONDS, a word is written into
 * PAGES of their pages, 256 at most, or as many of those as are free then.
 * DEVICE is QEMU's "edu", by its address such as 0000:00:04.0; its registers
 * are in QEMU's docs/specs/edu.
 *
 * Result:
 *	KEY.written	pages that were written to
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { PAGE = 4096, HUGE = 2 << 20, HUGE_PAGES = 256, MIDDLE = PAGE / 2 };

/* Bits of /proc/self/pagemap and /proc/kpageflags. */
#define PFN_MASK ((1ULL << 55) - 1)
#define BUDDY (1ULL << 10)

#define PAGEMAP "/proc/self/pagemap"
#define KPAGEFLAGS "/proc/kpageflags"

static uint64_t entry(int fd, const char *path, uint64_t index)
{
	uint64_t value;

	if (pread(fd, &value, sizeof(value), (off_t)(index * sizeof(value))) !=
	    sizeof(value))
		fail(path);
	return value;
}

static uint64_t pfn_of(int pagemap, const void *address)
{
	return entry(pagemap, PAGEMAP, (uintptr_t)address / PAGE) & PFN_MASK;
}

/* Registers of the device, in words of 64 bits, its buffer, and commands. */
enum { SOURCE = 16, TARGET, COUNT, COMMAND, REGISTERS = 1 << 20 };
enum { BUFFER = 0x40000, START = 1, TO_MEMORY = 2 };

static volatile uint64_t *registers_of(const char *device)
{
	char path[128];
	uint16_t command = 0;
	void *registers;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/enable", device);
	put(path, "1");
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", device);
	fd = open(path, O_RDWR);
	if (fd < 0 || pread(fd, &command, 2, 4) != 2)
		fail(path);
	/* It may master the bus. */
	command |= 1 << 2;
	if (pwrite(fd, &command, 2, 4) != 2)
		fail(path);
	close(fd);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource0",
		 device);
	fd = open(path, O_RDWR);
	registers = mmap(NULL, REGISTERS, PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
	if (fd < 0 || registers == MAP_FAILED)
		fail(path);
	close(fd);
	return registers;
}

static void transfer(volatile uint64_t *registers, uint64_t source,
		     uint64_t target, uint64_t command)
{
	registers[SOURCE] = source;
	registers[TARGET] = target;
	registers[COUNT] = sizeof(uint64_t);
	registers[COMMAND] = START | command;
	while (registers[COMMAND] & START)
		nap(1);
}

int main(int argc, char **argv)
{
	size_t size = (size_t)HUGE * HUGE_PAGES;
	uint64_t pfns[HUGE_PAGES], *word;
	volatile uint64_t *registers;
	int pagemap, flags;
	long written = 0;
	char *at;

	if (argc != 5) {
		fprintf(stderr,
			"stray: see the comment at the top of stray.c\n");
		return 2;
	}
	pagemap = open(PAGEMAP, O_RDONLY);
	flags = open(KPAGEFLAGS, O_RDONLY);
	if (pagemap < 0 || flags < 0)
		fail("stray: " PAGEMAP ", " KPAGEFLAGS);
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at == MAP_FAILED || word == MAP_FAILED ||
	    madvise(at, size, MADV_HUGEPAGE))
		fail("stray: mmap");
	memset(at, 1, size);
	for (size_t i = 0; i < HUGE_PAGES; i++)
		pfns[i] = pfn_of(pagemap, at + i * HUGE);
	munmap(at, size);

	registers = registers_of(argv[4]);
	*word = 0xdeadbeef;
	transfer(registers, pfn_of(pagemap, word) * PAGE, BUFFER, 0);
	nap(atol(argv[3]) * 1000);
	/* From all over: what was cleared last is taken last. */
	for (long i = 0; i < HUGE_PAGES; i += HUGE_PAGES / atol(argv[2])) {
		if (!(entry(flags, KPAGEFLAGS, pfns[i]) & BUDDY))
			continue;
		transfer(registers, BUFFER, pfns[i] * PAGE + MIDDLE, TO_MEMORY);
		written++;
	}
	printf(RESULT "%s.written=%ld\n", argv[1], written);
	return 0;
}
