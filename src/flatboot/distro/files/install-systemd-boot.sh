#!/bin/sh
# Installs systemd-boot and, with it, the kernel as /etc/kernel/install.conf says. Where
# /etc/kernel/uki.conf says that the kernel is signed, makes the key and signs the loader, too, which
# gives the key to firmware that has none.
set -e
# Nothing here has told yet what the disk's partitions are.
export SYSTEMD_RELAX_ESP_CHECKS=1
settings=/boot/efi/loader/loader.conf
program=/usr/lib/systemd/boot/efi/systemd-bootx64.efi
signing=/etc/kernel/uki.conf
set -- --esp-path=/boot/efi --no-variables
if [ -f "$signing" ]; then
	key=$(sed -n 's/^SecureBootPrivateKey=//p' "$signing")
	certificate=$(sed -n 's/^SecureBootCertificate=//p' "$signing")
	openssl req -quiet -new -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=own/ \
		-keyout "$key" -out "$certificate"
	sbsign --key "$key" --cert "$certificate" --output "$program.signed" "$program"
	set -- "$@" --secure-boot-auto-enroll=yes "--private-key=$key" "--certificate=$certificate"
fi
bootctl "$@" install
echo "timeout 0" >"$settings"
[ ! -f "$signing" ] || echo "secure-boot-enroll force" >>"$settings"
version=$(basename /boot/vmlinuz-*)
version=${version#vmlinuz-}
kernel-install add "$version" "/boot/vmlinuz-$version" "/boot/initrd.img-$version"
