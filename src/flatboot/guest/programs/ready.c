// SPDX-License-Identifier: GPL-2.0
/*
 * Wait until the kernel has said that its memory is ready, and tell when that
 * was.
 *
 *	ready		it has initialised its deferred pages
 *	ready added	it has added what mem= hid
 *
 * Results:
 *	ready.ticks	the raw counter
 *	ready.age_us	microseconds before it at which the memory was ready
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

#define NOW "flatboot: ready has found what it waited for"

int main(int argc, char **argv)
{
	const char *message = "deferred pages initialised";
	long long said = -1, stamp;
	uint64_t ticks = 0;
	char record[8192];
	ssize_t got;
	int fd = open("/dev/kmsg", O_RDWR);

	if (argc > 1 && !strcmp(argv[1], "added"))
		message = "MiB added in";
	if (fd < 0)
		fail("/dev/kmsg");
	for (;;) {
		got = read(fd, record, sizeof(record) - 1);
		if (got < 0 && errno == EPIPE)
			continue;
		if (got <= 0)
			fail("/dev/kmsg");
		record[got] = '\0';
		if (sscanf(record, "%*d,%*d,%lld", &stamp) != 1)
			continue;
		if (strstr(record, NOW))
			break;
		if (!strstr(record, message))
			continue;
		/* Mainline says it once a node: the last one counts. */
		if (said < 0) {
			ticks = counter();
			/* Readers see it when it has its end of line. */
			if (write(fd, "<7>" NOW "\n", strlen("<7>" NOW "\n")) <
			    0)
				fail("/dev/kmsg");
		}
		said = stamp;
	}
	close(fd);
	printf(RESULT "ready.ticks=%llu\n", (unsigned long long)ticks);
	printf(RESULT "ready.age_us=%lld\n", stamp - said);
	return 0;
}
