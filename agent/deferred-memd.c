// SPDX-License-Identifier: GPL-2.0
/*
 * deferred-memd - add the memory that mem= kept from boot, block by block
 *
 *	deferred-memd			add it, and tell the kernel when done
 *	deferred-memd --plan		show what that would do, and do nothing
 *	deferred-memd --status		show what is there
 *	deferred-memd --json ...	... as JSON
 *
 * Exit status: 0 if all deferred memory is online (--plan: always), 1 if not,
 * 2 if this could not be found out.
 *
 * The kernel's part is in Documentation/admin-guide/mm/deferred_mem.rst. It
 * adds what this program leaves out, so a failure here loses no memory.
 *
 * All paths are relative to /sys, where main() goes: the program works on when
 * it was started from an initramfs and the root is switched under it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "kernel/deferred_mem_init/"
#define BLOCKS "devices/system/memory/"
#define PROBE BLOCKS "probe"
#define MAX_RANGES 256

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

static void block_path(char *path, size_t size, unsigned long long start)
{
	snprintf(path, size, BLOCKS "memory%llu/state", start / block_size);
}

static enum block_state block_state(unsigned long long start)
{
	char path[128], text[32];

	block_path(path, sizeof(path), start);
	if (!read_text(path, text, sizeof(text)))
		return ABSENT;
	return strcmp(text, "online") ? OFFLINE : ONLINE;
}

static unsigned long long blocks_online(const struct range *range)
{
	unsigned long long start, count = 0;

	for (start = range->start; start < range->end; start += block_size)
		count += block_state(start) == ONLINE;
	return count;
}

/*
 * The probe file takes the node of the first memory for whatever boot did not
 * see, so it is of use on machines with one node only.
 */
static bool use_probe(void)
{
	int i;

	for (i = 0; i < nr_ranges; i++) {
		if (ranges[i].node)
			return false;
	}
	return !access(PROBE, W_OK);
}

/* Returns 0 or an errno. */
static int add_block(const struct range *range, unsigned long long start,
		     bool probe)
{
	char text[64], path[128];
	int error;

	if (block_state(start) == ABSENT) {
		if (!probe) {
			snprintf(text, sizeof(text), "%#llx %s", start,
				 range->zone);
			return write_text(DIRECTORY "add", text);
		}
		snprintf(text, sizeof(text), "%#llx", start);
		error = write_text(PROBE, text);
		if (error && error != EEXIST)
			return error;
	}
	/* It may have come online by itself: memhp_default_state=. */
	if (block_state(start) == ONLINE)
		return 0;
	block_path(path, sizeof(path), start);
	snprintf(text, sizeof(text), "online_%s", range->zone);
	return write_text(path, text);
}

static int add_all(void)
{
	const bool probe = use_probe();
	unsigned long long start;
	int i, pass, error, failed = 0;

	error = write_text(DIRECTORY "state", "user");
	if (error == EALREADY || error == EPERM) {
		puts("the kernel adds the memory itself");
		return 0;
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
				error = add_block(ranges + i, start, probe);
				if (!error)
					continue;
				fprintf(stderr,
					"deferred-memd: block at %#llx: %s: "
					"left to the kernel\n",
					start, strerror(error));
				failed++;
			}
		}
	}
	error = write_text(DIRECTORY "state", "done");
	if (error && error != EALREADY)
		give_up("/sys/%sstate: %s", DIRECTORY, strerror(error));
	return failed ? 1 : 0;
}

static void show_plan(bool json)
{
	const char *way = use_probe() ? "probe" : "add";
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
			       " \"blocks\": %llu, \"through\": \"%s\"}",
			       i ? ", " : "", range->start, range->end,
			       range->node, range->zone,
			       blocks - blocks_online(range), way);
		else
			printf("%#llx-%#llx on node %d: add %llu blocks "
			       "through %s, online_%s\n",
			       range->start, range->end, range->node,
			       blocks - blocks_online(range), way, range->zone);
	}
	if (json)
		puts("]}");
}

static int show_status(bool json)
{
	unsigned long long online, total, missing = 0;
	char state[32] = "unknown";
	int i;

	read_text(DIRECTORY "state", state, sizeof(state));
	if (json)
		printf("{\"state\": \"%s\", \"block_size\": %llu, \"ranges\": "
		       "[",
		       state, block_size);
	else
		printf("%-36s %4s %-8s %12s %12s\n", "addresses", "node",
		       "zone", "MiB", "online MiB");
	for (i = 0; i < nr_ranges; i++) {
		const struct range *range = ranges + i;

		total = range->end + 1 - range->start;
		online = blocks_online(range) * block_size;
		missing += total - online;
		if (json)
			printf("%s{\"start\": %llu, \"end\": %llu, \"node\": "
			       "%d, \"zone\": \"%s\","
			       " \"online\": %llu}",
			       i ? ", " : "", range->start, range->end,
			       range->node, range->zone, online);
		else
			printf("%#017llx-%#017llx  %4d %-8s %12llu %12llu\n",
			       range->start, range->end, range->node,
			       range->zone, total >> 20, online >> 20);
	}
	if (json)
		printf("], \"missing\": %llu}\n", missing);
	else
		printf("state: %s, %llu MiB missing\n", state, missing >> 20);
	return missing ? 1 : 0;
}

int main(int argc, char **argv)
{
	bool json = false, plan = false, status = false;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--plan"))
			plan = true;
		else if (!strcmp(argv[i], "--status"))
			status = true;
		else
			give_up("usage: deferred-memd [--json] [--plan | "
				"--status]");
	}
	if ((plan && status) || (json && !plan && !status))
		give_up("usage: deferred-memd [--json] [--plan | --status]");
	if (chdir("/sys"))
		give_up("/sys: %s", strerror(errno));
	read_plan();
	if (plan)
		show_plan(json);
	return plan ? 0 : status ? show_status(json) : add_all();
}
