// SPDX-License-Identifier: GPL-2.0
/*
 * Have the kernel do what programs ask of it all the time.
 *
 *	operations NAME TIMES
 *
 * NAME is one of
 *	page		16 pages into a pipe, and out of it
 *	fault		a touch of 4 KiB, and giving it back
 *	faults		touches of 512 such pages, and giving them back
 *	huge_fault	a touch of 2 MiB, and giving it back
 *	map_fault	a touch of a page of a file that is in memory
 *	fork		a child that ends at once
 *	thread		a thread that ends at once
 *	wake		waking a thread of the same CPU, and being woken
 *	wake_other	the same with the last CPU
 *	ipi		as fault, and the last CPU has to forget the page
 *	hotplug		the last CPU going down and coming up
 *	look_up		a path of five directories
 *	no_entry	the same, of which the last is not there
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "guest.h"
#include "places.h"

#define PATH "/sys/devices/system/cpu/cpu0"

enum { PAGE = 4096, HUGE = 2 << 20, PACKETS = 16 };

static int last_cpu;

static void touch(char *at)
{
	*(volatile char *)at = 1;
}

static int pipes[2];

static void page(void)
{
	char byte = 0;

	/* Each is a packet with a page of its own. */
	for (int i = 0; i < PACKETS; i++)
		if (write(pipes[1], &byte, 1) != 1)
			fail("write");
	for (int i = 0; i < PACKETS; i++)
		if (read(pipes[0], &byte, 1) != 1)
			fail("read");
}

static char *small, *huge, *mapped;

static void fault(void)
{
	touch(small + PAGE);
	madvise(small + PAGE, PAGE, MADV_DONTNEED);
}

static void faults(void)
{
	for (char *at = small; at < small + HUGE; at += PAGE)
		touch(at);
	madvise(small, HUGE, MADV_DONTNEED);
}

static void huge_fault(void)
{
	touch(huge);
	madvise(huge, HUGE, MADV_DONTNEED);
}

static void map_fault(void)
{
	touch(mapped);
	madvise(mapped, PAGE, MADV_DONTNEED);
}

static void child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void *nothing(void *unused)
{
	return unused;
}

static void thread(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, nothing, NULL))
		fail("pthread_create");
	pthread_join(other, NULL);
}

static int there[2], back[2];

/* Answer each byte with one. */
static void *answer(void *cpu)
{
	char byte;

	pin(*(int *)cpu);
	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			fail("write");
	return NULL;
}

static void wake(void)
{
	char byte = 0;

	if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
		fail("wake");
}

static atomic_bool runs, over;

/* Run, so that pages of this process have to be forgotten here. */
static void *run(void *cpu)
{
	pin(*(int *)cpu);
	for (runs = true; !over;)
#if defined(__x86_64__)
		/* An emulator that counts gives the turn away here. */
		__asm__ volatile("pause");
#else
		__asm__ volatile("yield");
#endif
	return NULL;
}

static void look_up(void)
{
	struct stat found;

	if (stat(PATH, &found))
		fail("stat");
}

static void no_entry(void)
{
	struct stat found;

	if (!stat(PATH "/nothing", &found))
		fail("stat");
}

static char online[64];

static void hotplug(void)
{
	put(online, "0");
	put(online, "1");
}

static const struct operation {
	const char *name;
	void (*once)(void);
	/* What a thread does meanwhile, and whether it has the last CPU. */
	void *(*meanwhile)(void *cpu);
	bool elsewhere;
} operations[] = {
	{ "page", page, NULL, false },
	{ "fault", fault, NULL, false },
	{ "faults", faults, NULL, false },
	{ "huge_fault", huge_fault, NULL, false },
	{ "map_fault", map_fault, NULL, false },
	{ "fork", child, NULL, false },
	{ "thread", thread, NULL, false },
	{ "wake", wake, answer, false },
	{ "wake_other", wake, answer, true },
	{ "ipi", fault, run, true },
	{ "hotplug", hotplug, NULL, false },
	{ "look_up", look_up, NULL, false },
	{ "no_entry", no_entry, NULL, false },
};

enum { OPERATIONS = sizeof(operations) / sizeof(*operations) };

static void repeat(const struct operation *operation, int times)
{
	int cpu = operation->elsewhere ? last_cpu : 0;
	pthread_t other;

	if (operation->meanwhile &&
	    pthread_create(&other, NULL, operation->meanwhile, &cpu))
		fail("pthread_create");
	do
		nap(10);
	while (operation->meanwhile == run && !runs);
	for (int i = 0; i < times; i++)
		operation->once();
	if (operation->meanwhile) {
		over = true;
		close(there[1]);
		pthread_join(other, NULL);
	}
}

static void prepare(void)
{
	last_cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	pin(0);
	snprintf(online, sizeof(online), "/sys/devices/system/cpu/cpu%d/online",
		 last_cpu);
	if (pipe2(pipes, O_DIRECT) || pipe(there) || pipe(back))
		fail("pipe");
	small = aligned_area(HUGE, MADV_NOHUGEPAGE);
	huge = aligned_area(HUGE, MADV_HUGEPAGE);
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED)
		fail("mmap");
	/* The page table stays. */
	touch(small);
	touch(mapped);
}

int main(int argc, char **argv)
{
	int times = argc == 3 ? atoi(argv[2]) : 0;

	/* What fork() copies must not hang on where things lie. */
	if (!(personality(ADDR_NO_RANDOMIZE) & ADDR_NO_RANDOMIZE))
		execv("/proc/self/exe", argv);
	prepare();
	for (int i = 0; i < OPERATIONS && times > 0; i++) {
		if (!strcmp(argv[1], operations[i].name)) {
			repeat(&operations[i], times);
			return 0;
		}
	}
	fputs("usage: operations NAME TIMES\n", stderr);
	return 2;
}
