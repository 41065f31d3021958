"""Boot cost on arm64: a linear map of blocks, and one that the CPU forces into 4 KiB entries."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.guest import functions
from flatboot.record.record import Record

SIZES = ("2G", "64G")
#: The CPU model, and the kernel parameter that decides: with rodata=noalias the kernel does not
#: protect the linear map page by page, so it may map it by blocks on any CPU.
LINEAR_MAPS = {"blocks": "rodata=noalias", "4 KiB entries": ""}
MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
#: The linear map and the kernel of the table of growth.
GROWN = ("4 KiB entries", "flatboot")
#: Functions of the table of growth make up this share of it, and are no more than so many.
SHARE, MOST = 0.95, 12


def boots(kept: Kept, linear_map: str, flavour: str) -> list[Record]:
    """Return the boots on the small machine and the large one."""
    cmdline = f"{LINEAR_MAPS[linear_map]} {MODES[flavour]}".strip()
    folder = f"arm64/{linear_map.replace(' ', '-')}"
    return [
        kept(
            Wanted(
                folder,
                flavour,
                memory,
                cmdline,
                functions="instructions" if (linear_map, flavour) == GROWN else "",
                arch="arm64",
            )
        )
        for memory in SIZES
    ]


def table(kept: Kept) -> Table:
    """Return the cost of both kernels on both machines, for both kinds of map."""
    made = Table(
        title="Instructions from reset to /init, arm64, cortex-a72, one CPU",
        caption="blocks: with rodata=noalias; host memory: the most that QEMU held",
    )
    made.add_column("linear map")
    made.add_column("kernel")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    for column in ("ratio", "each GiB", "host memory"):
        made.add_column(column, justify="right")
    for linear_map in LINEAR_MAPS:
        for flavour, mode in MODES.items():
            small, large = boots(kept, linear_map, flavour)
            gib = (large.machine.memory_bytes - small.machine.memory_bytes) / 2**30
            made.add_row(
                linear_map,
                f"{flavour} {mode}".strip(),
                f"{small.to_init:,}",
                f"{large.to_init:,}",
                f"{large.to_init / small.to_init:.3f}",
                f"{(large.to_init - small.to_init) / gib:,.0f}",
                units.decimal_size(large.host_peak_bytes),
            )
    return made


def growth(kept: Kept) -> Table:
    """Return the functions that grow most in lazy mode, with the CPU's 4 KiB entries."""
    small, large = boots(kept, *GROWN)
    rows = functions.differences(small.functions, large.functions)
    listed = functions.most_grown(rows, SHARE, MOST)
    rest = functions.together("everything else", rows[len(listed) :])
    made = Table(title="Instructions by function, arm64, deferred_init=lazy, 4 KiB entries")
    made.add_column("function")
    for memory in (*SIZES, "difference"):
        heading = memory if memory == "difference" else units.binary_size(units.size(memory))
        made.add_column(heading, justify="right")
    for row in (*listed, rest, functions.together("total", rows)):
        made.add_row(row.name, f"{row.small:,}", f"{row.large:,}", f"{row.grown:+,}")
    return made
