"""When /init starts and when the memory map is ready, on the wall clock, in each mode."""

from __future__ import annotations

import statistics

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record import timings
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

SIZES = ("16G", "64G")
CPUS = (1, 2)
#: What the table calls a kernel and its mode, and its flavour and parameters.
WAYS = {
    "stock": ("stock", ""),
    "wait": ("flatboot", "deferred_init=wait"),
    "background": ("flatboot", "deferred_init=background"),
}
RUNS = 7
#: What ``timings.ready_ns`` reads.
READS = Reads(results=("counter_hz", "ready.ticks", "ready.age_us"))


def boots(kept: Kept, memory: str, cpus: int) -> dict[str, list[Record]]:
    """Return the boots of each way, which took turns."""
    found: dict[str, list[Record]] = {name: [] for name in WAYS}
    for run in range(1, RUNS + 1):
        for name, (flavour, cmdline) in WAYS.items():
            found[name].append(
                kept(
                    Wanted(
                        f"map_ready/{name}",
                        flavour,
                        memory,
                        cmdline,
                        cpus,
                        programs=("ready",),
                        fills=False,
                        clock="wall",
                        run=run,
                        reads=READS,
                    )
                )
            )
    return found


def table(kept: Kept) -> Table:
    """Return the medians as ratios to stock, and the least and most of the map's."""
    made = Table(
        title="From reset, on the wall clock, against stock's median",
        caption=f"medians of {RUNS} boots of each, in turn; in brackets the least and the most",
    )
    for column in ("memory", "CPUs", "deferred_init=", "/init", "memory map"):
        made.add_column(column, justify="right" if column in ("/init", "memory map") else "left")
    for memory in SIZES:
        for cpus in CPUS:
            found = boots(kept, memory, cpus)
            init = statistics.median(record.to_init for record in found["stock"])
            ready = statistics.median(map(timings.ready_ns, found["stock"]))
            for name, records in found.items():
                inits = [record.to_init / init for record in records]
                maps = [timings.ready_ns(record) / ready for record in records]
                made.add_row(
                    units.binary_size(units.size(memory)),
                    str(cpus),
                    name,
                    _spread(inits),
                    _spread(maps),
                    end_section=name == list(found)[-1],
                )
    return made


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
