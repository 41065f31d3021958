// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that come up behind boot: waited for, and tried one by one.
 *
 *	cpus wait	sleep until none is deferred any longer
 *	cpus raise	as people do it without: bring each up through its file
 *	cpus try	run on each online CPU
 *	cpus suffer wait|raise
 *			wait or raise, and meanwhile a reader of the lock of
 *			CPU hotplug and a task that wants to run each
 *			millisecond
 *	cpus shuffle SECONDS
 *			take CPUs down and up at random, under load; then all up
 *	cpus ask LIST	ask to run on these CPUs, and see on which it may once
 *			none is deferred any longer
 *	cpus starve CPU
 *			have a real-time task there that never sleeps, and see
 *			whether another one gets to run beside it within 5 s
 *
 * Results:
 *	cpus.first	CPUs that are online when the program starts
 *	cpus.woken	how often the wait was woken
 *	cpus.up		counter when all are up
 *	cpus.online	the list of online CPUs
 *	cpus.ran	on how many CPUs the program ran
 *	cpus.stale	online CPUs whose own file says that they are offline
 *	cpus.took	ticks of the counter from the start of the program
 *	cpus.reader	ticks that the reader waited for at most
 *	cpus.task	ns that the task ran late at most
 *	cpus.shuffled	how often a CPU went down or came up
 *	cpus.refused	how often it did not
 *	cpus.starved	no, or yes
 *	cpus.asked	ok, or the error's name
 *	cpus.asked_left	how many CPUs are still to come when the answer is there
 *	cpus.mask	the CPUs that it may run on in the end
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "files.h"
#include "guest.h"

#define CPUS "/sys/devices/system/cpu/"
#define MOST 4096

/* Call @each with every CPU of a list; return how many there are. */
static int cpus_of(const char *text, void (*each)(int cpu))
{
	char *list = strdup(text), *rest = list;
	int count = 0, from, to;

	if (!list)
		fail("memory");
	for (char *part; (part = strsep(&rest, ",\n"));) {
		int got = sscanf(part, "%d-%d", &from, &to);

		if (got < 1)
			continue;
		if (got < 2)
			to = from;
		for (; from <= to; from++, count++)
			if (each)
				each(from);
	}
	free(list);
	return count;
}

static int cpus_in(const char *path, void (*each)(int cpu))
{
	return cpus_of(text_of(path), each);
}

static void report_up(void)
{
	printf(RESULT "cpus.up=%llu\n", (unsigned long long)counter());
	printf(RESULT "cpus.online=%s", text_of(CPUS "online"));
}

static void wait_for_all(void)
{
	struct pollfd file = { .events = POLLPRI | POLLERR };
	char list[MOST * 5];
	long woken = 0;
	ssize_t got;

	file.fd = open(CPUS "deferred", O_RDONLY);
	if (file.fd < 0)
		fail(CPUS "deferred");
	while ((got = pread(file.fd, list, sizeof(list), 0)) > 1) {
		if (poll(&file, 1, -1) < 0)
			fail("poll");
		woken++;
	}
	if (got < 0)
		fail(CPUS "deferred");
	report_up();
	printf(RESULT "cpus.woken=%ld\n", woken);
}

static const char *online_file(int cpu)
{
	static char path[64];

	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	return path;
}

static void raise_cpu(int cpu)
{
	/* One that cannot go offline has no such file. */
	if (access(online_file(cpu), W_OK) == 0)
		put(online_file(cpu), "1");
}

static int ran, stale;

/* Run on @cpu from here on; false if that cannot be. */
static bool move_to(int cpu)
{
	static cpu_set_t set[MOST / CPU_SETSIZE];

	CPU_ZERO_S(sizeof(set), set);
	CPU_SET_S((size_t)cpu, sizeof(set), set);
	return sched_setaffinity(0, sizeof(set), set) == 0 &&
	       sched_getcpu() == cpu;
}

static void try_cpu(int cpu)
{
	if (move_to(cpu))
		ran++;
	if (access(online_file(cpu), R_OK) == 0 &&
	    atoi(text_of(online_file(cpu))) != 1)
		stale++;
}

static cpu_set_t asked[MOST / CPU_SETSIZE];

static void ask_for(int cpu)
{
	CPU_SET_S((size_t)cpu, sizeof(asked), asked);
}

static int ask(const char *list)
{
	cpus_of(list, ask_for);
	printf(RESULT "cpus.asked=%s\n",
	       sched_setaffinity(0, sizeof(asked), asked)
		       ? strerrorname_np(errno)
		       : "ok");
	printf(RESULT "cpus.asked_left=%d\n", cpus_in(CPUS "deferred", NULL));
	wait_for_all();
	if (sched_getaffinity(0, sizeof(asked), asked))
		fail("sched_getaffinity");
	printf(RESULT "cpus.mask=");
	for (size_t cpu = 0; cpu < MOST; cpu++)
		if (CPU_ISSET_S(cpu, sizeof(asked), asked))
			printf("%zu,", cpu);
	printf("\n");
	return 0;
}

static volatile sig_atomic_t over;

static void stop(int signal)
{
	over = signal;
}

/* A lock that readers share does not make one wait but for a writer. */
static void read_lock_often(void)
{
	uint64_t worst = 0;

	while (!over) {
		uint64_t before = counter(), took;

		/* Registered with nobody: takes the lock, and finds no CPU. */
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0,
			    0))
			fail("membarrier");
		took = counter() - before;
		if (took > worst)
			worst = took;
		nap(1);
	}
	printf(RESULT "cpus.reader=%llu\n", (unsigned long long)worst);
}

static void run_often(void)
{
	long worst = 0;
	struct timespec wanted, now;

	/* Otherwise a timer may be 50 us late for the sake of others. */
	prctl(PR_SET_TIMERSLACK, 1);
	clock_gettime(CLOCK_MONOTONIC, &wanted);
	while (!over) {
		long late;

		wanted.tv_nsec += 1000000;
		if (wanted.tv_nsec >= 1000000000) {
			wanted.tv_nsec -= 1000000000;
			wanted.tv_sec++;
		}
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wanted,
				    NULL))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		late = (now.tv_sec - wanted.tv_sec) * 1000000000 + now.tv_nsec -
		       wanted.tv_nsec;
		if (late > worst)
			worst = late;
	}
	printf(RESULT "cpus.task=%ld\n", worst);
}

static pid_t start(void (*work)(void))
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		work();
		fflush(stdout);
		_exit(0);
	}
	return child;
}

/* Bring all up as @how says. */
static bool bring_up(const char *how)
{
	if (!strcmp(how, "wait")) {
		wait_for_all();
	} else if (!strcmp(how, "raise")) {
		cpus_in(CPUS "present", raise_cpu);
		report_up();
	} else {
		return false;
	}
	return true;
}

static bool suffer(const char *how)
{
	uint64_t began = counter();
	pid_t children[2];
	bool known;

	signal(SIGTERM, stop);
	children[0] = start(read_lock_often);
	children[1] = start(run_often);
	known = bring_up(how);
	printf(RESULT "cpus.took=%llu\n",
	       (unsigned long long)(counter() - began));
	for (int i = 0; i < 2; i++) {
		kill(children[i], SIGTERM);
		waitpid(children[i], NULL, 0);
	}
	return known;
}

/* Memory, processes and files, wherever the scheduler puts them. */
static void load(void)
{
	const size_t size = 1 << 20;

	while (!over) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pid_t child;

		if (memory == MAP_FAILED)
			fail("mmap");
		memset(memory, 1, size);
		child = fork();
		if (child == 0)
			_exit(memory[size / 2] != 1);
		if (child > 0)
			waitpid(child, NULL, 0);
		munmap(memory, size);
		(void)text_of("/proc/stat");
	}
}

static int present;

static void count_present(int cpu)
{
	if (cpu >= present)
		present = cpu + 1;
}

static int shuffle(unsigned int seconds)
{
	time_t end = time(NULL) + seconds;
	long shuffled = 0, refused = 0;
	pid_t children[4];

	cpus_in(CPUS "present", count_present);
	signal(SIGTERM, stop);
	for (int i = 0; i < 4; i++)
		children[i] = start(load);
	while (time(NULL) < end) {
		const char *path = online_file(rand() % present);
		int file = open(path, O_RDWR);
		char is, wanted;

		/* One that cannot go offline has no such file. */
		if (file < 0)
			continue;
		if (pread(file, &is, 1, 0) != 1)
			fail(path);
		wanted = is == '0' ? '1' : '0';
		if (pwrite(file, &wanted, 1, 0) == 1)
			shuffled++;
		else
			refused++;
		close(file);
	}
	for (int i = 0; i < 4; i++) {
		kill(children[i], SIGTERM);
		waitpid(children[i], NULL, 0);
	}
	cpus_in(CPUS "present", raise_cpu);
	report_up();
	printf(RESULT "cpus.shuffled=%ld\n", shuffled);
	printf(RESULT "cpus.refused=%ld\n", refused);
	return 0;
}

static int starving;

static void hog(void)
{
	struct sched_param priority = { .sched_priority = 50 };

	if (!move_to(starving) || sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("hog");
	for (;;)
		;
}

static void move_there(void)
{
	if (!move_to(starving))
		fail("move");
}

static int starve(int cpu)
{
	pid_t real_time, other;
	int status = -1;

	starving = cpu;
	real_time = start(hog);
	while (sched_getscheduler(real_time) != SCHED_FIFO)
		nap(1);
	other = start(move_there);
	for (int i = 0; i < 500 && !waitpid(other, &status, WNOHANG); i++)
		nap(10);
	printf(RESULT "cpus.starved=%s\n", status == 0 ? "no" : "yes");
	kill(real_time, SIGKILL);
	waitpid(real_time, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	printf(RESULT "cpus.first=%d\n", cpus_in(CPUS "online", NULL));
	if (!strcmp(what, "try")) {
		cpus_in(CPUS "online", try_cpu);
		printf(RESULT "cpus.ran=%d\n", ran);
		printf(RESULT "cpus.stale=%d\n", stale);
		return 0;
	}
	if (argc > 2 && !strcmp(what, "suffer") && suffer(argv[2]))
		return 0;
	if (argc > 2 && !strcmp(what, "shuffle"))
		return shuffle((unsigned int)atoi(argv[2]));
	if (argc > 2 && !strcmp(what, "ask"))
		return ask(argv[2]);
	if (argc > 2 && !strcmp(what, "starve"))
		return starve(atoi(argv[2]));
	if (bring_up(what))
		return 0;
	fputs("usage: cpus wait|raise|try|suffer wait|suffer raise|"
	      "shuffle SECONDS|starve CPU|ask LIST\n",
	      stderr);
	return 2;
}
