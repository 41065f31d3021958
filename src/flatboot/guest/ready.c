// SPDX-License-Identifier: GPL-2.0
/*
 * Tell when the memory map was ready: when the kernel said that it had
 * initialised its deferred pages; or, where it has not yet, when the file
 * "complete" of deferred_init was first seen to be 1.
 *
 *	ready
 *
 * Results:
 *	ready.ticks	the raw counter
 *	ready.age_us	microseconds before it at which the map was ready
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define COMPLETE "/sys/kernel/mm/deferred_init/complete"
#define MESSAGE "deferred pages initialised"
#define NOW "flatboot: ready looks for the end of deferred pages"

static int complete(void)
{
	char value;
	int fd = open(COMPLETE, O_RDONLY);

	if (fd < 0 || read(fd, &value, 1) != 1)
		fail(COMPLETE);
	close(fd);
	return value == '1';
}

/* The age, in microseconds, of the last message that holds MESSAGE; or -1. */
static long long age(void)
{
	long long said = -1, stamp;
	static char record[8192];
	ssize_t got;
	int fd = open("/dev/kmsg", O_RDWR | O_NONBLOCK);

	/* Without its end of line a message is not there for readers yet. */
	if (fd < 0 || write(fd, "<7>" NOW "\n", strlen("<7>" NOW "\n")) < 0)
		fail("/dev/kmsg");
	for (;;) {
		got = read(fd, record, sizeof(record) - 1);
		if (got < 0 && errno == EPIPE)
			continue;
		if (got <= 0)
			break;
		record[got] = '\0';
		if (sscanf(record, "%*d,%*d,%lld", &stamp) != 1)
			continue;
		if (strstr(record, NOW))
			return said < 0 ? said : stamp - said;
		if (strstr(record, MESSAGE))
			said = stamp;
	}
	return -1;
}

int main(void)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	uint64_t ticks = counter();
	long long us = age();

	if (us < 0) {
		us = 0;
		while (!complete())
			nanosleep(&nap, NULL);
		ticks = counter();
	}
	printf(RESULT "ready.ticks=%llu\n", (unsigned long long)ticks);
	printf(RESULT "ready.age_us=%lld\n", us);
	return 0;
}
