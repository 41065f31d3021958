"""``flatboot distro``: a distribution from the reset to the login, on machines of several sizes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flatboot.common import disk as full_disks
from flatboot.common import host, progress, screen, units
from flatboot.common.errors import FlatbootError, UsageError, check_known
from flatboot.distro import disk, distro_boot, distro_kernel
from flatboot.distro.disk import System
from flatboot.distro.distro_boot import Hardware
from flatboot.distro.distro_kernel import DistroKernel
from flatboot.distro.firmware import FIRMWARE
from flatboot.distro.installing import LOADERS, Disk
from flatboot.distro.user_space import INITRAMFS
from flatboot.guest.machine import machine
from flatboot.kernel import bases
from flatboot.show import distro_tables

#: What firmware, initramfs and user space take besides.
_GUEST_BYTES = 1 << 30
#: With this a kernel does not touch the memory map of memory that nobody uses.
_LAZY = "deferred_init=lazy"


def _choice(names: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {what}" for name, what in names.items())


@full_disks.full_is_an_error()
def distro(
    memory: Annotated[str, typer.Option(help="Sizes of the memory.", metavar="A,B")] = "2G,16G",
    cpus: Annotated[str, typer.Option(help="Numbers of CPUs.", metavar="A,B")] = "1",
    kernels: Annotated[
        str,
        typer.Option(
            help=_choice(distro_kernel.KERNELS),
            metavar="A,B",
        ),
    ] = "debian",
    profile: Annotated[
        str, typer.Option(help="The profile whose boot parameters the kernel flatboot gets.")
    ] = "vm",
    base: Annotated[
        str | None, typer.Option(help="The base of stock and flatboot.", show_default="7.3")
    ] = None,
    loader: Annotated[
        str,
        typer.Option(
            help=_choice({name: loader.what for name, loader in LOADERS.items()}), metavar="NAME"
        ),
    ] = "systemd-boot",
    firmware: Annotated[str, typer.Option(help=f"{', '.join(FIRMWARE)}.", metavar="NAME")] = "uefi",
    disk_device: Annotated[
        str,
        typer.Option(
            "--disk", help=f"The disk: {', '.join(distro_boot.DISK_DEVICES)}.", metavar="NAME"
        ),
    ] = "virtio",
    initramfs: Annotated[
        str, typer.Option(help=f"What makes the initramfs: {', '.join(INITRAMFS)}.", metavar="NAME")
    ] = "initramfs-tools",
    packages: Annotated[
        str, typer.Option(help="Further packages of Debian in the guest.", metavar="A,B")
    ] = "",
    run: Annotated[
        Path | None,
        typer.Option(help="A program that the guest runs at its end, as root.", metavar="FILE"),
    ] = None,
    qemu: Annotated[
        str, typer.Option(help="Further words for QEMU, such as '-nic user'.", metavar="WORDS")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds that a boot may take.")] = 3600,
    shell: Annotated[
        bool,
        typer.Option("--shell", help="Boot the first kernel and machine, and stay at its login."),
    ] = False,
) -> None:
    """Boot Debian 13, and say where the time to the login went."""
    check_known("loader", loader, LOADERS)
    check_known("firmware", firmware, FIRMWARE)
    check_known("initramfs", initramfs, INITRAMFS)
    check_known("disk", disk_device, distro_boot.DISK_DEVICES)
    loaders = FIRMWARE[firmware].loaders
    if loader not in loaders:
        raise UsageError(
            f"with --firmware {firmware} nothing starts {loader}: give --loader"
            f" {' or '.join(loaders)}"
        )
    if disk_device not in FIRMWARE[firmware].disks:
        raise UsageError(
            f"with --firmware {firmware} there is no disk {disk_device}: give --disk"
            f" {' or '.join(FIRMWARE[firmware].disks)}"
        )
    if shell and not sys.stdin.isatty():
        raise UsageError("--shell needs a terminal: run it on one")
    machines = [
        Hardware(machine("x86_64", size, _number(number)), firmware, disk_device, _words(qemu))
        for number in cpus.split(",")
        for size in memory.split(",")
    ]
    wanted = [
        distro_kernel.kernel(name, base or bases.default(), profile) for name in kernels.split(",")
    ]
    if shell:
        wanted, machines = wanted[:1], machines[:1]
    if run and not run.is_file():
        raise UsageError(f"there is no file {run}: give --run a program")
    if run and shell:
        raise UsageError("a guest that stays at its login runs nothing: leave out --run or --shell")
    more = tuple(packages.split(",")) if packages else ()
    system = System(
        loader=loader, firmware=firmware, initramfs=initramfs, packages=more, program=run
    )
    FIRMWARE[firmware].check()
    disk.check_host()
    plan = _plan(wanted, machines)
    _announce([kernel for kernel, _ in plan])
    if shell:
        raise typer.Exit(_shell(wanted[0], machines[0], system))
    told: list[distro_tables.Boot] = []
    try:
        with progress.step("boots", total=sum(len(fitting) for _, fitting in plan)) as step:
            for kernel, fitting in plan:
                told += _boots(kernel, fitting, system, timeout, step, len(told))
    finally:
        console = screen.console()
        for name, there, tells in told:
            if run:
                print(f"What {run.name} printed, {name}, {there.title}:\n{tells.ran}")
        for table in distro_tables.tables(told) if told else ():
            console.print(table)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a number of CPUs: write numbers, as in --cpus 4,64"
        ) from error


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--qemu {text!r} has a quote that does not end: end it") from error


def _plan(
    kernels: Sequence[DistroKernel], machines: Sequence[Hardware]
) -> list[tuple[DistroKernel, list[Hardware]]]:
    """Return the machines that this host carries with each kernel, warning of the others.

    Raises:
        FlatbootError: it carries none with any.
    """
    free, plan, refused = host.available_memory(), [], []
    for kernel in kernels:
        fitting = []
        for wanted in machines:
            size = wanted.machine.memory_bytes
            touched = 0 if _LAZY in kernel.parameters else size
            needed = host.boot_memory(touched) + _GUEST_BYTES
            if needed <= free:
                fitting.append(wanted)
                continue
            refused.append(
                f"{kernel.name} in a guest of {units.binary_size(size)} takes"
                f" {units.decimal_size(needed)} of this machine's memory and"
                f" {units.decimal_size(free)} is free"
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
            f"flatboot: {units.many(count, 'kernel')} of Debian's config to build first, most of an"
            " hour each on two cores",
            flush=True,
        )


def _boots(
    kernel: DistroKernel,
    machines: Sequence[Hardware],
    system: System,
    limit_s: float,
    step: progress.Step,
    done: int,
) -> Iterator[distro_tables.Boot]:
    """Yield what each boot of *kernel* tells; *done* boots of *step* went before."""
    with _disk(kernel, system) as made:
        for number, wanted in enumerate(machines, done):
            step.update(number, f"{kernel.name}, {wanted.machine.title}")
            yield kernel.name, wanted.machine, distro_boot.boot(made, wanted, kernel.name, limit_s)


def _shell(kernel: DistroKernel, wanted: Hardware, system: System) -> int:
    """Leave the user at the login of a guest; return QEMU's exit status."""
    with _disk(kernel, system) as made:
        print(
            f"flatboot: {wanted.machine.title}: log in as root, without a password; poweroff ends"
            " the guest, as does Ctrl-A x, and its disk is thrown away",
            flush=True,
        )
        return distro_boot.shell(made, wanted)


def _disk(kernel: DistroKernel, system: System) -> AbstractContextManager[Disk]:
    return disk.temporary(replace(system, kernel=kernel.package(), profile=kernel.profile))
