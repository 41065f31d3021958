#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=dash
#
# A shell on the console, for whoever booted the guest.
#
#	shell TERM ROWS COLUMNS		on a terminal of that kind and size
#	shell				takes commands as from a pipe, echoes nothing
#
# Lines that begin with the byte 036 say when it is ready, and how it ended.
PATH=/bin
HOME=/
export PATH HOME
/bin/busybox --install -s /bin
ln -s /proc/self/fd /dev/fd
cd / || exit 1
if [ $# -eq 3 ]; then
	export TERM="$1" PS1='guest:\w# '
	stty rows "$2" cols "$3"
	printf '\036ready\n'
	# The console controls no jobs; the terminal that it is does.
	setsid cttyhack sh
else
	stty -echo -isig -iexten -ixon erase undef kill undef
	printf '\036ready\n'
	# From a file that is named, a shell takes commands without a prompt.
	sh /proc/self/fd/0
fi
printf '\036ended %d\n' $?
