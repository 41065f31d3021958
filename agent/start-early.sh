#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Starts deferred-memd beside the rest of the boot; it survives the switch of the root. Both
# initramfs-tools, which asks what has to run before, and dracut, which does not, run this.
if [ "$1" = prereqs ]; then
	exit 0
fi

if [ -e /sys/kernel/deferred_mem_init/plan ]; then
	# The system's own unit leaves it alone then.
	: > /run/deferred-memd
	/usr/sbin/deferred-memd &
fi
