#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Checks deferred-memd against a folder that looks like /sys, with a shell in the kernel's part.
# Usage: check.sh PROGRAM
set -eu
program=$(readlink -f "$1")
work=$(mktemp -d)
kernel=
trap '[ -z "$kernel" ] || kill "$kernel" 2>/dev/null || :; rm -rf "$work"' EXIT
state=$work/kernel/deferred_mem_init/state
blocks=$work/devices/system/memory
# Memory blocks of 128 MiB: two that are to be normal, and two movable.
first=32
size=0x8000000

fail() {
	echo "check.sh: $1" >&2
	cat "$work/said" >&2
	exit 1
}

# expect STATUS ARGUMENT...: run the program
expect() {
	wanted=$1
	shift
	status=0
	timeout 20 "$program" --sysfs "$work" "$@" >"$work/said" 2>&1 || status=$?
	[ "$status" = "$wanted" ] || fail "status $status, not $wanted, of: $*"
}

# says TEXT: so did the last run
says() {
	grep -qF -- "$1" "$work/said" || fail "nothing said of: $1"
}

# online BLOCK ZONE: as the kernel tells of it
online() {
	mkdir -p "$blocks/memory$1"
	echo online >"$blocks/memory$1/state"
	echo "$2" >"$blocks/memory$1/valid_zones"
}

# set_up LINES: a plan, and nothing of it there
set_up() {
	rm -rf "$work/kernel" "$work/devices"
	mkdir -p "$work/kernel/deferred_mem_init" "$blocks"
	echo "${size#0x}" >"$blocks/block_size_bytes"
	printf '%s\n' "$@" >"$work/kernel/deferred_mem_init/plan"
	echo waiting >"$state"
	mkfifo "$work/kernel/deferred_mem_init/add"
}

two_zones() {
	set_up "0x100000000-0x10fffffff 0 kernel" "0x110000000-0x11fffffff 0 movable"
}

# Add what is asked for, to the zone $1 or the one that is asked for, until all is said to be done.
play_kernel() {
	while read -r address zone; do
		case ${1:-$zone} in
		movable) online $((address / size)) Movable ;;
		*) online $((address / size)) Normal ;;
		esac
	done <"$work/kernel/deferred_mem_init/add" &
	adder=$!
	until grep -q "done" "$state"; do
		sleep 0.05
	done
	# Let it read what it was asked for.
	sleep 0.5
	kill "$adder" 2>/dev/null || :
	echo complete >"$state"
}

# play [ZONE]: in the background; the add file stays open, so that no writer is cut short
play() {
	play_kernel "$@" 3<>"$work/kernel/deferred_mem_init/add" &
	kernel=$!
}

expect 0 --help
says "usage: deferred-memd"
expect 0 --version
says "deferred-memd 1"
expect 2 --plna
says "what is --plna?"
expect 2 --plan --status
expect 2 --json
expect 2 --status
says "block_size_bytes"

two_zones
expect 0 --plan
says "0x100000000-0x10fffffff on node 0: add 2 blocks, online_kernel"
expect 1 --status
says "state: waiting, 512 MiB missing, 0 MiB in another zone than planned"
play
expect 0
wait "$kernel"
expect 0 --status
says "state: complete, 0 MiB missing, 0 MiB in another zone than planned"
expect 0 --json --status
says '"missing": 0, "elsewhere": 0}'

# What came by itself, and in another zone, is told of.
online $((first + 3)) Normal
expect 1 --status
says "state: complete, 0 MiB missing, 128 MiB in another zone than planned"

# The kernel gives all to one zone.
two_zones
play kernel
expect 1
says "block at 0x110000000: online in another zone than planned"
wait "$kernel"

# Added by somebody, and not online: what is written to the state file stays there here.
two_zones
for block in 0 1; do
	online $((first + block)) Normal
	online $((first + 2 + block)) Movable
done
echo offline >"$blocks/memory$((first + 2))/state"
play
expect 1
says "block at 0x110000000: not online"
grep -q online_movable "$blocks/memory$((first + 2))/state" || fail "not brought online"
wait "$kernel"

# As many lines as the kernel may tell of.
lines=$(seq 0 255 | while read -r at; do
	printf '%#x-%#x 0 kernel\n' $((0x100000000 + at * size)) $((0x107ffffff + at * size))
done)
set_up "$lines"
expect 0 --plan
says "0x8f8000000-0x8ffffffff on node 0: add 1 blocks, online_kernel"
set_up "nonsense"
expect 2 --plan
says "what this version does not know: nonsense"
echo "check.sh: deferred-memd does what it says"
