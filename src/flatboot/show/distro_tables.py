"""Where the boot of a distribution went, a row a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from flatboot.common import units
from flatboot.distro.distro_boot import Told
from flatboot.guest.machine import Machine

#: Columns, and the parts that analyze tells of which each is the sum.
_PARTS = {
    "firmware": ("before", "firmware"),
    "loader": ("loader",),
    "kernel": ("unpacking", "kernel"),
    "initramfs": ("initrd",),
    "user space": ("userspace",),
}


def tables(machines: Sequence[Machine], told: Sequence[Told]) -> Iterator[Table]:
    """Yield the parts of each boot, and what the guest saw of its machine."""
    yield _way(machines, told)
    table = Table(title="What the guest sees", title_justify="left")
    for heading in ("memory", "as free shows it", "CPUs", "units that failed"):
        table.add_column(heading, justify="left" if heading.startswith("units") else "right")
    for machine, boot in zip(machines, told, strict=True):
        size = units.binary_size(machine.memory_bytes)
        seen = units.binary_size(boot.memory_bytes)
        table.add_row(size, seen, str(boot.cpus), ", ".join(boot.failed) or "none")
    yield table


def _way(machines: Sequence[Machine], told: Sequence[Told]) -> Table:
    table = Table(title="Debian 13, from the reset to the login", title_justify="left")
    table.caption = (
        "in seconds of the guest: an instruction is a nanosecond, waits are as long as here;"
        " user space: until systemd is done"
    )
    table.caption_justify = "left"
    for heading in ("memory", *_PARTS, "login"):
        table.add_column(heading, justify="right")
    for machine, boot in zip(machines, told, strict=True):
        parts = boot.parts()
        sums = [sum(parts.get(name, 0) for name in names) for names in _PARTS.values()]
        cells = (f"{length / 1e9:.3f}" for length in (*sums, boot.counters["LOGIN"]))
        table.add_row(units.binary_size(machine.memory_bytes), *cells)
    if len(told) > 1:
        first, last = (boot.counters["LOGIN"] for boot in (told[0], told[-1]))
        blank = [""] * len(_PARTS)
        table.add_section()
        table.add_row("ratio", *blank, f"{last / first:.3f}")
    return table
