#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Starts deferred-memd beside the rest of the boot; it survives the switch of the root.
if [ -e /sys/kernel/deferred_mem_init/plan ]; then
	# The system's own unit leaves it alone then.
	: > /run/deferred-memd
	/usr/sbin/deferred-memd &
fi
