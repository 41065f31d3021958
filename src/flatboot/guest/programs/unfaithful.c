// SPDX-License-Identifier: GPL-2.0
/*
 * An agent of deferred memory that does not do what it should.
 *
 *	unfaithful gone ADDRESS		says that it is there, adds the memory
 *					block at ADDRESS, and ends
 *	unfaithful killed ADDRESS	does the same, is killed, and nobody
 *					waits for it; this call returns
 *					meanwhile
 *	unfaithful hung ADDRESS		does the same, and stays; this call
 *					returns meanwhile
 *	unfaithful first ADDRESS	does the same, and then runs
 *					deferred-memd: second=its exit status
 *	unfaithful usurped ADDRESS	does the same; another goes on although
 *					it is refused, adds the block behind it
 *					as movable memory, and says done
 *	unfaithful lying ADDRESS	says that it is there, and done
 *	unfaithful careless ADDRESS	adds that block to the wrong zone, takes
 *					it offline, and says that it is done
 *	unfaithful denied TIMES		has TIMES allocations of the kernel's
 *					thread fail, or all if that is -1, and
 *					says that it is done
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "files.h"
#include "guest.h"

#define FILES "/sys/kernel/deferred_mem_init/"
#define BLOCKS "/sys/devices/system/memory/"
#define FAILSLAB "/sys/kernel/debug/failslab/"

static void add(const char *address, const char *zone)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %s", address, zone);
	put(FILES "add", text);
}

static unsigned long long block_size(void)
{
	return strtoull(text_of(BLOCKS "block_size_bytes"), NULL, 16);
}

static void offline(const char *address)
{
	char path[128];

	snprintf(path, sizeof(path), BLOCKS "memory%llu/state",
		 strtoull(address, NULL, 0) / block_size());
	put(path, "offline");
}

static void begin(const char *address)
{
	put(FILES "state", "user");
	add(address, "kernel");
}

static void be_killed(const char *address)
{
	siginfo_t ended;
	pid_t pid = fork();

	if (!pid) {
		begin(address);
		raise(SIGKILL);
	}
	/* It stays a zombie. */
	if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) ||
	    ended.si_code != CLD_KILLED)
		fail("waitid");
}

/* Whoever waits for this call is not to wait for the process that stays. */
static void stay(void (*do_first)(const char *address), const char *address)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		fail("pipe");
	if (fork()) {
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			exit(1);
		return;
	}
	do_first(address);
	if (write(ready[1], "", 1) != 1)
		fail("pipe");
	/* The guest ends before that. */
	nap(3600 * 1000);
	exit(0);
}

static void usurp(const char *address)
{
	int fd = open(FILES "state", O_WRONLY);
	char behind[32];

	if (write(fd, "user", 4) >= 0 || errno != EBUSY)
		fail("a second agent");
	close(fd);
	snprintf(behind, sizeof(behind), "%#llx",
		 strtoull(address, NULL, 0) + block_size());
	add(behind, "movable");
	put(FILES "state", "done");
}

static void run_another(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		execl("/bin/deferred-memd", "deferred-memd", NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("deferred-memd");
	printf(RESULT "second=%d\n", WEXITSTATUS(status));
}

static void fail_allocations_of(const char *thread, const char *times)
{
	struct dirent *entry;
	DIR *tasks = opendir("/proc");
	char path[512], name[32];

	snprintf(name, sizeof(name), "%s\n", thread);
	put(FAILSLAB "verbose", "0");
	put(FAILSLAB "task-filter", "Y");
	put(FAILSLAB "ignore-gfp-wait", "N");
	put(FAILSLAB "interval", "1");
	put(FAILSLAB "probability", "100");
	put(FAILSLAB "times", times);
	if (!tasks)
		fail("/proc");
	while ((entry = readdir(tasks))) {
		if (!atol(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (strcmp(text_of(path), name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/make-it-fail",
			 entry->d_name);
		put(path, "1");
		closedir(tasks);
		return;
	}
	fail(thread);
}

int main(int argc, char **argv)
{
	const char *how = argc == 3 ? argv[1] : "";

	if (!strcmp(how, "gone")) {
		begin(argv[2]);
	} else if (!strcmp(how, "killed")) {
		stay(be_killed, argv[2]);
	} else if (!strcmp(how, "hung")) {
		stay(begin, argv[2]);
	} else if (!strcmp(how, "first")) {
		stay(begin, argv[2]);
		run_another();
	} else if (!strcmp(how, "usurped")) {
		stay(begin, argv[2]);
		usurp(argv[2]);
	} else if (!strcmp(how, "lying")) {
		put(FILES "state", "user");
		put(FILES "state", "done");
	} else if (!strcmp(how, "careless")) {
		add(argv[2], "movable");
		offline(argv[2]);
		put(FILES "state", "done");
	} else if (!strcmp(how, "denied")) {
		fail_allocations_of("deferred_mem", argv[2]);
		put(FILES "state", "done");
	} else {
		fputs("usage: unfaithful HOW ADDRESS|TIMES\n", stderr);
		return 2;
	}
	return 0;
}
