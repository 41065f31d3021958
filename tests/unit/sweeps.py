"""Sweeps whose boots are made up: built kernels that hold nothing, and what passes for a boot.

Workers in other processes import this module, so it uses nothing of pytest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import time
from pathlib import Path
from typing import Any

import boots

from flatboot.campaign import matrix, sweep
from flatboot.campaign.jobs import Job
from flatboot.common import units
from flatboot.guest import boot as booting
from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record


def kernel(folder: Path, name: str) -> dict[str, str]:
    """Make a built kernel and return its table in a matrix."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "vmlinux").write_text(f"the kernel {name}")
    (folder / name / "System.map").write_text("0000 T start\n")
    return {"kernel": str(folder / name)}


def jobs(folder: Path, *kernels: str, **keys: Any) -> list[Job]:
    """Return the jobs of a matrix with kernels of these names and further *keys*."""
    tables = {name: kernel(folder, name) for name in kernels}
    return sweep.plan(matrix.parse({"kernels": tables, **keys}, "test", folder))


async def measure(boot: BootSpec) -> Record:
    """Pass for a boot: take the time, or fail in the way, that its command line asks for.

    ``folder=DIR`` gets a file for the start, the end and the cancelling of each boot, with the time
    in it; ``seconds=S`` is how long the boot takes; ``fail=MEMORY`` panics on that machine.
    """
    words = dict(word.partition("=")[::2] for word in shlex.split(boot.cmdline))
    memory = units.short_size(boot.machine.memory_bytes)
    name = f"{boot.image.directory.name}-{memory}-{time.monotonic_ns()}"

    def note(what: str) -> None:
        if "folder" in words:
            Path(words["folder"], f"{what}-{name}").write_text(f"{os.getpid()} {time.time()}")

    note("start")
    if words.get("fail") == memory:
        raise booting.GuestFailed("panic", "the guest panicked: no root", "line\n" * 3)
    try:
        await asyncio.sleep(float(words.get("seconds", 0)))
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("end")
    cost = 1000 + boot.machine.memory_bytes // (1 << 20)
    record = boots.record("own", memory, cost, boot.cmdline)
    return dataclasses.replace(
        record,
        results={
            "pid": str(os.getpid()),
            "kernel": (boot.image.directory / "vmlinux").read_text(),
            "directory": str(boot.image.directory),
        },
    )
