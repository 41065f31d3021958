"""CPUs that come up behind boot: what boot costs, when all are up, and who waits meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common.errors import FlatbootError
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

MEMORY = "2G"
#: How many CPUs boot brings up, where not all.
FEW = 4
CPUS = (FEW, 64, 240)
BY_HAND_MOST = 64
#: A machine on which every CPU keeps its timer, for latencies.
TIMED = 32
#: QEMU's CPUs would each measure their delay loop for 80 M instructions.
KNOWN_DELAY = "lpj=4000000"
#: Each would measure its timer, too.
NO_TIMER = "nolapic_timer"


@dataclass(frozen=True)
class Way:
    """A way to get all CPUs up: the kernel, its parameters, and what the guest does for it."""

    flavour: str
    cmdline: str
    does: str

    @property
    def title(self) -> str:
        """The row's name."""
        by_hand = ", then sysfs" if self.does == "raise" else ""
        return f"{self.flavour} {self.cmdline}".strip() + by_hand


AT_BOOT = Way("stock", "", "try")
BY_HAND = Way("stock", f"maxcpus={FEW}", "raise")
ALL_AT_BOOT = Way("flatboot", "", "try")
BEHIND_BOOT = Way("flatboot", f"cpuhp.defer={FEW}", "wait")


def boot(kept: Kept, way: Way, cpus: int) -> Record:
    """Return the boot of a machine with *cpus* CPUs.

    More than 64 are not brought up through sysfs: each makes the kernel build all scheduler domains
    anew, which takes more than a quarter of an hour of emulation.
    """
    left = way == BY_HAND and cpus > BY_HAND_MOST
    return kept(
        Wanted(
            "cpu-defer",
            way.flavour,
            MEMORY,
            f"{KNOWN_DELAY} {NO_TIMER} {way.cmdline}".strip(),
            cpus,
            programs=() if left else (f"cpus {way.does}",),
            phases=way == BEHIND_BOOT,
            fills=False,
            reads=Reads(results=("cpus.up",)),
        )
    )


def firmware(kept: Kept, cpus: int) -> int:
    """Return the instructions of the firmware on *cpus* CPUs, whatever it boots.

    Raises:
        FlatbootError: the record has no phases, or others first.
    """
    first = boot(kept, BEHIND_BOOT, cpus).phases[:1]
    if not first or first[0].name != "firmware":
        raise FlatbootError(
            f"the boot of {cpus} CPUs behind boot has no phase of firmware: bench it anew"
        )
    return first[0].length


def table(kept: Kept) -> Table:
    """Return the instructions to /init, and until all CPUs are up, by the number of CPUs."""
    return _table(
        kept,
        (AT_BOOT, BY_HAND, ALL_AT_BOOT, BEHIND_BOOT),
        "Instructions to /init, and until all CPUs are up",
        f"Ratio: from kernel entry, to the same kernel with {FEW} CPUs. Through sysfs no more than"
        f" {BY_HAND_MOST} CPUs are brought up here: each makes the kernel build all scheduler"
        " domains anew",
    )


def short(kept: Kept) -> Table:
    """Return what *table* has of stock as it is and of CPUs behind boot."""
    return _table(
        kept,
        (AT_BOOT, BEHIND_BOOT),
        "Boot cost against CPUs: instructions from reset to /init, exact clock",
        f"Ratio: from kernel entry, to the same kernel with {FEW} CPUs; all up: from reset until"
        f" the last CPU is up, on stock before /init; 2 GiB, all with {KNOWN_DELAY} {NO_TIMER},"
        " without which each emulated CPU measures its delay loop and its timer",
    )


def _table(kept: Kept, ways: Sequence[Way], title: str, caption: str) -> Table:
    made = Table(title=title, caption=caption)
    made.add_column("kernel")
    made.add_column("CPUs", justify="right")
    for column in ("to /init", "from kernel entry", "ratio", "all up"):
        made.add_column(column, justify="right")
    for way in ways:
        least = 0
        for cpus in CPUS:
            record = boot(kept, way, cpus)
            entry = record.to_init - firmware(kept, cpus)
            least = least or entry
            up = record.results.get("cpus.up")
            made.add_row(
                way.title if cpus == FEW else "",
                str(cpus),
                f"{record.to_init / 1e6:.1f} M",
                f"{entry / 1e6:.1f} M",
                f"{entry / least:.3f}x" if cpus != FEW else "",
                f"{int(up) / 1e6:.1f} M" if up and cpus != FEW else "",
            )
        made.add_section()
    return made


def waits(kept: Kept) -> Table:
    """Return how long all CPUs take to come up behind boot, and who waits for how long."""
    made = Table(title=f"{TIMED - FEW} CPUs behind boot: how long it takes, and who waits for it")
    made.add_column("kernel")
    for column in ("all up after", "a reader of the hotplug lock waits", "a task runs late by"):
        made.add_column(column, justify="right")
    for way in (BY_HAND, BEHIND_BOOT):
        found = kept(
            Wanted(
                "cpu-waits",
                way.flavour,
                MEMORY,
                f"{KNOWN_DELAY} {way.cmdline}",
                TIMED,
                programs=(f"cpus suffer {way.does}",),
                fills=False,
                reads=Reads(results=("cpus.took", "cpus.reader", "cpus.task")),
            )
        ).results
        made.add_row(
            way.title,
            f"{int(found['cpus.took']) / 1e6:.1f} ms",
            f"{int(found['cpus.reader']) / 1e6:.1f} ms",
            f"{int(found['cpus.task']) / 1e6:.2f} ms",
        )
    return made
