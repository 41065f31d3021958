// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a pool of huge pages larger, and tells how long that took.
 *
 *	grow KEY FILE PAGES	write PAGES to FILE, such as nr_hugepages
 *	grow stop KEY FILE PAGES AFTER
 *				the same by a process that gets a signal
 *				once the pool has AFTER pages
 *
 * FILE is below /sys/kernel/mm/hugepages/. Results:
 *	KEY.ticks	how long the write took, in ticks of the raw counter
 *	KEY.pages	what FILE says then
 *	KEY.stop_ticks	how long the process went on after the signal
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define POOLS "/sys/kernel/mm/hugepages/"

enum { POLL_NS = 200000, PATH = 256 };

static void path_of(char *path, const char *file)
{
	snprintf(path, PATH, "%s%s", POOLS, file);
}

/* The number in a file, or 0. */
static unsigned long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long number = 0;

	if (file) {
		if (fscanf(file, "%lu", &number) != 1)
			number = 0;
		fclose(file);
	}
	return number;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return errno;
	close(fd);
	return 0;
}

static void report(const char *key, const char *file, uint64_t ticks)
{
	char path[PATH];

	printf(RESULT "%s.ticks=%llu\n", key, (unsigned long long)ticks);
	path_of(path, file);
	printf(RESULT "%s.pages=%lu\n", key, read_number(path));
}

static int grow(const char *key, const char *file, const char *pages)
{
	char path[PATH];
	uint64_t start;
	int error;

	path_of(path, file);
	start = counter();
	error = write_text(path, pages);
	if (error) {
		fprintf(stderr, "grow: %s: %s\n", path, strerror(error));
		return 1;
	}
	report(key, file, counter() - start);
	return 0;
}

static int stop(const char *key, const char *file, const char *pages,
		unsigned long after)
{
	struct timespec pause = { .tv_nsec = POLL_NS };
	unsigned long now = 0;
	uint64_t start, sent;
	char path[PATH];
	pid_t child;

	path_of(path, file);
	start = counter();
	child = fork();
	if (!child)
		_exit(write_text(path, pages) ? 1 : 0);
	while (now < after && !waitpid(child, NULL, WNOHANG)) {
		now = read_number(path);
		nanosleep(&pause, NULL);
	}
	sent = counter();
	kill(child, SIGTERM);
	waitpid(child, NULL, 0);
	printf(RESULT "%s.stop_ticks=%llu\n", key,
	       (unsigned long long)(counter() - sent));
	report(key, file, counter() - start);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return grow(argv[1], argv[2], argv[3]);
	if (argc == 6 && !strcmp(argv[1], "stop"))
		return stop(argv[2], argv[3], argv[4],
			    strtoul(argv[5], NULL, 10));
	fprintf(stderr, "usage: grow [stop] KEY FILE PAGES [AFTER]\n");
	return 2;
}
