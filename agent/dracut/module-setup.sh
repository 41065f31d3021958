#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Puts deferred-memd into dracut's image, as a unit where the image has systemd.
# shellcheck disable=SC2154 # dracut sets initdir, moddir and systemdsystemunitdir

check() {
	require_binaries /usr/sbin/deferred-memd
}

depends() {
	return 0
}

install() {
	inst /usr/sbin/deferred-memd
	if dracut_module_included systemd; then
		inst_simple "$systemdsystemunitdir/deferred-memd.service"
		$SYSTEMCTL -q --root "$initdir" enable deferred-memd.service
	else
		inst_hook pre-udev 10 "$moddir/deferred-memd.sh"
	fi
}
