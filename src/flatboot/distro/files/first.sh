#!/bin/sh
# As the first process, has the boot loader installed on the disk that it runs from, and ends the
# guest.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
(
	set -e
	mkfs.vfat -n EFI /dev/vda1
	mkdir -p /boot/efi
	mount -o umask=0077 /dev/vda1 /boot/efi
	mount -t tmpfs tmpfs /tmp
	install-loader /dev/vda
	umount /boot/efi
	mount -o remount,ro /
	echo "The boot loader is installed"
) </dev/null >/dev/ttyS0 2>&1
exec poweroff --force --force
