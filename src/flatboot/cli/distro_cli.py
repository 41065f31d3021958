"""``flatboot distro``: a distribution from the reset to the login, on machines of several sizes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from flatboot.common import disk as disks
from flatboot.common import host, paths, progress, screen, units
from flatboot.common.errors import FlatbootError
from flatboot.distro import disk, distro_boot
from flatboot.guest.machine import machine
from flatboot.show import distro_tables

#: What firmware, initramfs and user space take besides.
_GUEST_BYTES = 1 << 30


@disks.full_is_an_error()
def distro(
    memory: Annotated[str, typer.Option(help="Sizes of the memory.", metavar="A,B")] = "2G,16G",
    cpus: Annotated[int, typer.Option(help="Number of CPUs.")] = 1,
) -> None:
    """Boot Debian 13 by UEFI with its own kernel, and say where the way to the login went."""
    machines = [machine("x86_64", size, cpus) for size in memory.split(",")]
    largest = max(wanted.memory_bytes for wanted in machines)
    needed, free = host.boot_memory(largest) + _GUEST_BYTES, host.available_memory()
    if needed > free:
        raise FlatbootError(
            f"a guest of {units.binary_size(largest)} takes {units.decimal_size(needed)} of this"
            f" machine's memory and {units.decimal_size(free)} are free: give less with --memory"
        )
    with tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as folder:
        made = disk.make(Path(folder))
        with progress.step("boots", total=len(machines)) as step:
            told = []
            for number, wanted in enumerate(machines):
                step.update(number, wanted.title)
                told.append(distro_boot.boot(made, wanted))
    console = screen.console()
    for table in distro_tables.tables(machines, told):
        console.print(table)
