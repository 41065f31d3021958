// SPDX-License-Identifier: GPL-2.0
/*
 * The first process of a measured guest.
 *
 * Its first instruction reads the raw counter: that is the boot mark. Then it
 * prints what the kernel says of itself and of its memory, runs the programs
 * that /etc/run names (one a line, with arguments), prints the kernel log, and
 * restarts the machine, which ends the emulator.
 *
 * /etc/dump lists the files to print (wild cards allowed); /etc/clock holds
 * "exact" or "wall": on the wall clock the counter's frequency is measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

/* The entry point: save the counter, then start the C library as ever. */
#if defined(__x86_64__)
__asm__(".globl flatboot_start\n"
	"flatboot_start:\n"
	"	rdtsc\n"
	"	shlq $32, %rdx\n"
	"	orq %rdx, %rax\n"
	"	movq %rax, boot_mark(%rip)\n"
	"	xorl %edx, %edx\n"
	"	jmp _start\n");
#elif defined(__aarch64__)
__asm__(".globl flatboot_start\n"
	"flatboot_start:\n"
	"	mrs x9, cntvct_el0\n"
	"	adrp x10, boot_mark\n"
	"	str x9, [x10, #:lo12:boot_mark]\n"
	"	b _start\n");
#endif

/* Initialised, so that it lies in .data and _start does not clear it. */
uint64_t boot_mark = 1;

/* Actions of syslog(2) and the console levels used here. */
enum { CONSOLE_OFF = 6, CONSOLE_ON = 7, CONSOLE_LEVEL = 8 };
enum { LEVEL_WARNINGS = 5 };

static void mount_at(const char *type, const char *where)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, NULL) && errno != EBUSY)
		printf(RESULT "mount%s=%s\n", where, strerror(errno));
}

/* Where the kernel gave no console, make one, so that a result gets out. */
static void open_console(void)
{
	int fd;

	if (fcntl(STDOUT_FILENO, F_GETFD) != -1)
		return;
	mknod("/dev/console", S_IFCHR | 0600, makedev(5, 1));
	do {
		fd = open("/dev/console", O_RDWR);
	} while (fd >= 0 && fd < STDERR_FILENO);
}

/*
 * A kernel that panics and restarts (panic=-1) says nothing where another CPU
 * stopped, or it was interrupted, within the console's port, which is most of
 * the time that this process prints. One that goes on in circles takes the port
 * over in the end, and who started the guest waits for its last words.
 */
static void hear_panics(void)
{
	FILE *file = fopen("/proc/sys/kernel/panic", "w");

	if (!file)
		return;
	fputs("0", file);
	fclose(file);
}

/* Print a file whole between two lines; the second tells its length. */
static void dump_file(const char *path)
{
	char buffer[4096];
	size_t total = 0;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return;
	printf(RESULT "begin %s\n", path);
	while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
		fwrite(buffer, 1, (size_t)got, stdout);
		total += (size_t)got;
	}
	close(fd);
	printf("\n" RESULT "end %s %zu\n", path, total);
}

static void dump_files(const char *list)
{
	char pattern[256];
	glob_t found;
	FILE *file;

	file = fopen(list, "r");
	if (!file)
		return;
	klogctl(CONSOLE_OFF, NULL, 0);
	while (fgets(pattern, sizeof(pattern), file)) {
		pattern[strcspn(pattern, "\n")] = '\0';
		if (glob(pattern, 0, NULL, &found) == 0) {
			for (size_t i = 0; i < found.gl_pathc; i++)
				dump_file(found.gl_pathv[i]);
			globfree(&found);
		}
	}
	fclose(file);
	fflush(stdout);
	klogctl(CONSOLE_ON, NULL, 0);
}

/* Print the kernel log as it lies in /dev/kmsg, a record at a time. */
static void dump_log(void)
{
	char record[8192];
	size_t total = 0;
	ssize_t got;
	int fd;

	fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return;
	klogctl(CONSOLE_OFF, NULL, 0);
	printf(RESULT "begin dmesg\n");
	for (;;) {
		got = read(fd, record, sizeof(record));
		if (got < 0 && errno == EPIPE)
			continue;
		if (got <= 0)
			break;
		fwrite(record, 1, (size_t)got, stdout);
		total += (size_t)got;
	}
	printf("\n" RESULT "end dmesg %zu\n", total);
	fflush(stdout);
	close(fd);
	klogctl(CONSOLE_ON, NULL, 0);
}

/* Print the counter's frequency against the unadjusted clock, over 0.2 s. */
static void measure_counter(void)
{
	struct timespec nap = { .tv_nsec = 200000000 }, from, to;
	uint64_t start, ticks;
	double ns;

	clock_gettime(CLOCK_MONOTONIC_RAW, &from);
	start = counter();
	nanosleep(&nap, NULL);
	clock_gettime(CLOCK_MONOTONIC_RAW, &to);
	ticks = counter() - start;
	ns = (double)(to.tv_sec - from.tv_sec) * 1e9 +
	     (double)(to.tv_nsec - from.tv_nsec);
	printf(RESULT "counter_hz=%.0f\n", (double)ticks * 1e9 / ns);
}

static int first_line_is(const char *path, const char *word)
{
	char line[64] = "";
	FILE *file = fopen(path, "r");
	int same;

	if (!file)
		return 0;
	same = fgets(line, sizeof(line), file) && !strcmp(line, word);
	fclose(file);
	return same;
}

/* Run one line of /etc/run and print how it ended. */
static void run(char *line)
{
	enum { MOST = 64 };
	char *arguments[MOST + 1];
	char path[128];
	int count = 0, status;
	pid_t child;

	for (char *word = strtok(line, "\t"); word && count < MOST;
	     word = strtok(NULL, "\t"))
		arguments[count++] = word;
	arguments[count] = NULL;
	if (!count)
		return;
	snprintf(path, sizeof(path), "/bin/%s", arguments[0]);
	printf(RESULT "run %s\n", arguments[0]);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		execv(path, arguments);
		perror(path);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		status = -1;
	else if (WIFEXITED(status))
		status = WEXITSTATUS(status);
	else
		status = 128 + WTERMSIG(status);
	printf(RESULT "exit.%s=%d\n", arguments[0], status);
}

static void run_all(const char *list)
{
	char line[4096];
	FILE *file = fopen(list, "r");

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		run(line);
	}
	fclose(file);
}

int main(void)
{
	open_console();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf(RESULT "mark=%llu\n", (unsigned long long)boot_mark);
	mount_at("devtmpfs", "/dev");
	mount_at("proc", "/proc");
	hear_panics();
	mount_at("sysfs", "/sys");
	mount_at("tmpfs", "/tmp");
	mount_at("debugfs", "/sys/kernel/debug");
	mount_at("tracefs", "/sys/kernel/tracing");
	dump_files("/etc/dump");
	if (first_line_is("/etc/clock", "wall"))
		measure_counter();
	klogctl(CONSOLE_LEVEL, NULL, LEVEL_WARNINGS);
	run_all("/etc/run");
	dump_log();
	printf(RESULT "complete\n");
	fflush(stdout);
	/* What the console has not sent by then would be lost. */
	tcdrain(STDOUT_FILENO);
	sync();
	reboot(RB_AUTOBOOT);
	return 1;
}
