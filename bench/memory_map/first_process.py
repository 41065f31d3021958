"""What background initialisation takes from a first process that wants the whole CPU."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

#: So much memory is not initialised when the process is done.
MEMORY = "64G"
MS = 2000
MODES = ("wait", "background", "lazy")


def turns(record: Record) -> float:
    """Return the turns of the loop for each million instructions of the CPU."""
    return int(record.results["share.turns"]) * 1e6 / int(record.results["share.ticks"])


def table(kept: Kept) -> Table:
    """Return how much of the CPU the process got in each mode, against wait."""
    made = Table(
        title=f"A process that keeps the only CPU busy for {MS / 1000:g} s from /init on,"
        f" {MEMORY[:-1]} GiB",
        caption="loss: against wait; longest pause: instructions of others, at one time;"
        " deferred: when the process was done",
    )
    made.add_column("deferred_init=")
    for column in ("turns in a million instructions", "loss", "longest pause", "deferred"):
        made.add_column(column, justify="right")
    boots = {
        mode: kept(
            Wanted(
                f"first_process/{mode}",
                "flatboot",
                MEMORY,
                f"deferred_init={mode}",
                programs=(f"share {MS}",),
                fills=False,
                reads=Reads(results=("share.*",)),
            )
        )
        for mode in MODES
    }
    for mode, record in boots.items():
        made.add_row(
            mode,
            f"{turns(record):,.0f}",
            f"{1 - turns(record) / turns(boots['wait']):.2%}",
            f"{int(record.results['share.worst']):,}",
            f"{int(record.results['share.deferred']) / 2**20:.2f} GiB",
        )
    return made
