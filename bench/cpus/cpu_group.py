"""How long boot waits for its CPUs: one by one, as a group, and as a tree; on the wall clock."""

from __future__ import annotations

import statistics

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record import timings
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

MEMORY = "2G"
CPUS = (8, 32)
RUNS = 7
#: QEMU's CPUs would each measure their delay loop.
KNOWN_DELAY = "lpj=4000000"
#: The kernels and their parameters, stock first.
WAYS = (
    ("stock", ""),
    ("flatboot", "cpuhp.group=off"),
    ("flatboot", "cpuhp.group=flat"),
    ("flatboot", "cpuhp.group=tree"),
)
READS = Reads(log=("*smp: Bringing up secondary CPUs*", "*smp: Brought up*"))


def boot(kept: Kept, flavour: str, cmdline: str, cpus: int, run: int) -> Record:
    """Return boot number *run* of a machine with *cpus* CPUs."""
    return kept(
        Wanted(
            f"cpu-group/{cmdline.partition('=')[2] or 'stock'}",
            flavour,
            MEMORY,
            f"{KNOWN_DELAY} {cmdline}".strip(),
            cpus,
            clock="wall",
            run=run,
            reads=READS,
        )
    )


def table(kept: Kept) -> Table:
    """Return the time that boot waited for its CPUs, as a ratio to stock's."""
    made = Table(
        title="Time that boot waits for its CPUs, wall clock, two cores of the host",
        caption=f"Median of {RUNS} boots, of all kernels in turn, and the range. Ratio: stock's"
        " median to this one",
    )
    made.add_column("CPUs", justify="right")
    made.add_column("kernel")
    for column in ("ms", "from", "to", "ratio"):
        made.add_column(column, justify="right")
    for cpus in CPUS:
        times: dict[tuple[str, str], list[float]] = {way: [] for way in WAYS}
        for run in range(1, RUNS + 1):
            for way, found in times.items():
                found.append(1000 * timings.bring_up_s(boot(kept, *way, cpus, run)))
        stock = statistics.median(times[WAYS[0]])
        for (flavour, cmdline), found in times.items():
            median = statistics.median(found)
            made.add_row(
                str(cpus) if (flavour, cmdline) == WAYS[0] else "",
                f"{flavour} {cmdline}".strip(),
                f"{median:.0f}",
                f"{min(found):.0f}",
                f"{max(found):.0f}",
                f"{stock / median:.2f}",
            )
    return made
