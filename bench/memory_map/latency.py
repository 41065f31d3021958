"""How long first touches of a page take while memory grows: stock, and deferred_init=lazy."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record.excerpts import Reads

MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
MEMORY = "4G"
#: Memory that is touched.
MIB = 2048
PAGES = {"4k": "4 KiB", "thp": "2 MiB"}
CPUS = (1, 2)
#: Instructions, as a power of two, from which on a touch is slow: more than a block's struct pages.
SLOW = 15
#: The thread that registers memory blocks behind boot would get in between.
AWAIT = "poke await listed /sys/devices/system/memory/memory47/state online"


def touches(kept: Kept, flavour: str, size: str, cpus: int) -> dict[str, int]:
    """Return what the guest program ``latency`` found, by the names of its results."""
    programs = (AWAIT, f"latency {MIB} {size} {cpus}")
    beginning = "latency."
    reads = Reads(results=(f"{beginning}*",))
    results = kept(
        Wanted("latency", flavour, MEMORY, MODES[flavour], cpus, programs=programs, reads=reads)
    ).results
    return {
        name.removeprefix(beginning): int(value)
        for name, value in results.items()
        if name.startswith(beginning)
    }


def slow(found: dict[str, int]) -> int:
    """Return how many touches were slow."""
    return sum(count for power, count in classes(found).items() if power >= SLOW)


def classes(found: dict[str, int]) -> dict[int, int]:
    """Return the histogram: touches by the power of two that they reached."""
    return {int(name[2:]): count for name, count in found.items() if name.startswith("2^")}


def table(kept: Kept) -> Table:
    """Return the touches of 4 KiB on one CPU: all, slow ones, and the worst."""
    made = Table(title=f"First touches of a page, 4 GiB; slow: {2**SLOW:,} instructions or more")
    for column in ("kernel", "touches", "slow", "worst, instructions"):
        made.add_column(column, justify="left" if column == "kernel" else "right")
    for flavour, mode in MODES.items():
        found = touches(kept, flavour, "4k", 1)
        numbers = (found["pages"], slow(found), found["worst"])
        made.add_row(f"{flavour} {mode}".strip(), *(f"{number:,}" for number in numbers))
    return made


def histogram(kept: Kept) -> Table:
    """Return the touches by their length, for both page sizes and numbers of CPUs."""
    made = Table(
        title="First touches of a page by instructions that they took, 4 GiB",
        caption="with two CPUs a touch's instructions are those of both meanwhile; touches in which"
        " the CPU was given to another task are left out",
    )
    made.add_column("at least")
    found = {}
    for size, pages in PAGES.items():
        for cpus in CPUS:
            for flavour in MODES:
                name = "lazy" if MODES[flavour] else flavour
                made.add_column(f"{name}, {pages}, {units.many(cpus, 'CPU')}", justify="right")
                found[flavour, size, cpus] = touches(kept, flavour, size, cpus)
    columns = [classes(each) for each in found.values()]
    powers = {power for column in columns for power in column}
    for power in range(min(powers), max(powers) + 1):
        counts = (column.get(power, 0) for column in columns)
        made.add_row(f"{2**power:,}", *(f"{count:,}" if count else "" for count in counts))
    made.add_section()
    made.add_row("worst", *(f"{each['worst']:,}" for each in found.values()))
    return made
