"""What the user of a distribution does with a machine that has our kernel."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from distro_guest import LOGIN_S, PROFILE, STARTS_AGAIN, Guest, swap_disk

from flatboot.distro import disk
from flatboot.distro.disk import System
from flatboot.distro.installing import Disk
from flatboot.kernel import parameters

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]
_RANDOM = "head -c 300M /dev/urandom >/dev/shm/random && sha256sum /dev/shm/random"


def test_all_units_run_and_nothing_is_wrong(start: Callable[..., Guest]) -> None:
    guest = start("4G", 8)
    guest.log_in()
    assert guest.does("systemctl is-system-running --wait") == "running"
    assert guest.does("systemctl list-units --failed --plain --no-legend --no-pager") == ""
    line = parameters.profile(PROFILE).line
    assert line in guest.does("cat /proc/cmdline")
    guest.becomes("nproc", "8")
    guest.assert_nothing_is_wrong()


def test_the_kernel_is_installed_and_removed(
    package: Path, tmp_path: Path, start: Callable[..., Guest]
) -> None:
    """Beside Debian's own kernel, which GRUB starts again when it is gone."""
    folders = [tmp_path / name for name in ("disk", "packages")]
    for folder in folders:
        folder.mkdir()
    shutil.copy2(package, folders[1] / "kernel.deb")
    parameters.deb(PROFILE, parameters.NOBODY, folders[1]).rename(folders[1] / "profile.deb")
    words = ("-drive", f"file=fat:{folders[1]},format=raw,if=virtio,readonly=on")
    other = disk.make(folders[0], System(loader="grub"))
    guest = start("2G", 2, *words, *STARTS_AGAIN, other=other)
    guest.log_in()
    debians = guest.does("uname -r")
    # An initramfs that is made in the guest has nothing that measures.
    guest.does(r"sed -i 's/ rdinit=[^ ]*//; s/ init=[^ \"]*//' /etc/default/grub")
    guest.does("mount -o ro /dev/vdb1 /mnt")
    for _ in range(2):
        guest.does("dpkg --install /mnt/kernel.deb /mnt/profile.deb", LOGIN_S)
    guest.sends("reboot")
    guest.log_in()
    line = parameters.profile(PROFILE).line
    assert line in guest.does("cat /proc/cmdline")
    ours = guest.does("uname -r")
    assert ours.endswith("-flatboot")
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.assert_nothing_is_wrong()
    guest.does(f"dpkg --purge linux-image-{ours} {parameters.PACKAGE}", LOGIN_S)
    assert guest.says(f"ls -d /boot/*{ours} /lib/modules/{ours} 2>/dev/null")[1] == ""
    guest.sends("reboot")
    guest.log_in()
    assert guest.does("uname -r") == debians
    assert line not in guest.does("cat /proc/cmdline")


def test_systemctl_kexec_boots_it_again(start: Callable[..., Guest]) -> None:
    guest = start("4G", 4)
    guest.log_in()
    guest.does("touch /run/before")
    kernel = "/boot/vmlinuz-$(uname -r) --initrd=/boot/initrd.img-$(uname -r)"
    guest.does(f"kexec --load {kernel} --reuse-cmdline")
    guest.sends("systemctl kexec")
    guest.log_in()
    guest.does("test ! -e /run/before")
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.becomes("nproc", "4")
    guest.assert_nothing_is_wrong()


def test_it_hibernates(tmp_path: Path, start: Callable[..., Guest]) -> None:
    """With memory still deferred, through firmware, loader and another kernel."""
    guest = start("4G", 2, *swap_disk(tmp_path), *STARTS_AGAIN)
    guest.log_in()
    guest.does("mkswap /dev/vdb && swapon /dev/vdb")
    guest.boots_with("resume=/dev/vdb")
    # As hibernation does, but then the guest starts again by itself.
    guest.does("mkdir -p /etc/systemd/sleep.conf.d")
    guest.does("printf '[Sleep]\\nHibernateMode=reboot\\n' >/etc/systemd/sleep.conf.d/again.conf")
    kept = guest.does(_RANDOM)
    there = "dmesg | grep -q 'PM: hibernation: hibernation exit'"
    guest.does(f"systemctl hibernate && until {there}; do sleep 1; done", LOGIN_S)
    assert guest.does("sha256sum /dev/shm/random") == kept
    assert guest.does("systemctl is-system-running") == "running"
    guest.does("python3 -c 'bytearray(3 << 30)'")
    guest.assert_nothing_is_wrong()


def test_cpus_go_and_come(start: Callable[..., Guest]) -> None:
    guest = start("2G", 4)
    guest.log_in()
    guest.becomes("nproc", "4")
    online = "/sys/devices/system/cpu/cpu3/online"
    guest.does(f"(set -e; for turn in 1 2 3 4 5; do echo 0 >{online}; echo 1 >{online}; done)")
    guest.does(f"echo 0 >{online}")
    assert guest.does("nproc") == "3"
    guest.does(f"echo 1 >{online}")
    guest.does("taskset --cpu-list 3 true")
    guest.assert_nothing_is_wrong()


def test_cpus_are_added(start: Callable[..., Guest]) -> None:
    # Without a hypervisor that it knows, x86-64 takes no CPU from firmware this old that was not
    # there at boot. It takes QEMU for VMware's, by this number and a port.
    known = ("-smbios", "type=1,serial=VMware-0")
    guest = start("2G", 2, "-smp", "2,maxcpus=8,sockets=8,cores=1,threads=1", *known)
    guest.log_in()
    assert guest.does("nproc") == "2"
    for number in range(2, 8):
        place = f"socket-id={number},core-id=0,thread-id=0"
        assert guest.qemu(f"device_add max-x86_64-cpu,id=cpu{number},{place}") == ""
        online = f"/sys/devices/system/cpu/cpu{number}/online"
        guest.becomes(f"ls {online}", online)
        guest.says(f"echo 1 >{online}")
    guest.becomes("nproc", "8")
    guest.does("taskset --cpu-list 7 true")
    guest.does(f"echo 0 >{online}")
    assert guest.does("nproc") == "7"
    guest.assert_nothing_is_wrong()


def test_a_snapshot_of_a_guest_that_has_not_used_its_memory(start: Callable[..., Guest]) -> None:
    guest = start("8G", 4)
    guest.log_in()
    guest.does("touch /run/before")
    assert guest.qemu("savevm early") == ""
    guest.does("rm /run/before; python3 -c 'bytearray(4 << 30)'")
    assert guest.qemu("loadvm early") == ""
    guest.does("test -e /run/before && python3 -c 'bytearray(6 << 30)'")
    guest.assert_nothing_is_wrong()


def test_it_moves_to_another_machine(tmp_path: Path, start: Callable[..., Guest]) -> None:
    """By a file, with its disk, while most of its memory is deferred."""
    file = tmp_path / "state"
    guest = start("8G", 4)
    guest.log_in()
    kept = guest.does(_RANDOM)
    # From then on the guest stands still, and its shell with it.
    guest.sends_qemu(f'migrate -b "exec:cat >{file}"')
    guest.expect(b"\n(qemu) ", LOGIN_S)
    guest.sends("info migrate")
    assert b"Migration status: completed" in guest.expect(b"\n(qemu) ")
    guest.sends("quit")
    guest.ended()
    moved = start("8G", 4, "-incoming", f"exec:cat {file}")
    moved.wakes()
    assert moved.does("sha256sum /dev/shm/random") == kept
    moved.does("python3 -c 'bytearray(6 << 30)'")
    moved.becomes("nproc", "4")
    moved.assert_nothing_is_wrong()


def test_nothing_of_it_is_left_on_the_disk(made: Disk, start: Callable[..., Guest]) -> None:
    before = made.image.stat().st_mtime_ns
    guest = start("2G", 1)
    guest.log_in()
    guest.does("touch /there && sync")
    guest.assert_nothing_is_wrong()
    guest.sends("poweroff")
    assert guest.ended(LOGIN_S) == 0
    assert made.image.stat().st_mtime_ns == before
