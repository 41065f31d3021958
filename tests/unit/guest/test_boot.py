"""What boot() makes of guests and machines that fail, without booting any."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path

import pytest
from boots import GUEST

from flatboot.cli import demo
from flatboot.common import arches
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import boot, guest_run, guestlog, qemu
from flatboot.guest.boot_spec import BootSpec, Clock
from flatboot.guest.guest_run import Ended
from flatboot.guest.machine import machine
from flatboot.kernel import own_kernel

DONE = "flatboot: mark=7\r\nflatboot: counter_hz=1000000000\r\nflatboot: complete\r\n"


def ended(console: str, reason: str = "guest-reset", timed_out: bool = False) -> Ended:
    return Ended(console, reason, "out of wishes", timed_out, qemu.Held(1, 1))


@pytest.mark.parametrize(
    ("how", "kind", "sentence"),
    [
        (
            ended("Kernel panic - not syncing: VFS: no root\r\n"),
            "panic",
            "the guest panicked: VFS: no root",
        ),
        (ended("", "", True), "silent", "the guest printed nothing in 60 s"),
        (ended("loading\r\n", "", True), "hang", "was not done in 60 s.*\n  loading"),
        (ended("hello\r\n", ""), "qemu", "QEMU died while the guest ran: out of wishes"),
        (ended("", "guest-reset"), "silent", "restarted and had printed nothing"),
        (ended("flatboot: mark=7\r\n"), "restart", "restarted before /init was done"),
        (
            ended("flatboot: exit.fill=9\r\n" + DONE),
            "program",
            "the guest program fill ended with status 9",
        ),
        (
            ended("flatboot: exit.fill=139\r\nflatboot: exit.fill=0\r\n" + DONE),
            "program",
            "the guest program fill ended with status 139",
        ),
        (ended(DONE.replace("mark=7", "mark=7qemu")), "mark", "lacks the time of /init"),
    ],
)
def test_guests_that_fail(how: Ended, kind: str, sentence: str) -> None:
    with pytest.raises(boot.GuestFailed, match=f"(?s){sentence}") as failure:
        boot._judged(how, GUEST)
    assert failure.value.kind == kind
    assert "\r" not in failure.value.console


def test_a_guest_that_does_well() -> None:
    assert boot._judged(ended(DONE), GUEST).results["mark"] == "7"


OOPS = """[    1.1] Oops: int3: 0000 [#1] SMP
[    1.1] RIP: 0010:sched_clock_cpu+0xe/0x1a0
[    1.1] acpi PNP0C01:00: Reserved [mem 0xb0000000-0xbfffffff]
[    1.1] Code: 41 55 41 54 53 {before} <90> e8 ac 00 f7 ff
[    1.1] Kernel panic - not syncing: Fatal exception in interrupt
"""
STALE = OOPS.format(before="66")
TORN = OOPS.partition("[    1.1] Code")[0]
JUMPED = DONE.replace("mark=7", f"mark={9 * 10**15}")
NOTES = {
    STALE: "QEMU ran code in sched_clock_cpu that the kernel had replaced: booted once more",
    TORN: "QEMU ran code in a function that its console does not name that the kernel had replaced"
    ": booted once more",
    JUMPED: "the host's counter jumped: booted once more",
}


@pytest.mark.parametrize(
    ("cpus", "exact", "consoles", "runs"),
    [
        (2, False, [STALE, STALE, DONE], 3),
        (2, False, [STALE] * 17, 16),
        (2, False, [OOPS.format(before="cc"), DONE], 1),
        (1, False, [STALE, DONE], 1),
        (2, True, [STALE, DONE], 1),
        (2, False, [DONE, STALE], 1),
        (2, False, [TORN, DONE], 2),
        (2, False, [JUMPED, DONE], 2),
        (1, False, [JUMPED, DONE], 2),
        (1, True, [JUMPED, DONE], 1),
    ],
)
def test_a_run_that_the_emulator_or_the_host_broke_is_done_again(
    monkeypatch: pytest.MonkeyPatch, cpus: int, exact: bool, consoles: list[str], runs: int
) -> None:
    left = list(consoles)

    async def run(guest: guest_run.Guest, tracking: object) -> tuple[Ended, None]:
        return ended(left.pop(0)), None

    monkeypatch.setattr(boot, "_run", run)
    clock: Clock = "exact" if exact else "wall"
    spec = dataclasses.replace(GUEST.spec, clock=clock, machine=machine(cpus=cpus))
    guest = dataclasses.replace(GUEST, spec=spec)
    notes: list[str] = []
    last, _ = asyncio.run(boot._run_sound(guest, None, notes))
    assert len(consoles) - len(left) == runs
    assert last.console == consoles[runs - 1]
    assert notes == [NOTES[console] for console in consoles[: runs - 1]]


def test_a_panic_that_was_wanted_is_none() -> None:
    panic = "flatboot: panic=wanted\r\nKernel panic - not syncing: sysrq triggered crash\r\n"
    assert boot._judged(ended(panic + DONE), GUEST).complete
    with pytest.raises(boot.GuestFailed, match="restarted before /init was done"):
        boot._judged(ended(panic), GUEST)


def test_a_counter_that_jumped_is_no_figure() -> None:
    wall = dataclasses.replace(GUEST, spec=dataclasses.replace(GUEST.spec, clock="wall"))
    log = guestlog.parse(f"flatboot: mark={3 * 10**9}\nflatboot: counter_hz=1000000000\n")
    assert boot._clocked(log, wall, 3.1) == (3 * 10**9, 1.0)
    with pytest.raises(FlatbootError, match=r"says 3\.0 s to /init and the whole run took 2\.9 s"):
        boot._clocked(log, wall, 2.9)


def test_the_end_of_the_console_is_shown_and_no_more() -> None:
    console = "".join(f"line {number}\n" for number in range(100))
    text = str(boot.GuestFailed("hang", "it hung", console))
    assert "line 99" in text
    assert "line 50" not in text


def test_command_of_the_exact_clock() -> None:
    words = guest_run._command(GUEST, "record", 9)
    assert words[words.index("-icount") + 1] == "shift=0,sleep=off,rr=record,rrfile=/proc/self/fd/9"
    assert words[words.index("-seed") + 1] == "1"
    assert words[words.index("-initrd") + 1] == "/proc/self/fd/5"


def test_qemu_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FlatbootError, match=r"qemu-system-x86_64 is not there: install QEMU 7\.0"):
        asyncio.run(qemu.capabilities(arches.load("x86_64")))


FAKE = """#!/usr/bin/env python3
import json, socket, sys
fd = int(next(w for w in sys.argv if w.startswith("socket,id=qmp")).split("fd=")[1])
link = socket.socket(fileno=fd)
version = {"qemu": {"major": 5, "minor": 2, "micro": 0}, "package": ""}
def say(what):
    link.sendall(json.dumps(what).encode() + b"\\r\\n")
say({"QMP": {"version": version, "capabilities": []}})
while text := link.recv(65536):
    asked = json.loads(text)
    say({"return": version if asked["execute"] == "query-version" else {}, "id": asked.get("id")})
"""


def fake_qemu(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "qemu-system-x86_64"
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_qemu_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, FAKE, monkeypatch)
    with pytest.raises(FlatbootError, match=r"is version 5\.2\.0, too old: install QEMU 7\.0"):
        asyncio.run(qemu.capabilities(arches.load("x86_64")))


def test_qemu_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, "#!/bin/sh\nexec sleep 300\n", monkeypatch)
    monkeypatch.setattr(qemu, "_START_S", 0.2)
    with pytest.raises(FlatbootError, match="QEMU did not answer"):
        asyncio.run(qemu.capabilities(arches.load("x86_64")))


def test_qemu_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, "#!/bin/sh\necho 'cannot allocate memory' >&2\nexit 1\n", monkeypatch)
    with pytest.raises(FlatbootError, match="QEMU did not start: cannot allocate memory"):
        asyncio.run(qemu.capabilities(arches.load("x86_64")))


def test_own_kernel(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(b"")
    assert own_kernel.find(tmp_path) == own_kernel.OwnKernel(tmp_path, str(tmp_path), "")
    assert own_kernel.find(tmp_path / "vmlinux").directory == tmp_path
    (tmp_path / "vmlinux-old").touch()
    with pytest.raises(UsageError, match="vmlinux-old is not booted by that name"):
        own_kernel.find(tmp_path / "vmlinux-old")
    with pytest.raises(UsageError, match="there is no kernel at"):
        own_kernel.find(tmp_path / "none")


def test_no_kernel_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match="holds no vmlinux for x86_64"):
        boot.boot(BootSpec(own_kernel.find(tmp_path), machine()))


@pytest.mark.parametrize(
    ("available", "size"), [(22e9, 1 << 40), (17e9, 512 << 30), (5e9, 256 << 30), (1e8, 2 << 30)]
)
def test_stock_is_booted_as_large_as_memory_allows(available: float, size: int) -> None:
    assert demo.largest_stock(available) == size
