"""What boot costs against memory: stock, and flatboot with deferred_init=lazy."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.record import Record
from flatboot.show import plot, tables

SIZES = ("2G", "16G", "128G", "1T")
ENDS = (SIZES[0], SIZES[-1])
MODES = {"stock": "", "flatboot": "deferred_init=lazy"}


def records(kept: Kept) -> list[Record]:
    """Return the boots of both kernels: with phases at both ends, bare in between."""
    return [
        kept(Wanted("headline", flavour, memory, cmdline, phases=memory in ENDS))
        for flavour, cmdline in MODES.items()
        for memory in SIZES
    ]


def table(kept: Kept) -> Table:
    """Return the table of ``flatboot demo``."""
    return tables.growth_table([record for record in records(kept) if record.phases])


def draw(kept: Kept, path: Path) -> None:
    """Draw the plot of ``flatboot demo``."""
    plot.cost_against_memory(records(kept), path)
