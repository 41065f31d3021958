"""``flatboot distro``: a distribution from the reset to the login, on machines of several sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from flatboot.common import disk as disks
from flatboot.common import host, paths, progress, screen, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.distro import disk, distro_boot, distro_kernel
from flatboot.distro.distro_kernel import DistroKernel
from flatboot.guest.machine import Machine, machine
from flatboot.kernel import bases
from flatboot.show import distro_tables

#: What firmware, initramfs and user space take besides.
_GUEST_BYTES = 1 << 30
#: With this a kernel does not touch the memory map of memory that nobody uses.
_LAZY = "deferred_init=lazy"


@disks.full_is_an_error()
def distro(
    memory: Annotated[str, typer.Option(help="Sizes of the memory.", metavar="A,B")] = "2G,16G",
    cpus: Annotated[str, typer.Option(help="Numbers of CPUs.", metavar="A,B")] = "1",
    kernels: Annotated[
        str,
        typer.Option(
            help="; ".join(f"{name}: {what}" for name, what in distro_kernel.KERNELS.items()),
            metavar="A,B",
        ),
    ] = "debian",
    profile: Annotated[
        str, typer.Option(help="Whose boot parameters the kernel flatboot gets.")
    ] = "vm",
    base: Annotated[
        str | None, typer.Option(help="The base of stock and flatboot.", show_default="7.3")
    ] = None,
) -> None:
    """Boot Debian 13 by UEFI, and say where the way to the login went."""
    machines = [
        machine("x86_64", size, _number(number))
        for number in cpus.split(",")
        for size in memory.split(",")
    ]
    wanted = [
        distro_kernel.kernel(name, base or bases.default(), profile) for name in kernels.split(",")
    ]
    plan = _plan(wanted, machines)
    _announce([kernel for kernel, _ in plan])
    told: list[distro_tables.Boot] = []
    with progress.step("boots", total=sum(len(fitting) for _, fitting in plan)) as step:
        for kernel, fitting in plan:
            told += _boots(kernel, fitting, step, len(told))
    console = screen.console()
    for table in distro_tables.tables(told):
        console.print(table)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no number of CPUs: give such as --cpus 4,64") from error


def _plan(
    kernels: Sequence[DistroKernel], machines: Sequence[Machine]
) -> list[tuple[DistroKernel, list[Machine]]]:
    """Return the machines that this host carries with each kernel, warning of the others.

    Raises:
        FlatbootError: it carries none with any.
    """
    free, plan, refused = host.available_memory(), [], []
    for kernel in kernels:
        fitting = []
        for wanted in machines:
            touched = 0 if _LAZY in kernel.parameters else wanted.memory_bytes
            needed = host.boot_memory(touched) + _GUEST_BYTES
            if needed <= free:
                fitting.append(wanted)
                continue
            refused.append(
                f"{kernel.name} in a guest of {units.binary_size(wanted.memory_bytes)} takes"
                f" {units.decimal_size(needed)} of this machine's memory and"
                f" {units.decimal_size(free)} are free"
            )
        if fitting:
            plan.append((kernel, fitting))
    if not plan:
        raise FlatbootError(f"{refused[-1]}: give less with --memory")
    for text in refused:
        progress.warn(f"{text}: it is left out")
    return plan


def _announce(kernels: Sequence[DistroKernel]) -> None:
    """Say what takes long before anything boots."""
    if count := sum(kernel.to_build for kernel in kernels):
        print(
            f"flatboot: {units.many(count, 'kernel')} of Debian's config to build first, half an"
            " hour each on two cores",
            flush=True,
        )


def _boots(
    kernel: DistroKernel, machines: Sequence[Machine], step: progress.Step, done: int
) -> Iterator[distro_tables.Boot]:
    """Yield what each boot of *kernel* tells; *done* boots of *step* went before."""
    package = kernel.package()
    with tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as folder:
        made = disk.make(Path(folder), package, kernel.parameters)
        for number, wanted in enumerate(machines, done):
            step.update(number, f"{kernel.name}, {wanted.title}")
            yield kernel.name, wanted, distro_boot.boot(made, wanted, kernel.name)
