"""The sweep that docs/sweep.md shows: two kernels and a parameter over memory."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.show import sweep_tables

SIZES = ("2G", "8G", "32G")
KERNELS = {
    "stock": ("stock", ""),
    "flatboot": ("flatboot", ""),
    "lazy": ("flatboot", "deferred_init=lazy"),
}


def table(kept: Kept) -> Table:
    """Return the table of ``flatboot sweep``."""
    (made,) = sweep_tables.tables(
        [
            kept(Wanted(f"memory_sweep/{name}", flavour, memory, cmdline))
            for name, (flavour, cmdline) in KERNELS.items()
            for memory in SIZES
        ]
    )
    return made
