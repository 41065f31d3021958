#!/bin/sh
# As the first process, installs GRUB for UEFI and for BIOS on the disk that it runs from, with the
# boot parameters of /parameters.deb if that is there, and ends the guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
(
	set -e
	disk=/dev/vda
	mkfs.vfat -n EFI ${disk}1
	mkdir -p /boot/efi
	mount ${disk}1 /boot/efi
	grub-install --target=x86_64-efi --efi-directory=/boot/efi --no-nvram --removable
	grub-install --target=i386-pc $disk
	if [ -f /parameters.deb ]; then
		dpkg --install /parameters.deb
		rm /parameters.deb
	fi
	update-grub
	umount /boot/efi
	mount -o remount,ro /
	echo "GRUB is installed"
) </dev/ttyS0 >/dev/ttyS0 2>&1
exec poweroff --force --force
