"""Boots taken apart: the phases add up, and looking at a guest does not change it."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatboot.guest import boot
from flatboot.guest.machine import machine, parse_nodes
from flatboot.kernel import bases, build
from flatboot.kernel.build import KernelImage
from flatboot.record import phases
from flatboot.record.record import Record, load

MEMORY = "512M"
PROGRAM = (sys.executable, "-c", "from flatboot.cli.cli import main; main()")
PHASES = {
    "firmware",
    "early memory set-up",
    "boot processor",
    "SMP init",
    "scheduler domains",
    "waiting for the memory map",
    "initcalls",
    "user space",
    "unattributed",
}


@functools.cache
def stock() -> KernelImage:
    """Return the stock kernel with the bench config."""
    return build.kernel(bases.default(), "stock", "bench")


def assert_whole(record: Record) -> None:
    """Fail unless the phases follow each other without gaps and add up to the boot."""
    at = 0
    for phase in record.phases:
        assert phase.start == at
        assert phase.length > 0
        at += phase.length
    assert at == record.to_init
    assert set(phases.by_name(record.phases)) >= PHASES


def test_looking_does_not_change_the_exact_clock() -> None:
    bare = boot.boot(stock(), machine(memory=MEMORY))
    again = boot.boot(stock(), machine(memory=MEMORY), phases=True)
    assert again.to_init == bare.to_init
    assert_whole(again)
    assert again.notes == []
    assert len(again.calls) > 100
    assert len({call.start for call in again.calls}) == len(again.calls)
    covered = sum(call.length for call in again.calls)
    assert covered < again.phase("initcalls") + again.phase("boot processor")
    assert not bare.phases
    assert not bare.calls


def test_a_record_says_what_was_booted(tmp_path: Path) -> None:
    record = boot.boot(stock(), machine(memory=MEMORY), cmdline="foo=bar")
    record.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json") == record
    assert record.cmdline.endswith("foo=bar")
    assert record.files["/proc/cmdline"].strip() == record.cmdline
    assert 400 << 10 < record.meminfo["MemTotal"] < 512 << 10
    assert "Linux version " + record.kernel.version in record.log
    assert 50e6 < record.host_peak_bytes < 1e9
    assert record.machine.type.startswith("pc-q35-")


def test_several_cpus_and_nodes() -> None:
    shape = machine(nodes=parse_nodes("512M:1,0:1,512M"))
    record = boot.boot(stock(), shape, phases=True)
    assert_whole(record)
    assert record.phase("SMP init") > 1_000_000
    assert record.phase("unattributed") < record.to_init / 20
    assert [note for note in record.notes if "second run" in note]
    nodes = [path for path in record.files if path.startswith("/sys/devices/system/node/")]
    assert len(nodes) == 3


def test_wall_clock() -> None:
    record = boot.boot(stock(), machine(memory=MEMORY), clock="wall", phases=True)
    assert record.unit == "ns"
    assert 10**8 < record.to_init < 120 * 10**9
    if record.machine.accelerator == "tcg":
        assert_whole(record)


def test_panic() -> None:
    with pytest.raises(boot.GuestFailed, match=r"the guest panicked: .*root") as failure:
        boot.boot(stock(), machine(memory=MEMORY), cmdline="rdinit=/none")
    assert failure.value.kind == "panic"
    assert "the end of its console" in str(failure.value)


def test_a_panic_that_hangs() -> None:
    began = time.monotonic()
    with pytest.raises(boot.GuestFailed) as failure:
        boot.boot(stock(), machine(memory=MEMORY), cmdline="rdinit=/none panic=0", timeout_s=500)
    assert failure.value.kind == "panic"
    assert time.monotonic() - began < 300


def test_no_output() -> None:
    with pytest.raises(boot.GuestFailed, match=r"printed nothing in 0.2 s") as failure:
        boot.boot(stock(), machine(memory=MEMORY), timeout_s=0.2)
    assert failure.value.kind == "silent"


def command_line(image: KernelImage, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "boot", "--kernel", str(image.directory), "--memory", MEMORY, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_exit_status_and_console_of_a_guest_that_fails() -> None:
    child = command_line(stock(), "--cmdline", "rdinit=/none")
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "the guest panicked" in errors
    assert "Traceback" not in errors


def qemus_of(parent: int) -> list[int]:
    """Return the QEMU processes that *parent* started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if lines["PPid"] == str(parent) and lines["Name"].startswith("qemu"):
            found.append(int(lines["Pid"]))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_qemu_is_left_behind(number: signal.Signals) -> None:
    child = command_line(stock())
    started: list[int] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        started = qemus_of(child.pid)
        # The first QEMU only says what it can do; the second holds the guest.
        if any("-kernel" in arguments(pid) for pid in started):
            break
        time.sleep(0.05)
    assert started
    child.send_signal(number)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "Traceback" not in errors
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in started)


def arguments(pid: int) -> list[str]:
    """Return the command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended and that nobody waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_environment_without_qemu(tmp_path: Path) -> None:
    image = stock()
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [*PROGRAM, "boot", "--kernel", str(image.directory)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert "qemu-system-x86_64 is not there" in " ".join(done.stderr.split())
