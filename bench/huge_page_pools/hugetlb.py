"""Pools of huge pages: what they add to boot, when the first is in use, and how fast they grow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from headline import OLDER
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.guest import borrowed
from flatboot.guest.boot_spec import Clock
from flatboot.record.excerpts import NOTHING, Reads
from flatboot.record.record import Record

#: Kernels of the tables of boot: flavour and parameters.
KERNELS = {
    "stock": ("stock", ""),
    "hugetlb_deferred=on": ("flatboot", "deferred_init=lazy hugetlb_deferred=on"),
}
#: Pools of 900 GiB, and how a program takes 1 GiB of one.
POOLS = {
    "none": ("", ""),
    "460,800 of 2 MiB": ("hugepages=460800", "huge-2m"),
    "900 of 1 GiB": ("hugepagesz=1G hugepages=900", "huge-1g"),
}
FILLED = [pool for pool in POOLS if pool != "none"]
MEMORY = "1T"
GIB_IN_MIB = 1024


def boot(kept: Kept, kernel: str, pool: str, *, touch: bool = False, base: str = "") -> Record:
    """Return a boot of a machine with a pool; with *touch* it takes 1 GiB of it then."""
    flavour, mode = KERNELS[kernel]
    parameters, way = POOLS[pool]
    folder = f"{_file(base)}/{kernel.replace('=', '-')}/{pool.replace(' ', '-')}"
    return kept(
        Wanted(
            folder.replace(",", ""),
            flavour,
            MEMORY,
            f"{mode} {parameters}".strip(),
            programs=(f"zeroed touch first {way} {GIB_IN_MIB}",) if touch else (),
            fills=False,
            reads=Reads(results=("first.ticks",)) if touch else NOTHING,
            base=base,
        )
    )


def _file(base: str) -> str:
    return "older-pools" if base else "hugetlb"


def boots(kept: Kept) -> Table:
    """Return what pools add to the instructions from reset to /init."""
    return _boots_of(kept, "", "Instructions")


def boots_older(kept: Kept) -> Table:
    """Return the same of the base before the default one."""
    return _boots_of(kept, OLDER, f"Linux {OLDER}: instructions")


def _boots_of(kept: Kept, base: str, what: str) -> Table:
    made = Table(
        title=f"{what} from reset to /init, in millions, and the ratio to no pool",
        caption="1 TiB, one CPU, exact clock; pools of 900 GiB",
    )
    made.add_column("kernel")
    for column in ("no pool", *FILLED):
        made.add_column(column, justify="right")
    for kernel in KERNELS:
        none = boot(kept, kernel, "none", base=base).to_init
        cells = [f"{none / 1e6:,.1f}"]
        for pool in FILLED:
            record = boot(kept, kernel, pool, base=base)
            cells.append(f"{record.to_init / 1e6:,.1f} ({record.to_init / none:.3f})")
        made.add_row(kernel, *cells)
    return made


def first_gib(kept: Kept) -> Table:
    """Return when a process has touched its first 1 GiB of huge pages."""
    made = Table(
        title="Instructions, in millions, until a process has touched 1 GiB of huge pages",
        caption="1 TiB, one CPU, exact clock, pools of 900 GiB; of that: what touching takes, of"
        " which clearing the pages takes 134.2 at least",
    )
    made.add_column("kernel")
    for pool in FILLED:
        made.add_column(pool, justify="right")
        made.add_column("of that", justify="right")
    for kernel in KERNELS:
        cells = []
        for pool in FILLED:
            record = boot(kept, kernel, pool, touch=True)
            touching = int(record.results["first.ticks"])
            cells += [f"{(record.to_init + touching) / 1e6:,.1f}", f"{touching / 1e6:,.1f}"]
        made.add_row(kernel, *cells)
    return made


_AT_BOOT = Reads(log=("*initcall hugetlb_init+*",))
_AT_RUN_TIME = Reads(results=("pool.ticks", "counter_hz"))
_INITCALL = re.compile(r"initcall hugetlb_init\+\S+ returned 0 after (\d+) usecs")
GROWING_MEMORY, GROWING_PAGES, CPUS, RUNS = "128G", 60000, 2, 5
THREADS = ("1", "2", "4", "8", "auto")
#: Ways to grow: nodes, parameters, and the program of the guest for those at run time.
GROWING = {
    "boot": (1, f"initcall_debug hugepages={GROWING_PAGES}", ""),
    "boot, by node": (
        2,
        f"initcall_debug hugepages=0:{GROWING_PAGES // 2},1:{GROWING_PAGES // 2}",
        "",
    ),
    "run time": (1, "", f"grow pool hugepages-2048kB/nr_hugepages {GROWING_PAGES}"),
}


def _growing_boots(
    kept: Kept, folder: str, flavour: str, nodes: int, cmdline: str, program: str, base: str
) -> list[Record]:
    return [
        kept(
            Wanted(
                folder,
                flavour,
                GROWING_MEMORY,
                cmdline,
                cpus=CPUS,
                nodes=nodes,
                programs=(program,) if program else (),
                fills=False,
                clock="wall",
                run=run,
                reads=_AT_RUN_TIME if program else _AT_BOOT,
                base=base,
            )
        )
        for run in range(1, RUNS + 1)
    ]


def growing(kept: Kept, way: str, flavour: str, count: str, base: str) -> float:
    """Return the milliseconds that a pool takes to grow, with *count* threads; "" for stock's own.

    At boot it is the initcall that allocates the pool.
    """
    nodes, pool, program = GROWING[way]
    setting = f"hugepage_alloc_threads={count}" if count else ""
    folder = f"{_file(base)}/{way.replace(',', '').replace(' ', '-')}/{count or 'stock'}"
    records = _growing_boots(
        kept, folder, flavour, nodes, f"{pool} {setting}".strip(), program, base
    )
    if program:
        return median(record.seconds("pool.ticks") for record in records) * 1e3
    return median(int(_INITCALL.findall(record.log)[0]) for record in records) / 1e3


def threads(kept: Kept) -> Table:
    """Return how long a pool takes to grow, by threads, beside stock."""
    return _threads_of(kept, "", "Milliseconds", THREADS)


def threads_older(kept: Kept) -> Table:
    """Return the same of the base before the default one, with as many threads as it chooses."""
    return _threads_of(kept, OLDER, f"Linux {OLDER}: milliseconds", ("auto",))


def _threads_of(kept: Kept, base: str, what: str, counts: Sequence[str]) -> Table:
    made = Table(
        title=f"{what} to allocate {GROWING_PAGES:,} pages of 2 MiB",
        caption=f"{GROWING_MEMORY.rstrip('G')} GiB, {CPUS} CPUs, wall clock, medians of {RUNS}"
        " boots; at boot: the initcall that allocates the pool",
    )
    made.add_column("when")
    for column in ("stock", *counts, "stock / auto"):
        made.add_column(column, justify="right")
    for way in GROWING:
        stock = growing(kept, way, "stock", "", base)
        ours = {count: growing(kept, way, "flatboot", count, base) for count in counts}
        cells = [f"{ours[count]:,.0f}" for count in counts]
        made.add_row(way, f"{stock:,.0f}", *cells, f"{stock / ours['auto']:.2f}")
    return made


#: The pool that is asked for, four fifths of memory, where most of it is cache of a disk.
CACHED_MEMORY, CACHED_PAGES = "8G", 3277
#: Boots of each kind; how reclaim parts the work differs from one to the next.
CACHED_RUNS: Mapping[Clock, int] = {"exact": 5, "wall": 11}
_DISK = ("-blockdev", "null-co,node-name=disk,size=8589934592")
# What fills memory, and what it calls, which has to be in the guest.
_FULL = Path(__file__).with_name("full.sh")
_CALLED = ("grow none hugepages-2048kB/nr_hugepages 0", "poke show uptime /proc/uptime")
_SCANNED = (("vmstat", ("pgscan_direct *", "pgscan_kswapd *")),)


def _cached(kept: Kept, flavour: str, clock: Clock, pages: int) -> list[Record]:
    return [
        kept(
            Wanted(
                f"hugetlb/cached{'-exact' if clock == 'exact' else ''}/{flavour}",
                flavour,
                CACHED_MEMORY,
                # Nobody reads it, but it moves all that follows against the timers a little.
                f"run={'.' * run}" if clock == "exact" else "",
                cpus=CPUS,
                config="users",
                clock=clock,
                counted="end" if clock == "exact" else "",
                programs=(*_CALLED, f"bash /full.sh {pages}"),
                files=(("full.sh", _FULL), *borrowed.files("bash", "busybox").items()),
                arguments=(*_DISK, "-device", "virtio-blk-pci,drive=disk"),
                run=run,
                reads=Reads(results=("counted",))
                if clock == "exact"
                else Reads(results=("pool.ticks", "pool.pages", "counter_hz"), files=_SCANNED),
            )
        )
        for run in range(1, CACHED_RUNS[clock] + 1)
    ]


def cached(kept: Kept) -> Table:
    """Return what it costs to grow a pool into memory that is full of dirty page cache."""
    made = Table(
        title="A pool of four fifths of memory that is full of dirty page cache",
        caption=f"{CACHED_MEMORY.rstrip('G')} GiB, {CPUS} CPUs, {CACHED_PAGES:,} pages of 2 MiB"
        f" asked for; medians: instructions of all CPUs, exact clock, {CACHED_RUNS['exact']} boots;"
        f" the others {CACHED_RUNS['wall']}, wall clock; scanned: pages that reclaim looked at",
    )
    made.add_column("kernel")
    for column in ("pages got", "instructions", "time", "scanned"):
        made.add_column(column, justify="right")
    for flavour in ("stock", "flatboot"):
        without, grown = (
            median(
                int(record.results["counted"]) for record in _cached(kept, flavour, "exact", pages)
            )
            for pages in (0, CACHED_PAGES)
        )
        runs = _cached(kept, flavour, "wall", CACHED_PAGES)
        scanned = [
            sum(map(int, re.findall(r"^pgscan_\w+ (\d+)$", record.files["vmstat"], re.MULTILINE)))
            for record in runs
        ]
        made.add_row(
            flavour,
            f"{median(int(record.results['pool.pages']) for record in runs):,.0f}",
            f"{(grown - without) / 1e6:,.1f} M",
            f"{median(record.seconds('pool.ticks') for record in runs) * 1e3:,.0f} ms",
            f"{median(scanned):,.0f}",
        )
    return made
