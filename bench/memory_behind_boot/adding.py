"""How long it takes until what mem= hid is online, what a block costs, and who waits meanwhile."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from deferred_mem import DEFERRED, LEFT
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import arches, units
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

SIZES = ("12G", "64G")
#: Of the boots on the wall clock, whose host has all of it ready.
MEMORY = "12G"
RUNS = 7
AWAIT = "poke await all /sys/kernel/deferred_mem_init/state complete"
#: Where memory begins that mem=2G hides.
HIDDEN = {"x86_64": 1 << 32, "arm64": 0xC000_0000}
#: A program adds the blocks, or some and then has the kernel do it: so /init, which writes to the
#: console of boot, is not in the way of the second CPU.
WAITING = f"mem={LEFT} deferred_mem.mode=user"
#: What is read of boots on the wall clock, and on the exact one.
TIME, BLOCKS = Reads(results=("blocks.ticks", "counter_hz")), Reads(results=("blocks.*",))


@dataclass(frozen=True)
class Way:
    """A way to add memory behind boot: whose kernel, its config and parameters, and by whom."""

    flavour: str
    config: str
    cmdline: str
    by_blocks: bool


#: The first of an architecture is what the others are compared with. On x86-64 that is stock,
#: by the files that its users have; on arm64 stock has no file to add memory with.
WAYS = {
    "x86_64": {
        "stock, block by block": Way("stock", "probe", f"mem={LEFT}", by_blocks=True),
        "flatboot, block by block": Way("flatboot", "probe", f"mem={LEFT}", by_blocks=True),
        "the driver, 1 thread": Way(
            "flatboot", "bench", f"{WAITING} memory_hotplug.threads=1", by_blocks=False
        ),
        "the driver, 2 threads": Way("flatboot", "bench", WAITING, by_blocks=False),
    },
    "arm64": {
        "block by block, 1 thread": Way(
            "flatboot", "bench", f"{WAITING} memory_hotplug.threads=1", by_blocks=True
        ),
        "the driver, 1 thread": Way(
            "flatboot", "bench", f"{WAITING} memory_hotplug.threads=1", by_blocks=False
        ),
        "the driver, 2 threads": Way("flatboot", "bench", WAITING, by_blocks=False),
    },
}


def boot(kept: Kept, arch: str, name: str, memory: str, run: int) -> Record:
    """Return a boot of *arch* that adds memory the way *name*; on the exact clock if *run* is 0.

    On the wall clock the host has made all of the memory ready before: otherwise most of the time
    is its own, for the first touch of each page of the memory map. And the kernel says little: the
    emulated console takes its time.
    """
    way = WAYS[arch][name]
    whole = f"memory-backend-ram,id=whole,size={memory},prealloc=on"
    hidden = units.size(memory) - units.size(LEFT)
    program = f"blocks {HIDDEN[arch]:#x} {hidden >> 20}{'' if way.by_blocks else ' kernel'}"
    return kept(
        Wanted(
            f"adding/{name.replace(',', '').replace(' ', '-')}",
            way.flavour,
            memory,
            f"quiet {way.cmdline}" if run else way.cmdline,
            cpus=2 if run else 1,
            programs=(program,),
            config=way.config,
            arch=arch,
            arguments=("-object", whole, "-machine", "memory-backend=whole") if run else (),
            fills=bool(run),
            clock="wall" if run else "exact",
            run=run,
            reads=TIME if run else BLOCKS,
        )
    )


def table(kept: Kept) -> Table:
    """Return how much sooner all memory is online, on the wall clock."""
    made = Table(
        title=f"Time to add 9.5 of {MEMORY[:-1]} GiB, as one zone, on the wall clock; 2 CPUs",
        caption=f"medians of {RUNS} boots of each, in turn; in brackets the least and the most;"
        " half a GiB was added before",
    )
    for column in ("machine", "how", "time", "as fast"):
        made.add_column(column, justify="right" if column in ("time", "as fast") else "left")
    for arch, ways in WAYS.items():
        found: dict[str, list[float]] = {name: [] for name in ways}
        for run in range(1, RUNS + 1):
            for name in ways:
                found[name].append(boot(kept, arch, name, MEMORY, run).seconds("blocks.ticks"))
        base = statistics.median(next(iter(found.values())))
        for name, times in found.items():
            ratios = [time / base for time in times]
            made.add_row(
                arch,
                name,
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                f"{1 / statistics.median(ratios):.1f} times",
                end_section=name == list(found)[-1],
            )
    return made


#: Of the ways, those whose blocks can be told apart, and machines that make the zone grow.
BLOCK_BY_BLOCK = (
    ("x86_64", "stock, block by block"),
    ("x86_64", "flatboot, block by block"),
    ("arm64", "block by block, 1 thread"),
)


def blocks(kept: Kept) -> Table:
    """Return what a memory block costs at the beginning and at the end, on the exact clock."""
    made = Table(
        title="Instructions to add a memory block of 128 MiB, in thousands",
        caption="one CPU, exact clock, means of eight blocks; they are added in order to one zone",
    )
    for column in ("machine", "how", "memory"):
        made.add_column(column)
    for column in ("first blocks", "last blocks", "growth"):
        made.add_column(column, justify="right")
    for arch, name in BLOCK_BY_BLOCK:
        per_tick = arches.load(arch).counter.ns_per_tick
        for memory in SIZES:
            record = boot(kept, arch, name, memory, 0)
            first, last = (
                int(record.results[f"blocks.{when}"]) * per_tick / 8 for when in ("first", "last")
            )
            made.add_row(
                arch,
                name,
                units.binary_size(units.size(memory)),
                f"{first / 1e3:,.0f}",
                f"{last / 1e3:,.0f}",
                f"{last / first:.2f}",
                end_section=memory == SIZES[-1],
            )
    return made


#: A task runs each millisecond while 62 GiB are added, and afterwards.
PERIODS = 200


def latency(kept: Kept) -> Table:
    """Return how late a periodic task runs, while memory is added and when nothing is.

    On one CPU, where it has to share: with more, the emulator that counts instructions runs one
    at a time and may leave a busy one with the turn, so that the figures would be its own.
    """
    made = Table(
        title="A task that is to run each millisecond: how late it runs, in microseconds",
        caption=f"64 GiB, of which 62 are added; one CPU, exact clock, {PERIODS} periods;"
        " the task is an ordinary one",
    )
    for column in ("machine", "meanwhile"):
        made.add_column(column)
    for column in ("median", "99%", "worst"):
        made.add_column(column, justify="right")
    for arch in WAYS:
        record = kept(
            Wanted(
                "adding/latency",
                "flatboot",
                "64G",
                DEFERRED,
                programs=(f"period adding {PERIODS}", AWAIT, f"period idle {PERIODS}"),
                arch=arch,
                fills=False,
                reads=Reads(results=("period.*",)),
            )
        )
        for when, text in (("idle", "nothing"), ("adding", "memory is added")):
            values = [
                int(record.results[f"period.{when}.{part}"]) / 1e3
                for part in ("median", "p99", "worst")
            ]
            made.add_row(
                arch, text, *(f"{value:,.0f}" for value in values), end_section=when == "adding"
            )
    return made
