// SPDX-License-Identifier: GPL-2.0
/*
 * deferred-memd - add the memory that mem= kept from boot, block by block
 *
 * USAGE below says how to call it. The kernel's part is in
 * Documentation/admin-guide/mm/deferred_mem.rst. It adds what this program
 * leaves out, so a failure here loses no memory.
 *
 * All paths are relative to /sys, where main() goes: the program works on when
 * it was started from an initramfs and the root is switched under it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "kernel/deferred_mem_init/"
#define BLOCKS "devices/system/memory/"
#define MAX_RANGES 256
/* The kernel ends long before, whatever fails. */
#define PATIENCE_S 300

#define VERSION "deferred-memd 1.1"
#define USAGE                                                                  \
	"usage: deferred-memd [--sysfs DIR] [[--json] --plan | [--json] "      \
	"--status]\n"                                                          \
	"\n"                                                                   \
	"Adds the memory that mem= kept from boot, and tells the kernel when " \
	"done.\n"                                                              \
	"\n"                                                                   \
	"  --plan       show what that would do, and do nothing\n"             \
	"  --status     show what is there\n"                                  \
	"  --json       show it as JSON\n"                                     \
	"  --sysfs DIR  in place of /sys\n"                                    \
	"  --help, --version\n"                                                \
	"\n"                                                                   \
	"Exit status: 0 if all of that memory is online where it is planned\n" \
	"(--plan: always), 1 if not, 2 if this could not be found out.\n"

enum block_state { ABSENT, OFFLINE, ONLINE };

struct range {
	unsigned long long start;
	unsigned long long end; /* the last byte */
	int node;
	char zone[8]; /* "kernel" or "movable" */
};

static struct range ranges[MAX_RANGES];
static int nr_ranges;
static unsigned long long block_size;

__attribute__((format(printf, 1, 2), noreturn)) static void
give_up(const char *format, ...)
{
	va_list arguments;

	fputs("deferred-memd: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

/* The text of a file without the line end; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t total = 0;
	ssize_t got = 0;

	if (fd < 0)
		return false;
	while (total < size - 1 &&
	       (got = read(fd, text + total, size - 1 - total)) > 0)
		total += (size_t)got;
	close(fd);
	while (total && text[total - 1] == '\n')
		total--;
	text[total] = '\0';
	return got >= 0;
}

/* Returns 0 or an errno. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

static void read_plan(void)
{
	static char text[65536];
	char *line, *rest = text;

	if (!read_text(BLOCKS "block_size_bytes", text, sizeof(text)))
		give_up("/sys/%sblock_size_bytes: %s: is memory hotplug built "
			"in, and /sys mounted?",
			BLOCKS, strerror(errno));
	block_size = strtoull(text, NULL, 16);
	if (!read_text(DIRECTORY "plan", text, sizeof(text)))
		give_up("/sys/%splan: %s: boot with mem= and "
			"deferred_mem.mode=auto or user",
			DIRECTORY, strerror(errno));
	while ((line = strsep(&rest, "\n")) && *line) {
		struct range *range = ranges + nr_ranges;

		if (nr_ranges == MAX_RANGES)
			give_up("/sys/%splan has more than %d lines", DIRECTORY,
				MAX_RANGES);
		if (sscanf(line, "%llx-%llx %d %7s", &range->start, &range->end,
			   &range->node, range->zone) != 4)
			give_up("/sys/%splan holds what this version does not "
				"know: %s",
				DIRECTORY, line);
		nr_ranges++;
	}
}

static void block_path(char *path, size_t size, unsigned long long start,
		       const char *file)
{
	snprintf(path, size, BLOCKS "memory%llu/%s", start / block_size, file);
}

static enum block_state block_state(unsigned long long start)
{
	char path[128], text[32];

	block_path(path, sizeof(path), start, "state");
	if (!read_text(path, text, sizeof(text)))
		return ABSENT;
	return strcmp(text, "online") ? OFFLINE : ONLINE;
}

/* Is a block that is online in a zone other than the planned one? */
static bool is_elsewhere(const struct range *range, unsigned long long start)
{
	char path[128], text[64];

	block_path(path, sizeof(path), start, "valid_zones");
	/* Kernels that cannot take memory away do not say. */
	if (block_state(start) != ONLINE ||
	    !read_text(path, text, sizeof(text)))
		return false;
	return !strcmp(text, "Movable") != !strcmp(range->zone, "movable");
}

static unsigned long long blocks_elsewhere(const struct range *range)
{
	unsigned long long start, count = 0;

	for (start = range->start; start < range->end; start += block_size)
		count += is_elsewhere(range, start);
	return count;
}

static unsigned long long blocks_online(const struct range *range)
{
	unsigned long long start, count = 0;

	for (start = range->start; start < range->end; start += block_size)
		count += block_state(start) == ONLINE;
	return count;
}

/* Returns 0 or an errno. */
static int add_block(const struct range *range, unsigned long long start)
{
	char text[64], path[128];

	if (block_state(start) == ABSENT) {
		snprintf(text, sizeof(text), "%#llx %s\n", start, range->zone);
		return write_text(DIRECTORY "add", text);
	}
	/* Somebody added it and did not bring it online. */
	block_path(path, sizeof(path), start, "state");
	snprintf(text, sizeof(text), "online_%s", range->zone);
	return write_text(path, text);
}

/* Wait until the kernel has added what was left to it. */
static void await_kernel(void)
{
	struct pollfd polled = { .events = POLLPRI };
	char state[32];
	int seconds;

	for (seconds = 0; seconds < PATIENCE_S; seconds++) {
		polled.fd = open(DIRECTORY "state", O_RDONLY | O_CLOEXEC);
		/* What is read before it changes is not told of. */
		if (!read_text(DIRECTORY "state", state, sizeof(state)) ||
		    !strcmp(state, "complete") ||
		    !strcmp(state, "incomplete")) {
			close(polled.fd);
			return;
		}
		poll(&polled, 1, 1000);
		close(polled.fd);
	}
}

/* Tell of all that is not as planned; returns the exit status. */
static int verify(void)
{
	unsigned long long start;
	int i, status = 0;

	for (i = 0; i < nr_ranges; i++) {
		for (start = ranges[i].start; start < ranges[i].end;
		     start += block_size) {
			if (block_state(start) != ONLINE)
				fprintf(stderr,
					"deferred-memd: block at %#llx: "
					"not online\n",
					start);
			else if (is_elsewhere(ranges + i, start))
				fprintf(stderr,
					"deferred-memd: block at %#llx: online "
					"in another zone than planned: is "
					"there a rule of udev, or "
					"memhp_default_state=?\n",
					start);
			else
				continue;
			status = 1;
		}
	}
	return status;
}

static int add_all(void)
{
	unsigned long long start;
	int i, pass, error;

	error = write_text(DIRECTORY "state", "user");
	if (error == EALREADY || error == EPERM) {
		puts("the kernel adds the memory itself");
		await_kernel();
		return verify();
	}
	if (error == EBUSY)
		give_up("another agent is at work");
	if (error)
		give_up("/sys/%sstate: %s: run it as root", DIRECTORY,
			strerror(error));

	/* Normal memory first: the kernel's tables for the rest need room. */
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < nr_ranges; i++) {
			if (strcmp(ranges[i].zone, pass ? "movable" : "kernel"))
				continue;
			for (start = ranges[i].start; start < ranges[i].end;
			     start += block_size) {
				if (block_state(start) == ONLINE)
					continue;
				error = add_block(ranges + i, start);
				if (!error)
					continue;
				fprintf(stderr,
					"deferred-memd: block at %#llx: %s: "
					"left to the kernel\n",
					start, strerror(error));
			}
		}
	}
	error = write_text(DIRECTORY "state", "done");
	if (error && error != EALREADY)
		give_up("/sys/%sstate: %s", DIRECTORY, strerror(error));
	await_kernel();
	return verify();
}

static void show_plan(bool json)
{
	int i;

	printf(json ? "{\"block_size\": %llu, \"ranges\": ["
		    : "memory blocks of %llu bytes\n",
	       block_size);
	for (i = 0; i < nr_ranges; i++) {
		const struct range *range = ranges + i;
		unsigned long long blocks =
			(range->end + 1 - range->start) / block_size;

		if (json)
			printf("%s{\"start\": %llu, \"end\": %llu, \"node\": "
			       "%d, \"zone\": \"%s\","
			       " \"blocks\": %llu}",
			       i ? ", " : "", range->start, range->end,
			       range->node, range->zone,
			       blocks - blocks_online(range));
		else
			printf("%#llx-%#llx on node %d: add %llu blocks, "
			       "online_%s\n",
			       range->start, range->end, range->node,
			       blocks - blocks_online(range), range->zone);
	}
	if (json)
		puts("]}");
}

static int show_status(bool json)
{
	unsigned long long online, total, elsewhere, missing = 0, astray = 0;
	char state[32] = "unknown";
	int i;

	read_text(DIRECTORY "state", state, sizeof(state));
	if (json)
		printf("{\"state\": \"%s\", \"block_size\": %llu, \"ranges\": "
		       "[",
		       state, block_size);
	else
		printf("%-35s %4s %-8s %8s %8s %10s\n", "addresses", "node",
		       "zone", "MiB", "online", "elsewhere");
	for (i = 0; i < nr_ranges; i++) {
		const struct range *range = ranges + i;

		total = range->end + 1 - range->start;
		online = blocks_online(range) * block_size;
		elsewhere = blocks_elsewhere(range) * block_size;
		missing += total - online;
		astray += elsewhere;
		if (json)
			printf("%s{\"start\": %llu, \"end\": %llu, \"node\": "
			       "%d, \"zone\": \"%s\","
			       " \"online\": %llu, \"elsewhere\": %llu}",
			       i ? ", " : "", range->start, range->end,
			       range->node, range->zone, online, elsewhere);
		else
			printf("%#017llx-%#017llx %4d %-8s %8llu %8llu "
			       "%10llu\n",
			       range->start, range->end, range->node,
			       range->zone, total >> 20, online >> 20,
			       elsewhere >> 20);
	}
	if (json)
		printf("], \"missing\": %llu, \"elsewhere\": %llu}\n", missing,
		       astray);
	else
		printf("state: %s, %llu MiB missing, %llu MiB in another zone "
		       "than planned\n",
		       state, missing >> 20, astray >> 20);
	return missing || astray ? 1 : 0;
}

int main(int argc, char **argv)
{
	bool json = false, plan = false, status = false;
	const char *sysfs = "/sys";
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			json = true;
		} else if (!strcmp(argv[i], "--plan")) {
			plan = true;
		} else if (!strcmp(argv[i], "--status")) {
			status = true;
		} else if (!strcmp(argv[i], "--sysfs") && i + 1 < argc) {
			sysfs = argv[++i];
		} else if (!strcmp(argv[i], "--help")) {
			fputs(USAGE, stdout);
			return 0;
		} else if (!strcmp(argv[i], "--version")) {
			puts(VERSION);
			return 0;
		} else {
			give_up("what is %s? --help says what there is",
				argv[i]);
		}
	}
	if ((plan && status) || (json && !plan && !status))
		give_up("--json goes with one of --plan and --status");
	if (chdir(sysfs))
		give_up("%s: %s", sysfs, strerror(errno));
	read_plan();
	if (plan)
		show_plan(json);
	return plan ? 0 : status ? show_status(json) : add_all();
}
