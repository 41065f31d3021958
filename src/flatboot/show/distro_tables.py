"""Where the boot of a distribution went, a row a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from rich.table import Table

from flatboot.common import units
from flatboot.distro.distro_boot import Told
from flatboot.guest.machine import Machine

#: The kernel's name, the machine, and what the guest told.
Boot = tuple[str, Machine, Told]
#: Columns, and the parts that analyze tells of which each is the sum.
_PARTS = {
    "firmware": ("before", "firmware"),
    "loader": ("loader",),
    "kernel": ("unpacking", "kernel"),
    "initramfs": ("initrd",),
    "user space": ("userspace",),
}


def tables(boots: Sequence[Boot]) -> Iterator[Table]:
    """Yield the parts of each boot, and what the guest saw of its machine."""
    yield _way(boots)
    table = Table(title="What the guest sees", title_justify="left")
    table.add_column("kernel")
    for heading in ("memory", "as free shows it", "CPUs", "as lscpu shows them"):
        table.add_column(heading, justify="right")
    table.add_column("units that failed")
    for name, machine, told in boots:
        size = units.binary_size(machine.memory_bytes)
        seen = units.binary_size(told.memory_bytes)
        failed = ", ".join(told.failed) or "none"
        table.add_row(name, size, seen, str(machine.cpus), str(told.cpus), failed)
    yield table


def _way(boots: Sequence[Boot]) -> Table:
    table = Table(title="Debian 13, from the reset to the login", title_justify="left")
    table.caption = (
        "in seconds of the guest: an instruction is a nanosecond, waits take as long as on this"
        " machine; firmware: where the loader keeps no times (GRUB), all that comes before the"
        " kernel's clock; user space: until systemd is done; ratio: of the login, to that kernel's"
        " first row"
    )
    table.caption_justify = "left"
    table.add_column("kernel")
    for heading in ("memory", "CPUs", *_PARTS, "login", "ratio"):
        table.add_column(heading, justify="right")
    for _, of_kernel in groupby(boots, itemgetter(0)):
        table.add_section()
        first = 0
        for name, machine, told in of_kernel:
            parts = told.parts()
            login = told.counters["LOGIN"]
            cells = [_sum(parts, names) for names in _PARTS.values()]
            size = units.binary_size(machine.memory_bytes)
            ratio = f"{login / first:.3f}" if first else ""
            table.add_row(
                "" if first else name, size, str(machine.cpus), *cells, _seconds(login), ratio
            )
            first = first or login
    return table


def _sum(parts: Mapping[str, int], names: Sequence[str]) -> str:
    """Return how long *names* of *parts* took together; nothing if none of them is known."""
    known = [parts[name] for name in names if name in parts]
    return _seconds(sum(known)) if known else ""


def _seconds(length: int) -> str:
    return f"{length / 1e9:.2f}"
