"""What boot costs against memory: stock, and flatboot with deferred_init=lazy."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record.excerpts import NOTHING, Reads
from flatboot.record.record import Record
from flatboot.show import plot, tables

SIZES = ("2G", "16G", "128G", "1T")
ENDS = (SIZES[0], SIZES[-1])
MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
OLDER = "6.12"
OLDER_MODES = {
    "stock": ("stock", ""),
    "deferred_init=wait": ("flatboot", ""),
    "deferred_init=background": ("flatboot", "deferred_init=background"),
    "deferred_init=lazy": ("flatboot", "deferred_init=lazy"),
}
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


def older(kept: Kept) -> Table:
    """Return what boot costs on the base before the default one."""
    made = Table(title=f"Linux {OLDER}: instructions from reset to /init, one CPU")
    made.add_column("kernel")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    made.add_column("1 TiB to 2 GiB", justify="right")
    for name, (flavour, mode) in OLDER_MODES.items():
        wanted = [Wanted(f"older/{name}", flavour, size, mode, base=OLDER) for size in SIZES]
        costs = [kept(boot).to_init if kept.can(boot) else None for boot in wanted]
        first, last = costs[0], costs[-1]
        ratio = f"{last / first:.3f}" if first and last else ""
        made.add_row(name, *(f"{cost:,}" if cost else "" for cost in costs), ratio)
    return made


def draw(kept: Kept, path: Path) -> None:
    """Draw the plot of ``flatboot demo``."""
    plot.cost_against_memory(
        [boot(kept, flavour, memory) for flavour in MODES for memory in SIZES], path
    )
