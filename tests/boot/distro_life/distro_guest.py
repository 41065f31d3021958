"""A guest with Debian and our kernel, in which root is logged in, on the wall clock."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from pathlib import Path

from terminal_session import TIMEOUT_S, Session

from flatboot.distro.installing import Disk

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
#: Whose boot parameters the kernel has.
PROFILE = "vm"
#: How long a guest may take to its login beside other work, in seconds.
LOGIN_S = 900.0
#: A guest that is reset starts again.
STARTS_AGAIN = ("-action", "reboot=reset")
_WRONG = re.compile(r"WARNING:|\bBUG:|\bINFO:|Oops|Call Trace")
_CTRL_A = b"\x01"


def swap_disk(folder: Path) -> tuple[str, ...]:
    """Return QEMU's words for a second disk of 2 GiB, made in *folder*, which is empty."""
    disk = folder / "swap"
    with disk.open("wb") as file:
        file.truncate(2 << 30)
    return ("-drive", f"file={disk},format=raw,if=virtio")


class Guest(Session):
    """A Debian in which root is logged in."""

    def __init__(self, made: Disk, memory: str, cpus: int, *words: str) -> None:
        super().__init__([sys.executable, "-c", _SHELL, str(made.image), memory, str(cpus), *words])

    def log_in(self) -> None:
        """Log in as root at the login that comes next."""
        self.expect(b"debian login: ", LOGIN_S)
        self.type(b"root\n")
        self.expect(b"root@debian:~# ")
        self.does("export TERM=dumb; stty cols 1000; dmesg --console-off")

    def wakes(self) -> None:
        """Press Enter until the shell of a guest that goes on answers."""
        answered = False
        deadline = time.monotonic() + LOGIN_S
        while not answered:
            assert time.monotonic() < deadline
            self.type(b"\n")
            with contextlib.suppress(AssertionError):
                self.expect(b"root@debian:~# ", 10)
                answered = True
        # It answers each time.
        self.does("true")

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

    def boots_with(self, words: str) -> None:
        """From the next boot on, have *words* on the command line, and nothing that measures."""
        self.does("mountpoint -q /boot/efi || mount /dev/vda1 /boot/efi")
        edit = f"/^options/ {{ s/ rdinit=[^ ]*//; s/ init=[^ ]*//; s|$| {words}| }}"
        self.does(f"sed -i '{edit}' /boot/efi/loader/entries/*.conf && sync")

    def qemu(self, command: str, limit_s: float = TIMEOUT_S) -> str:
        """Return what QEMU's monitor says to *command*, within *limit_s* seconds."""
        self.sends_qemu(command)
        said = self.expect(b"\n(qemu) ", limit_s).decode()
        self.type(_CTRL_A + b"c\n")
        self.expect(b"root@debian:~# ")
        return said.replace("\r", "").partition("\n")[2]

    def sends_qemu(self, command: str) -> None:
        """Type a *command* for QEMU's monitor, and stay there."""
        self.type(_CTRL_A + b"c")
        self.expect(b"(qemu) ")
        self.type(f"{command}\n".encode())

    def sends(self, command: str) -> None:
        """Type a *command*, and wait for nothing."""
        self.type(f"{command}\n".encode())

    def memory_bytes(self) -> int:
        """Return the memory that the guest has, as ``free`` shows it."""
        return int(self.does("free --bytes").splitlines()[1].split()[1])

    def event_bytes(self, event: str) -> int:
        """Return the pages that *event* of /proc/vmstat has counted since the guest booted."""
        return int(self.does(f"awk '/^{event} / {{ print $2 }}' /proc/vmstat")) * 4096

    def host_bytes(self) -> int:
        """Return the memory that QEMU has of the host."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        status = Path(f"/proc/{children.split()[0]}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    def assert_nothing_is_wrong(self) -> None:
        """Fail if the kernel's log tells of something wrong."""
        log = self.does("dmesg")
        assert "Linux version" in log, log
        wrong = [line for line in log.splitlines() if _WRONG.search(line)]
        assert not wrong, wrong
