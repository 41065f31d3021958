#!/bin/sh
# Installs GRUB for UEFI and for BIOS on the disk that it is given, with the boot parameters of the
# package at the top of the root file system, if there is one.
set -e
grub-install --target=x86_64-efi --efi-directory=/boot/efi --no-nvram --removable
grub-install --target=i386-pc "$1"
update-grub
for package in /*.deb; do
	[ ! -f "$package" ] || dpkg --install "$package"
done
rm -f /*.deb
