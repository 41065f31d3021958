"""Architectures as data: one file each in arches/, read here and nowhere branched on."""

from __future__ import annotations

import dataclasses
import functools
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from flatboot.common import typed, units
from flatboot.common.errors import check_known

FOLDER = Path(__file__).parent / "arches"
_Size = Annotated[int, BeforeValidator(units.size)]


@dataclass(frozen=True)
class PhysBits:
    """The address bits that the CPU model must offer for memory of up to so many bytes.

    0 bits stand for a model whose own width is fixed.
    """

    up_to: _Size
    bits: int


@dataclass(frozen=True)
class Board:
    """The machine that QEMU emulates for the architecture, and its limits."""

    binary: str
    machine: str
    machine_options: tuple[str, ...]
    machine_options_if_known: tuple[str, ...]
    cpu: str
    max_cpus: int
    max_nodes: int
    min_memory: _Size
    firmware: str
    phys_bits: tuple[PhysBits, ...]


@dataclass(frozen=True)
class Counter:
    """The raw counter: how to read it, and what one of its ticks is on the exact clock.

    Attributes:
        instruction: the machine code that reads it, in memory order.
        registers: numbers of the registers that it arrives in, lowest part first.
        half_bits: how many bits each of them holds.
        ns_per_tick: instructions (virtual nanoseconds) a tick on the exact clock.
    """

    instruction: Annotated[bytes, BeforeValidator(bytes.fromhex)]
    registers: tuple[int, ...]
    half_bits: int
    ns_per_tick: int


@dataclass(frozen=True)
class Registers:
    """Register numbers in QEMU's gdb stub, each ``width`` bytes wide.

    The return address at a function's entry is in ``return_register``, or on the stack that
    ``return_on_stack`` points to; the other is None.
    """

    width: int
    pc: int
    argument: int
    return_register: int | None = None
    return_on_stack: int | None = None


@dataclass(frozen=True)
class Physical:
    """Where the kernel runs before it maps itself: address - virtual + physical.

    ``virtual`` is an address or the name of a symbol.
    """

    virtual: int | str
    physical: int


@dataclass(frozen=True)
class Arch:
    """An architecture: how its kernel is built, booted and clocked.

    Attributes:
        kernel_arch: the value of make's ARCH.
        cross_prefix: the compiler prefix of a cross build.
        image: path of the bootable image in the build tree; its last part is the make target.
        fragments: names in kernel/configs that come on top of every config.
        debian: what Debian calls it.
        boot_file: the file of a built kernel that QEMU boots.
        cmdline: what every command line starts with.
    """

    kernel_arch: str
    cross_prefix: str
    native_hosts: tuple[str, ...]
    image: str
    fragments: tuple[str, ...]
    debian: str
    boot_file: str
    cmdline: str
    qemu: Board
    counter: Counter
    registers: Registers
    physical: Physical
    name: str = ""

    @property
    def cross_compile(self) -> str:
        """The value of make's CROSS_COMPILE on this host; empty where none is needed."""
        return cross_compile(self.cross_prefix, self.native_hosts)


def cross_compile(prefix: str, native_hosts: Sequence[str]) -> str:
    """Return the compiler *prefix* of a cross build; empty on the hosts that need none."""
    return "" if platform.machine().lower() in native_hosts else prefix


def names() -> list[str]:
    """Return the names of the known architectures, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@functools.cache
def load(name: str) -> Arch:
    """Return the architecture *name*.

    Raises:
        UsageError: there is no such architecture.
    """
    check_known("architecture", name, names())
    return dataclasses.replace(typed.load(FOLDER / f"{name}.toml", Arch), name=name)
