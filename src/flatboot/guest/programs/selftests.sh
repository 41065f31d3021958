#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=dash
#
# Run the kernel's own tests in a guest, as its run_kselftest.sh takes them.
#
#	selftests SECONDS COLLECTION:TEST[=CATEGORY]...
#
# Each may take SECONDS; a category is one of run_vmtests.sh's. What they print goes
# to /tmp/selftests as well, where no message of the kernel falls into it.
/bin/busybox mkdir -p /usr /mnt/huge /dev/shm
for folder in /sbin /usr/bin /usr/sbin; do
	/bin/busybox ln -s /bin $folder
done
for applet in $(busybox --list); do
	[ -e /bin/"$applet" ] || busybox ln -s busybox /bin/"$applet"
done
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mv /boot/config /boot/config-"$(uname -r)"
echo 512M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0
echo root:x:0:0:root:/:/bin/sh >/etc/passwd

# A third of the memory blocks goes offline, not 2 of 100.
export KSELFTEST_MEM_ON_OFF_TEST_SH_ARGS="-r 33"
seconds=$1
shift
for test in "$@"; do
	case $test in
	*=*) export KSELFTEST_RUN_VMTESTS_SH_ARGS="-t ${test#*=}" ;;
	esac
	/selftests/run_kselftest.sh -o "$seconds" -t "${test%%=*}" 2>&1
done | tee /tmp/selftests
