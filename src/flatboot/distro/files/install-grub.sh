#!/bin/sh
# As the first process, installs GRUB for UEFI and for BIOS on the disk that it runs from, with the
# boot parameters of the package at the top of it, if there is one, and ends the guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
(
	set -e
	disk=/dev/vda
	mkfs.vfat -n EFI ${disk}1
	mkdir -p /boot/efi
	mount ${disk}1 /boot/efi
	grub-install --target=x86_64-efi --efi-directory=/boot/efi --no-nvram --removable
	grub-install --target=i386-pc $disk
	update-grub
	for package in /*.deb; do
		[ ! -f "$package" ] || dpkg --install "$package"
	done
	rm -f /*.deb
	umount /boot/efi
	mount -o remount,ro /
	echo "GRUB is installed"
) </dev/null >/dev/ttyS0 2>&1
exec poweroff --force --force
