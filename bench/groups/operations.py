"""What the groups cost who does not use them, and who does: instructions of common operations."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads

MEMORY = "2G"
#: The name of each feature, what switches it on, and off.
FEATURES = {
    "deferred_init": ("deferred_init=lazy", "deferred_init=wait"),
    "prezero": ("prezero=on", "prezero=off"),
    "fault ahead": ("anon_fault_ahead=on", "anon_fault_ahead=off"),
    "cpuhp.group": ("cpuhp.group=on", "cpuhp.group=off"),
}
#: Those that no column has on.
OFF = "hugetlb_deferred=off"
READS = Reads(results=("counted",))


@dataclass(frozen=True)
class Operation:
    """Something that programs ask of the kernel.

    Attributes:
        title: what it says to people.
        name: of the guest program ``operations``.
        times: how often it is done, for some ten ticks of the timer; a hundred where it hangs on
            when tasks that exited are freed.
        cpus: that it takes.
    """

    title: str
    name: str
    times: int
    cpus: int = 1


OPERATIONS = (
    Operation("16 pages into a pipe, and out", "page", 1000),
    Operation("touch of 4 KiB, and free", "fault", 8000),
    Operation("512 of them, and free", "faults", 20),
    Operation("touch of 2 MiB, and free", "huge_fault", 140),
    Operation("touch of a page of a file", "map_fault", 8000),
    Operation("fork() and exit()", "fork", 250),
    Operation("thread", "thread", 12000),
    Operation("wake-up, and back", "wake", 4000),
    Operation("the same with another CPU", "wake_other", 12000, 2),
    Operation("free, another CPU has it", "ipi", 20000, 2),
    Operation("CPU offline, and online", "hotplug", 20, 2),
    Operation("stat(), 6 directories", "look_up", 8000),
    Operation("the same, not there", "no_entry", 8000),
)


def cmdline(feature: str | None) -> str:
    """Return the parameters for all features off, or all but *feature*."""
    switches = [on if name == feature else off for name, (on, off) in FEATURES.items()]
    return " ".join((*switches, OFF))


def cost(kept: Kept, operation: Operation, flavour: str, feature: str | None) -> float:
    """Return the instructions of *operation*, those of all CPUs together."""
    counted = []
    before = ("zeroed wait",) if feature == "prezero" else ()
    for times in (operation.times, 2 * operation.times):
        wanted = Wanted(
            f"operations/{(feature or 'off').replace(' ', '-')}",
            flavour,
            MEMORY,
            cmdline(feature) if flavour == "flatboot" else "",
            operation.cpus,
            programs=(*before, f"operations {operation.name} {times}"),
            counted="end",
            reads=READS,
        )
        counted.append(int(kept(wanted).results["counted"]))
    return (counted[1] - counted[0]) / operation.times


def table(kept: Kept) -> Table:
    """Return what each operation takes, a row each: stock, all built and off, each on."""
    made = Table(title="Instructions on stock; what all groups add, off, and with one on")
    made.add_column("operation")
    for heading in ("stock", "off", *FEATURES):
        made.add_column(heading, justify="right")
    for operation in OPERATIONS:
        stock = cost(kept, operation, "stock", None)
        added = [cost(kept, operation, "flatboot", name) / stock - 1 for name in (None, *FEATURES)]
        made.add_row(operation.title, f"{stock:,.0f}", *(f"{each:+.2%}" for each in added))
    return made
