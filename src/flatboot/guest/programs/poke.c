// SPDX-License-Identifier: GPL-2.0
/*
 * Reads and writes files of the kernel, one a call, and tells how it went.
 *
 *	poke write LABEL PATH TEXT	write.LABEL=ok, or the error's name
 *	poke later LABEL PATH TEXT	the same by a process that stays behind
 *	poke show LABEL PATH		prints the file, as LABEL
 *	poke list LABEL PATH		prints the paths below, as LABEL
 *	poke drain LABEL PATH		reads all of it: drain.LABEL=bytes
 *	poke await LABEL PATH TEXT	await.LABEL=ok once the file is TEXT and
 *					a line end, or late after 60 s
 *	poke sysinfo LABEL		sysinfo.LABEL.total and .free in kB
 *	poke ticks LABEL		ticks.LABEL=the raw counter
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static char buffer[1 << 20];

static void report(const char *verb, const char *label, ssize_t result)
{
	if (result < 0)
		printf(RESULT "%s.%s=%s\n", verb, label,
		       strerrorname_np(errno));
	else
		printf(RESULT "%s.%s=ok\n", verb, label);
	fflush(stdout);
}

static void write_file(const char *label, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	report("write", label, fd < 0 ? fd : write(fd, text, strlen(text)));
}

/* Read all of a file; with @print, print it. Returns bytes or -1. */
static long long read_file(const char *path, int print)
{
	int fd = open(path, O_RDONLY);
	long long total = 0;
	ssize_t got;

	if (fd < 0)
		return -1;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
		if (print)
			fwrite(buffer, 1, (size_t)got, stdout);
		total += got;
	}
	return got < 0 ? -1 : total;
}

static void show(const char *label, const char *path)
{
	long long total;

	printf(RESULT "begin %s\n", label);
	total = read_file(path, 1);
	printf("\n" RESULT "end %s %lld\n", label, total < 0 ? 0 : total);
}

static int print_path(const char *path, const struct stat *about, int type,
		      struct FTW *level)
{
	(void)about;
	(void)type;
	(void)level;
	puts(path);
	return 0;
}

static void list(const char *label, const char *path)
{
	printf(RESULT "begin %s\n", label);
	nftw(path, print_path, 16, FTW_PHYS);
	printf(RESULT "end %s 0\n", label);
}

static void drain(const char *label, const char *path)
{
	long long total = read_file(path, 0);

	if (total < 0)
		report("drain", label, -1);
	else
		printf(RESULT "drain.%s=%lld\n", label, total);
}

static void await(const char *label, const char *path, const char *text)
{
	struct timespec tick = { .tv_nsec = 10000000 };
	size_t length = strlen(text);

	for (int i = 0; i < 6000; i++) {
		int fd = open(path, O_RDONLY);
		ssize_t got = read(fd, buffer, sizeof(buffer));

		close(fd);
		if (got == (ssize_t)length + 1 &&
		    !memcmp(buffer, text, length)) {
			report("await", label, 0);
			return;
		}
		nanosleep(&tick, NULL);
	}
	printf(RESULT "await.%s=late\n", label);
}

static void show_sysinfo(const char *label)
{
	struct sysinfo info;

	sysinfo(&info);
	printf(RESULT "sysinfo.%s.total=%llu\n", label,
	       (unsigned long long)info.totalram * info.mem_unit / 1024);
	printf(RESULT "sysinfo.%s.free=%llu\n", label,
	       (unsigned long long)info.freeram * info.mem_unit / 1024);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";

	if (!strcmp(verb, "write") && argc == 5) {
		write_file(argv[2], argv[3], argv[4]);
	} else if (!strcmp(verb, "later") && argc == 5) {
		if (fork() == 0)
			write_file(argv[2], argv[3], argv[4]);
	} else if (!strcmp(verb, "await") && argc == 5) {
		await(argv[2], argv[3], argv[4]);
	} else if (!strcmp(verb, "show") && argc == 4) {
		show(argv[2], argv[3]);
	} else if (!strcmp(verb, "list") && argc == 4) {
		list(argv[2], argv[3]);
	} else if (!strcmp(verb, "drain") && argc == 4) {
		drain(argv[2], argv[3]);
	} else if (!strcmp(verb, "sysinfo") && argc == 3) {
		show_sysinfo(argv[2]);
	} else if (!strcmp(verb, "ticks") && argc == 3) {
		printf(RESULT "ticks.%s=%llu\n", argv[2],
		       (unsigned long long)counter());
	} else {
		fprintf(stderr, "poke: see the comment at the top of poke.c\n");
		return 2;
	}
	return 0;
}
