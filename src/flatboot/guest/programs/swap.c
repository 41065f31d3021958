// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a block device swap space and uses it.
 *
 *	swap DEVICE	swap.kb=its size
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#include "guest.h"

enum { PAGE = 4096, VERSION_AT = 1024, SIGNATURE_SIZE = 10 };

/* The first page, see union swap_header in the kernel's linux/swap.h. */
int main(int argc, char **argv)
{
	uint32_t info[3] = { 1 }; /* version, last page, bad pages */
	char page[PAGE] = { 0 };
	off_t size;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: swap DEVICE\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR);
	size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (size < 2 * PAGE) {
		perror(argv[1]);
		return 2;
	}
	info[1] = (uint32_t)(size / PAGE - 1);
	memcpy(page + VERSION_AT, info, sizeof(info));
	memcpy(page + PAGE - SIGNATURE_SIZE, "SWAPSPACE2", SIGNATURE_SIZE);
	if (pwrite(fd, page, PAGE, 0) != PAGE || fsync(fd) ||
	    swapon(argv[1], 0)) {
		perror(argv[1]);
		return 2;
	}
	printf(RESULT "swap.kb=%lld\n", (long long)size / 1024);
	return 0;
}
