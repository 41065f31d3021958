"""When /init starts and when the whole memory map is ready, on the wall clock, by CPUs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from rich.table import Table

from flatboot import units
from flatboot.errors import FlatbootError
from flatboot.kept import Kept, Wanted
from flatboot.record import Record

PAGE = 4096
#: A page's cost is the difference between the two.
SMALL, LARGE = "32G", "64G"
#: As many as the smallest host that this is for has, so that each runs on a core of its own.
CPUS = (1, 2)
RUNS = 5


@dataclass(frozen=True)
class Way:
    """A way of booting: its name in the table, the kernel and its parameters."""

    name: str
    flavour: str
    cmdline: str = ""


WAYS = (
    Way("stock", "stock"),
    Way("wait", "flatboot", "deferred_init=wait"),
    Way("background", "flatboot", "deferred_init=background"),
)


def ready_ns(record: Record) -> float:
    """Return the time from reset to the last initialised struct page.

    Raises:
        FlatbootError: it is more than all of the boot took, so the host's counter jumped.
    """
    results = record.results
    ticks_ns = int(results["ready.ticks"]) * 1e9 / int(results["counter_hz"])
    ready = ticks_ns - 1000 * int(results["ready.age_us"])
    if not 0 < ready < record.wall_s * 1e9:
        raise FlatbootError(
            f"the guest's counter says {ready / 1e9:,.1f} s to a ready map and the whole run took"
            f" {record.wall_s:,.1f} s: the host's counter jumped, run the command again"
        )
    return ready


def table(kept: Kept) -> Table:
    """Return medians of boots that take turns, so that a busy moment of the host hits all."""
    made = Table(
        title=f"Wall clock, milliseconds from reset at {LARGE[:-1]} GiB, medians of {RUNS} boots",
        caption="a page: nanoseconds that a page of 4 KiB adds to a ready map",
    )
    made.add_column("kernel")
    for column in ("CPUs", "/init", "map ready", "a page"):
        made.add_column(column, justify="right")
    boots: dict[tuple[Way, int, str], list[Record]] = {}
    for run in range(1, RUNS + 1):
        for cpus in CPUS:
            for way in WAYS:
                for memory in (SMALL, LARGE):
                    wanted = Wanted(
                        f"wall_clock/{way.name}-{run}",
                        way.flavour,
                        memory,
                        way.cmdline,
                        cpus,
                        programs=("ready",),
                        clock="wall",
                        fills=False,
                    )
                    boots.setdefault((way, cpus, memory), []).append(kept(wanted))
    pages = (units.size(LARGE) - units.size(SMALL)) // PAGE
    for cpus in CPUS:
        for way in WAYS:
            small, large = (boots[way, cpus, memory] for memory in (SMALL, LARGE))
            init = statistics.median(float(record.to_init) for record in large)
            ready, before = (statistics.median(map(ready_ns, each)) for each in (large, small))
            cells = (f"{init / 1e6:,.0f}", f"{ready / 1e6:,.0f}", f"{(ready - before) / pages:.1f}")
            made.add_row(way.name, str(cpus), *cells)
    return made
