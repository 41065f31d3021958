"""A crash of a distribution's guest: Debian's kdump-tools writes what can be read of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from distro_guest import LOGIN_S, PROFILE, STARTS_AGAIN, Guest

from flatboot.distro import disk
from flatboot.distro.disk import System
from flatboot.distro.installing import Disk

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]
#: Without the second, the whole of the memory is written.
_PACKAGES = ("kdump-tools", "makedumpfile")


@pytest.fixture(scope="module")
def with_kdump(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    system = System(package, PROFILE, packages=_PACKAGES)
    return disk.make(tmp_path_factory.mktemp("disk"), system)


def test_kdump_tools_writes_a_dump(with_kdump: Disk, start: Callable[..., Guest]) -> None:
    guest = start("4G", 2, *STARTS_AGAIN, other=with_kdump)
    guest.log_in()
    guest.boots_with("crashkernel=384M")
    guest.sends("reboot")
    guest.log_in()
    guest.becomes("cat /sys/kernel/kexec_crash_loaded", "1")
    guest.does("echo a mark >/dev/kmsg; sync")
    guest.sends("echo c >/proc/sysrq-trigger")
    guest.log_in()
    dump = guest.does("ls /var/crash/*/dump.*")
    assert int(guest.does(f"stat --format=%s {dump}")) < 400 << 20
    # It is written as a stream, which is to be put in order first.
    guest.does(f"makedumpfile -R /tmp/dump <{dump}", LOGIN_S)
    guest.does("makedumpfile --dump-dmesg /tmp/dump /tmp/log", LOGIN_S)
    log = guest.does("cat /tmp/log")
    assert "a mark" in log
    assert "sysrq: Trigger a crash" in log
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.assert_nothing_is_wrong()
