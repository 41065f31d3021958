"""What boot costs against memory: stock, and flatboot with deferred_init=lazy."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import NOTHING, Reads
from flatboot.record.record import Record
from flatboot.show import plot, tables

SIZES = ("2G", "16G", "128G", "1T")
ENDS = (SIZES[0], SIZES[-1])
MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
READS = Reads(files=(("/proc/meminfo", ("MemTotal:*", "MemFree:*")),))


def boot(kept: Kept, flavour: str, memory: str) -> Record:
    """Return a boot: with what the table shows of it at both ends, bare in between."""
    end = memory in ENDS
    reads = READS if end else NOTHING
    return kept(Wanted("headline", flavour, memory, MODES[flavour], phases=end, reads=reads))


def table(kept: Kept) -> Table:
    """Return the table of ``flatboot demo``."""
    return tables.growth_table(
        [boot(kept, flavour, memory) for flavour in MODES for memory in ENDS]
    )


def draw(kept: Kept, path: Path) -> None:
    """Draw the plot of ``flatboot demo``."""
    plot.cost_against_memory(
        [boot(kept, flavour, memory) for flavour in MODES for memory in SIZES], path
    )
