/* SPDX-License-Identifier: GPL-2.0 */
/* What programs share that work by the kernel's files, with the C library. */
#ifndef FLATBOOT_GUEST_FILES_H
#define FLATBOOT_GUEST_FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* The text of a file; the next call overwrites it. */
static inline char *text_of(const char *path)
{
	static char text[1 << 18];
	size_t total = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		fail(path);
	while ((got = read(fd, text + total, sizeof(text) - 1 - total)) > 0)
		total += (size_t)got;
	close(fd);
	text[total] = '\0';
	return text;
}

/* The number behind @key in a file, or 0. */
static inline long number(const char *path, const char *key)
{
	char *found = strstr(text_of(path), key);

	return found ? atol(found + strlen(key)) : 0;
}

static inline void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail(path);
	close(fd);
}

static inline void nap(long milliseconds)
{
	struct timespec time = { .tv_sec = milliseconds / 1000,
				 .tv_nsec = milliseconds % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

#endif
