#!/bin/sh
# Waits until the boot is over, tells how it went on the second serial port, runs what it shall, and
# ends the guest; a guest that has no such port goes on.
stty -F /dev/ttyS1 raw 2>/dev/null || exit 0
systemctl is-system-running --wait >/dev/null
/usr/local/sbin/mark /run/finish /bin/true
until [ -s /run/login ]; do
	sleep 0.1
done
export PYTHONPATH=/opt/flatboot/src:/opt/flatboot/lib
live=$(python3 -c 'from flatboot.cli import cli; cli.main()' analyze --live --json 2>/dev/console)
{
	echo "==== counters"
	tr '\0' '\n' </proc/1/environ | grep COUNTER_
	echo "COUNTER_FINISH=$(cat /run/finish)"
	echo "COUNTER_LOGIN=$(cat /run/login)"
	for part in time blame critical-chain; do
		echo "==== $part"
		systemd-analyze "$part" --no-pager
	done
	echo "==== free"
	free --bytes
	echo "==== lscpu"
	lscpu
	if [ -x /usr/local/sbin/run ]; then
		echo "==== run"
		/usr/local/sbin/run </dev/null >/run/ran 2>&1 || echo "run: exit status $?" >>/run/ran
		# No line of it is taken for one of these.
		sed 's/^/ /' /run/ran
	fi
	echo "==== failed"
	systemctl list-units --failed --plain --no-legend
	echo "==== log"
	dmesg
	echo "==== live"
	printf '%s\n' "$live"
	echo "==== end"
} >/dev/ttyS1 2>&1
reboot --force
