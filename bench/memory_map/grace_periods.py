"""How long grace periods take while threads of the lowest priority initialise memory."""

from __future__ import annotations

import statistics

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

#: So much memory is not initialised when the program is done.
MEMORY = "512G"
CPUS = 2
MS = 10_000
RUNS = 5
MODES = ("wait", "background", "lazy")


def _boots(kept: Kept, mode: str) -> list[Record]:
    return [
        kept(
            Wanted(
                f"grace_periods/{mode}",
                "flatboot",
                MEMORY,
                f"deferred_init={mode}",
                cpus=CPUS,
                programs=(f"grace {MS}",),
                fills=False,
                clock="wall",
                run=run,
                reads=Reads(results=("grace.*",)),
            )
        )
        for run in range(1, RUNS + 1)
    ]


def table(kept: Kept) -> Table:
    """Return the lengths of grace periods in each mode, against wait, whose map is complete."""
    made = Table(
        title=f"Grace periods with a process on each of {CPUS} CPUs that wants all of it",
        caption=f"{MEMORY[:-1]} GiB, wall clock, median of wait = 1; medians of {RUNS} boots of"
        f" {MS / 1000:g} s; in brackets the least and the most; deferred: at the end",
    )
    made.add_column("deferred_init=")
    for column in ("median", "worst", "deferred"):
        made.add_column(column, justify="right")
    boots = {mode: _boots(kept, mode) for mode in MODES}
    for mode, records in boots.items():
        row = []
        for name in ("grace.median", "grace.worst"):
            one = statistics.median(int(record.results[name]) for record in boots["wait"])
            found = sorted(int(record.results[name]) / one for record in records)
            row.append(f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")
        least = min(int(record.results["grace.deferred"]) for record in records)
        made.add_row(mode, *row, f"{least / 2**20:.2f} GiB")
    return made
