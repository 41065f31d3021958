// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the processor's counter. As the first process, of the initramfs and
 * then of the disk, it puts it into the environment and becomes what would have
 * run without it; else it writes it to the file that it is given and becomes
 * the program behind that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long long counter(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	unsigned long long value;

	asm volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

int main(int argc, char **argv)
{
	unsigned long long now = counter();
	int on_disk = getenv("COUNTER_INITRAMFS") != NULL;
	char text[32];
	FILE *file;

	snprintf(text, sizeof(text), "%llu", now);
	if (getpid() != 1) {
		file = argc > 2 ? fopen(argv[1], "w") : NULL;
		if (!file || fputs(text, file) < 0 || fclose(file))
			return 1;
		execv(argv[2], argv + 2);
		return 1;
	}
	if (setenv(on_disk ? "COUNTER_DISK" : "COUNTER_INITRAMFS", text, 1))
		return 1;
	argv[0] = on_disk ? "/usr/lib/systemd/systemd" : "/init";
	execv(argv[0], argv);
	return 1;
}
