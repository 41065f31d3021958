/* SPDX-License-Identifier: GPL-2.0 */
/* The area of memory that a process of adversary.c is at, and what it holds. */
#ifndef FLATBOOT_ADVERSARY_AREA_H
#define FLATBOOT_ADVERSARY_AREA_H

#include <linux/aio_abi.h>
#include <linux/mman.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"

enum { PAGE = 4096, MIDDLE = 64 << 10, HUGE = 2 << 20 };
enum { MOST_WAYS = 64, MOST_REPORTS = 5, SCATTER = 7919 };

/* Each step of a process gets, touches, uses and frees an area. */
enum stage { SOURCE, TOUCH, USE, FREE, STAGES };

/* What an area is: a way needs some of it, and cannot have other. */
enum {
	PRIVATE = 1,
	SHARED = 2,
	WITH_FILE = 4,
	POOL = 8,    /* pages of a hugetlb pool */
	BIG = 16,    /* 2 MiB or more, of other pages */
	SMALL = 32,  /* less than 2 MiB, in units of 64 KiB */
	KERNEL = 64, /* a buffer of the kernel's that is mapped */
	NEVER = 128
};

/* What a part holds once it was used: what it did, zeroes, or any of both. */
enum left { KEPT, HOLE, EITHER };

/* The area, the part of it that is used, and room for what is no area. */
static char *area, *part, *window, *spare;
static size_t area_size, part_size, unit, most = 16 << 20;
static int traits, file;
static aio_context_t ring;
static enum left left;

/* Who does what to it; key is what the words that are written begin with. */
static uint64_t state, key;
static int worker, reports;
static const char *now[STAGES];
static unsigned long argument;
static _Alignas(PAGE) char buffer[1 << 20];

/* What all processes found. */
static struct {
	atomic_ulong steps, bytes, bad, broken;
	atomic_ulong used[MOST_WAYS], refused[MOST_WAYS];
	atomic_int error[MOST_WAYS];
} * sum;

static size_t draw(size_t end)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % end;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The word that belongs at an address of the area. */
static uint64_t word(const char *at)
{
	return key + (uint64_t)(at - area) / 8;
}

/* A line for people, at once. */
static void say(const char *what, long offset, uint64_t is, uint64_t expected)
{
	dprintf(STDOUT_FILENO,
		"adversary: %s: %s, %s, %s: process %d, step %d, offset %#lx: "
		"%#llx, not %#llx\n",
		what, now[SOURCE], now[TOUCH], now[USE], worker,
		(int)(key >> 32 & 0xffffff), offset, (unsigned long long)is,
		(unsigned long long)expected);
}

/* Count it, and tell of the first word of a page. */
static void report(const char *at, uint64_t is, uint64_t expected)
{
	static uintptr_t last;
	long offset = at - area;

	for (uint64_t wrong = is ^ expected; wrong; wrong >>= 8)
		if (wrong & 0xff)
			(*(expected ? &sum->broken : &sum->bad))++;
	if (offset < 0 || offset >= (long)area_size)
		offset = (long)((uintptr_t)at % PAGE);
	if ((uintptr_t)at / PAGE != last && reports++ < MOST_REPORTS)
		say(expected ? "broken" : "not zero", offset, is, expected);
	last = (uintptr_t)at / PAGE;
}

/* Are there zeroes, or words that count up from @first if that is not 0? */
static void compare(const void *at, size_t size, uint64_t first)
{
	const volatile uint64_t *words = at;

	for (size_t i = 0; i < size / 8; i++) {
		uint64_t is = words[i], expected = first ? first + i : 0;

		if (is != expected)
			report((const char *)at + i * 8, is, expected);
	}
	sum->bytes += size;
}

/* The same of what is to be read from a file or a pipe. */
static int compare_file(int fd, size_t size, uint64_t first)
{
	for (size_t i = 0; i < size;) {
		size_t some = smaller(size - i, sizeof(buffer));
		ssize_t got = read(fd, buffer, some);

		if (got <= 0)
			return -1;
		compare(buffer, (size_t)got, first ? first + i / 8 : 0);
		i += (size_t)got;
	}
	return 0;
}

static void fill(void *at, size_t size, uint64_t first)
{
	for (size_t i = 0; i < size / 8; i++)
		((volatile uint64_t *)at)[i] = first ? first + i : 0;
}

/*
 * Write to each page at first, in an order that is drawn: to read would show
 * the kernel's page of zeroes.
 */
static void touch(char *at, size_t size)
{
	size_t head = (uintptr_t)at % PAGE;
	size_t pages = (head + size + PAGE - 1) / PAGE, page = draw(pages);
	size_t stride = draw(2) ? 1 : SCATTER;

	for (size_t i = 0; i < pages; i++, page = (page + stride) % pages) {
		size_t from = page ? page * PAGE - head : 0;
		size_t to = smaller((page + 1) * PAGE - head, size);
		char *place = at + from + draw((to - from) / 8) * 8;
		uint64_t is = atomic_exchange((_Atomic uint64_t *)place, 0);

		if (is)
			report(place, is, 0);
	}
}

/* Does the area hold what it should, now that the part was used? */
static void check(void)
{
	char *end = part + part_size;

	compare(area, (size_t)(part - area), key);
	compare(end, area_size - (size_t)(end - area), word(end));
	if (left == HOLE && draw(4))
		touch(part, part_size);
	if (left != EITHER)
		compare(part, part_size, left == HOLE ? 0 : word(part));
	for (char *at = part; left == EITHER && at < end; at += 8)
		if (*(volatile uint64_t *)at)
			compare(at, 8, word(at));
	if (left != KEPT)
		fill(part, part_size, word(part));
}

static void take_all(void)
{
	part = area;
	part_size = area_size;
}

static void draw_part(void)
{
	size_t units = area_size / unit, from = draw(units);

	part = area + from * unit;
	part_size = (1 + draw(units - from)) * unit;
}

/* Addresses for areas of twice the size, with nothing there. */
static char *reserve(char *at)
{
	char *got = mmap(at, 2 * most + 2 * HUGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 (at ? MAP_FIXED : 0),
			 -1, 0);

	if (got == MAP_FAILED)
		fail("adversary: mmap");
	return at ? at : got + (-(uintptr_t)got & (HUGE - 1));
}

#endif
