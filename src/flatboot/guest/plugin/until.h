/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Up to where a plugin counts, and where it writes what it counted: arguments
 * out=PATH, the file; entry=ADDRESS, where a function begins, such as the first
 * of /init. The end is when the block there is first translated, which is right
 * before it runs. A guest that does not come so far leaves the file as it was.
 */
#ifndef UNTIL_H
#define UNTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *out;
static uint64_t entry;
/* Firmware may run at the same low address, but only before the kernel. */
static bool in_kernel;
/* Was the end reached? */
static bool done;

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

static inline void *zeroed(size_t count, size_t size)
{
	void *made = calloc(count, size);

	if (!made)
		fail("calloc");
	return made;
}

/* Is @word an argument that says where to end or to write? */
static inline bool takes(const char *word)
{
	if (!strncmp(word, "out=", 4))
		out = word + 4;
	else if (!strncmp(word, "entry=", 6))
		entry = strtoull(word + 6, NULL, 0);
	else
		return false;
	return true;
}

/* Is the block at @address, which is being translated, where to end? */
static inline bool ends_at(uint64_t address)
{
	in_kernel |= address >> 63;
	return in_kernel && address == entry;
}

static inline FILE *opened(void)
{
	FILE *file = fopen(out, "w");

	if (!file)
		fail(out);
	return file;
}

static inline void closed(FILE *file)
{
	if (fclose(file))
		fail(out);
}

#endif
