"""What the user of a distribution does with a machine that has our kernel, on the wall clock."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from terminal_session import TIMEOUT_S, Session

from flatboot.distro import disk, distro_kernel
from flatboot.distro.disk import System
from flatboot.distro.installing import Disk
from flatboot.kernel import bases, parameters

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]
_PROFILE = "vm"
_SHELL = """
import sys
from pathlib import Path
from flatboot.distro import distro_boot
from flatboot.distro.installing import Disk
from flatboot.guest.machine import machine
image, memory, cpus, *words = sys.argv[1:]
on = distro_boot.Hardware(machine("x86_64", memory, int(cpus)), words=tuple(words))
sys.exit(distro_boot.shell(Disk(Path(image), None), on))
"""
#: How long a guest may take to its login beside other work, in seconds.
_LOGIN_S = 900.0
_WRONG = re.compile(r"WARNING:|\bBUG:|\bINFO:|Oops|Call Trace")
_CTRL_A = b"\x01"


class Guest(Session):
    """A Debian in which root is logged in."""

    def __init__(self, made: Disk, memory: str, cpus: int, *words: str) -> None:
        super().__init__([sys.executable, "-c", _SHELL, str(made.image), memory, str(cpus), *words])

    def log_in(self) -> None:
        self.expect(b"debian login: ", _LOGIN_S)
        self.type(b"root\n")
        self.expect(b"root@debian:~# ")
        self.does("export TERM=dumb; stty cols 1000; dmesg --console-off")

    def says(self, command: str, limit_s: float = TIMEOUT_S) -> tuple[int, str]:
        """Return the exit status of *command*, and what it printed, within *limit_s* seconds."""
        self.type(f"{command}; printf '\\nstatus %s.\\n' $?\n".encode())
        said = self.expect(b"\nstatus ", limit_s).decode()
        status = int(self.expect(b"."))
        self.expect(b"root@debian:~# ")
        return status, said.partition("\r\n")[2].replace("\r", "").strip()

    def does(self, command: str, limit_s: float = TIMEOUT_S) -> str:
        """Return what *command* printed, which must succeed within *limit_s* seconds."""
        status, said = self.says(command, limit_s)
        assert status == 0, said
        return said

    def becomes(self, command: str, wanted: str) -> None:
        """Wait until *command* prints *wanted*."""
        self.does(f'timeout 120 sh -c \'until [ "$({command})" = "{wanted}" ]; do sleep 1; done\'')

    def qemu(self, command: str) -> str:
        """Return what QEMU's monitor says to *command*."""
        self.type(_CTRL_A + b"c")
        self.expect(b"(qemu) ")
        self.type(f"{command}\n".encode())
        said = self.expect(b"\n(qemu) ").decode()
        self.type(_CTRL_A + b"c\n")
        self.expect(b"root@debian:~# ")
        return said.replace("\r", "").partition("\n")[2]

    def assert_nothing_is_wrong(self) -> None:
        log = self.does("dmesg")
        assert "Linux version" in log
        assert [line for line in log.splitlines() if _WRONG.search(line)] == []


@pytest.fixture(scope="module")
def package() -> Path:
    """The package of the kernel that is tried."""
    made = distro_kernel.kernel("flatboot", bases.default(), _PROFILE).package()
    assert made is not None
    return made


@pytest.fixture(scope="module")
def made(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return disk.make(tmp_path_factory.mktemp("disk"), System(package, _PROFILE))


@pytest.fixture
def start(made: Disk) -> Iterator[Callable[..., Guest]]:
    """Return what starts a guest with so much memory, so many CPUs, and further words for QEMU."""
    started: list[Guest] = []

    def starts(memory: str, cpus: int, *words: str, other: Disk | None = None) -> Guest:
        guest = Guest(other or made, memory, cpus, *words)
        started.append(guest)
        guest.log_in()
        return guest

    yield starts
    for guest in started:
        guest.close()


def test_all_units_run_and_nothing_is_wrong(start: Callable[..., Guest]) -> None:
    guest = start("4G", 8)
    assert guest.does("systemctl is-system-running --wait") == "running"
    assert guest.does("systemctl list-units --failed --plain --no-legend --no-pager") == ""
    line = parameters.profile(_PROFILE).line
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
    words = ["-drive", f"file=fat:{folders[1]},format=raw,if=virtio,readonly=on"]
    # A guest that is reset starts again.
    words += ["-action", "reboot=reset"]
    guest = start("2G", 2, *words, other=disk.make(folders[0], System(loader="grub")))
    debians = guest.does("uname -r")
    # An initramfs that is made in the guest has nothing that measures.
    guest.does(r"sed -i 's/ rdinit=[^ ]*//; s/ init=[^ \"]*//' /etc/default/grub")
    guest.does("mount -o ro /dev/vdb1 /mnt")
    for _ in range(2):
        guest.does("dpkg --install /mnt/kernel.deb", _LOGIN_S)
    guest.type(b"reboot\n")
    guest.log_in()
    ours = guest.does("uname -r")
    assert ours.endswith("-flatboot")
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.assert_nothing_is_wrong()
    guest.does(f"dpkg --purge linux-image-{ours}", _LOGIN_S)
    assert guest.says(f"ls -d /boot/*{ours} /lib/modules/{ours}")[0] != 0
    guest.type(b"reboot\n")
    guest.log_in()
    assert guest.does("uname -r") == debians


def test_systemctl_kexec_boots_it_again(start: Callable[..., Guest]) -> None:
    guest = start("4G", 4)
    guest.does("touch /run/before")
    kernel = "/boot/vmlinuz-$(uname -r) --initrd=/boot/initrd.img-$(uname -r)"
    guest.does(f"kexec --load {kernel} --reuse-cmdline")
    guest.type(b"systemctl kexec\n")
    guest.log_in()
    guest.does("test ! -e /run/before")
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.becomes("nproc", "4")
    guest.assert_nothing_is_wrong()


def test_cpus_go_and_come(start: Callable[..., Guest]) -> None:
    # None can be added: without a hypervisor that it knows, x86-64 takes no CPU from firmware this
    # old that was not there at boot.
    guest = start("2G", 4)
    guest.becomes("nproc", "4")
    online = "/sys/devices/system/cpu/cpu3/online"
    guest.does(f"for turn in 1 2 3 4 5; do echo 0 >{online} && echo 1 >{online}; done")
    guest.does(f"echo 0 >{online}")
    assert guest.does("nproc") == "3"
    guest.does(f"echo 1 >{online}")
    guest.does("taskset --cpu-list 3 true")
    guest.assert_nothing_is_wrong()


def test_memory_comes_and_goes(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2, "-m", "2048M,slots=2,maxmem=16G")

    def memory_bytes() -> int:
        return int(guest.does("free --bytes").splitlines()[1].split()[1])

    before = memory_bytes()
    guest.does("echo online_movable >/sys/devices/system/memory/auto_online_blocks")
    assert guest.qemu("object_add memory-backend-ram,id=more,size=4G") == ""
    assert guest.qemu("device_add pc-dimm,id=dimm,memdev=more") == ""
    there = "/sys/devices/system/memory/memory*/state"
    guest.becomes(f"cat {there} | grep -c online", str(6 * 8))
    assert memory_bytes() - before >= 0.95 * (4 << 30)
    guest.does("python3 -c 'bytearray(3 << 30)'")
    assert guest.qemu("device_del dimm") == ""
    guest.becomes(f"cat {there} | grep -c online", str(2 * 8))
    assert memory_bytes() == before
    guest.assert_nothing_is_wrong()


def test_a_service_is_held_to_its_memory_limit(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2)
    limited = "systemd-run --quiet --pipe --wait -p MemoryMax=128M -p MemorySwapMax=0 --"
    guest.does(f"{limited} python3 -c 'bytearray(64 << 20)'")
    status, _ = guest.says(f"{limited} python3 -c 'bytearray(256 << 20)'")
    assert status != 0
    assert "Memory cgroup out of memory" in guest.does("dmesg")


def test_a_full_machine_swaps_to_compressed_memory(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2)
    guest.does("modprobe zram num_devices=1 && echo 2G >/sys/block/zram0/disksize")
    guest.does("mkswap /dev/zram0 && swapon /dev/zram0")
    # No page is one word again and again, which would not be compressed.
    guest.does(f"python3 -c 'bytearray(b\"abc\" * {(2 << 30) // 3})'")
    swapped = int(guest.does("awk '/^pswpout/ { print $2 }' /proc/vmstat"))
    assert swapped * 4096 > 100 << 20
    guest.assert_nothing_is_wrong()


def test_a_snapshot_of_a_guest_that_has_not_used_its_memory(start: Callable[..., Guest]) -> None:
    guest = start("8G", 4)
    guest.does("touch /run/before")
    assert guest.qemu("savevm early") == ""
    guest.does("rm /run/before; python3 -c 'bytearray(4 << 30)'")
    assert guest.qemu("loadvm early") == ""
    guest.does("test -e /run/before && python3 -c 'bytearray(6 << 30)'")
    guest.assert_nothing_is_wrong()


def test_nothing_of_it_is_left_on_the_disk(made: Disk, start: Callable[..., Guest]) -> None:
    before = made.image.stat().st_mtime_ns
    guest = start("2G", 1)
    guest.does("touch /there && sync")
    guest.type(b"poweroff\n")
    assert guest.ended(_LOGIN_S) == 0
    assert made.image.stat().st_mtime_ns == before
