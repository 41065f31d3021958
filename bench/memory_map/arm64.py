"""Boot cost on arm64: a linear map of blocks, and of 4 KiB entries, in boot and on demand."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.guest import functions
from flatboot.guest.boot_spec import Functions
from flatboot.record.record import Record

SIZES = ("2G", "64G")


@dataclass(frozen=True)
class Row:
    """A kernel with its parameters, and what its linear map is made of.

    With rodata=noalias the kernel does not protect the linear map page by page, so it may map it by
    blocks on any CPU.
    """

    linear_map: str
    flavour: str
    cmdline: str


BY_DEMAND = Row("4 KiB entries on demand", "flatboot", "deferred_init=lazy")
ROWS = (
    Row("blocks", "stock", "rodata=noalias"),
    Row("blocks", "flatboot", "rodata=noalias deferred_init=lazy"),
    Row("4 KiB entries", "stock", ""),
    Row("4 KiB entries", "flatboot", "linear_map=pages deferred_init=lazy"),
    BY_DEMAND,
)
#: Functions of the table of growth make up this share of it, and are no more than so many.
SHARE, MOST = 0.95, 12


def boots(kept: Kept, row: Row) -> list[Record]:
    """Return the boots on the small machine and the large one."""
    folder = f"arm64/{row.linear_map.replace(' ', '-')}"
    counted: Functions = "instructions" if row == BY_DEMAND else ""
    return [
        kept(Wanted(folder, row.flavour, memory, row.cmdline, functions=counted, arch="arm64"))
        for memory in SIZES
    ]


def table(kept: Kept) -> Table:
    """Return the cost of both kernels on both machines, for each kind of map."""
    made = Table(
        title="Instructions from reset to /init, arm64, cortex-a72, one CPU",
        caption="host memory: the most that QEMU held",
    )
    made.add_column("linear map")
    made.add_column("kernel")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    for column in ("ratio", "each GiB", "host memory"):
        made.add_column(column, justify="right")
    for row in ROWS:
        small, large = boots(kept, row)
        gib = (large.machine.memory_bytes - small.machine.memory_bytes) / 2**30
        made.add_row(
            row.linear_map,
            f"{row.flavour} {row.cmdline}".strip(),
            f"{small.to_init:,}",
            f"{large.to_init:,}",
            f"{large.to_init / small.to_init:.3f}",
            f"{(large.to_init - small.to_init) / gib:,.0f}",
            units.decimal_size(large.host_peak_bytes),
        )
    return made


def growth(kept: Kept) -> Table:
    """Return the functions that grow most in lazy mode, with 4 KiB entries on demand."""
    small, large = boots(kept, BY_DEMAND)
    rows = functions.differences(small.functions, large.functions)
    listed = functions.most_grown(rows, SHARE, MOST)
    rest = functions.together("everything else", rows[len(listed) :])
    made = Table(title="Instructions by function, arm64, deferred_init=lazy")
    made.add_column("function")
    for memory in (*SIZES, "difference"):
        heading = memory if memory == "difference" else units.binary_size(units.size(memory))
        made.add_column(heading, justify="right")
    for row in (*listed, rest, functions.together("total", rows)):
        made.add_row(row.name, f"{row.small:,}", f"{row.large:,}", f"{row.grown:+,}")
    return made
