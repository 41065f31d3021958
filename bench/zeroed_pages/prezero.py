"""Memory that has to read as zero: stock, init_on_free=1, and pages zeroed ahead of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.guest.boot_spec import Clock
from flatboot.record.excerpts import Reads

#: The kernels that are compared: their flavour and parameters.
KERNELS = {
    "stock": ("stock", ""),
    "stock init_on_free=1": ("stock", "init_on_free=1"),
    "prezero=on": ("flatboot", "prezero=on"),
}
MEMORY = "10G"
#: With a pool of 8 GiB, whose pages of 1 GiB have to find room.
MEMORY_WITH_POOL = "12G"
MIB = 8192
#: A guest with an emulated IOMMU and a device that no driver has.
VFIO = "intel_iommu=on vfio_iommu_type1.allow_unsafe_interrupts=1 iommufd.allow_unsafe_interrupts=1"
DEVICES = ("-device", "intel-iommu,intremap=off,caching-mode=on", "-device", "edu,addr=04.0")


@dataclass(frozen=True)
class Way:
    """A way to get memory.

    Attributes:
        title: what it says to people.
        program: what gets it; results begin with the word behind the program's first.
        config: name of the kernel's config.
        memory: of the guest.
        cmdline: parameters of all kernels.
        arguments: QEMU's.
    """

    title: str
    program: str
    config: str = "bench"
    memory: str = MEMORY
    cmdline: str = ""
    arguments: tuple[str, ...] = ()


def _touched(title: str, way: str, pool: str = "") -> Way:
    memory = MEMORY_WITH_POOL if pool else MEMORY
    return Way(title, f"zeroed touch {way} {way} {MIB}", memory=memory, cmdline=pool)


def _pinned(title: str, page: str, way: str) -> Way:
    program = f"pin {way}-{page} {page} {MIB} {way}"
    if way == "io_uring":
        return Way(title, program, "vfio")
    return Way(title, f"{program} 0000:00:04.0", "vfio", MEMORY, VFIO, DEVICES)


WAYS = (
    _touched("touch, 4 KiB", "4k"),
    _touched("touch, 2 MiB", "thp"),
    _touched("touch a memfd", "shmem"),
    _touched("MADV_POPULATE_WRITE", "populate"),
    _touched("mlock()", "mlock"),
    _touched("hugetlb pool, 2 MiB", "huge-2m", "hugepagesz=2M hugepages=4096"),
    _touched("hugetlb pool, 1 GiB", "huge-1g", "hugepagesz=1G hugepages=8"),
    _touched("hugetlbfs, fallocate()", "fallocate", "hugepagesz=2M hugepages=4096"),
    _pinned("VFIO, 4 KiB", "4k", "vfio"),
    _pinned("VFIO, 2 MiB", "thp", "vfio"),
    _pinned("iommufd, 4 KiB", "4k", "iommufd"),
    _pinned("iommufd, 2 MiB", "thp", "iommufd"),
    _pinned("io_uring, 4 KiB", "4k", "io_uring"),
    _pinned("io_uring, 2 MiB", "thp", "io_uring"),
)

#: What a guest's memory is worth on the wall clock shows only once the host has backed it.
BACKED = f"zeroed touch backed thp {MIB + 1024}"
BACKED_POOL = f"zeroed touch backed huge-1g {MIB}"
#: Those that are measured on the wall clock as well.
TIMED = (
    *("touch, 4 KiB", "touch, 2 MiB", "MADV_POPULATE_WRITE", "hugetlb pool, 1 GiB"),
    *("VFIO, 4 KiB", "VFIO, 2 MiB"),
)


def folder(kernel: str, clock: Clock = "exact") -> str:
    """Return where records of *kernel* lie, one of ``KERNELS``."""
    measured = "prezero" if clock == "exact" else f"prezero-{clock}"
    return f"{measured}/{kernel.replace('=', '-').replace(' ', '-')}"


def a_page(
    kept: Kept, kernel: str, way: Way, *, clock: Clock = "exact", freed: bool = False
) -> float:
    """Return what a page of 4 KiB takes, in ticks: getting it, or giving it back if *freed*."""
    flavour, cmdline = KERNELS[kernel]
    program, *words = way.program.split()
    key = words[1] if program == "zeroed" else words[0]
    before = [BACKED_POOL if "huge-1g" in way.program else BACKED] if clock == "wall" else []
    found = kept(
        Wanted(
            folder(kernel, clock),
            flavour,
            way.memory,
            f"{way.cmdline} {cmdline}".strip(),
            programs=(*before, "zeroed wait", way.program),
            config=way.config,
            arguments=way.arguments,
            clock=clock,
            reads=Reads(results=(f"{key}.ticks", f"{key}.free_ticks", f"{key}.pages")),
        )
    ).results
    return int(found[f"{key}.free_ticks" if freed else f"{key}.ticks"]) / int(found[f"{key}.pages"])


def _less(stock: float, cost: float) -> str:
    return f"{stock / cost:.2f}" if stock < 100 * cost else f"{stock / cost:,.0f}"


def _compared(kept: Kept, title: str, ways: Iterable[Way], *, freed: bool) -> Table:
    made = Table(title=title, caption="one CPU; in brackets how many times fewer than stock")
    made.add_column("memory")
    for kernel in KERNELS:
        made.add_column(kernel, justify="right")
    for way in ways:
        costs = {kernel: a_page(kept, kernel, way, freed=freed) for kernel in KERNELS}
        stock = costs.pop("stock")
        others = (f"{cost:,.1f} ({_less(stock, cost)})" for cost in costs.values())
        made.add_row(way.title, f"{stock:,.1f}", *others)
    return made


def table(kept: Kept) -> Table:
    """Return instructions a page, for each way to get 8 GiB and each kernel."""
    title = "Instructions a page of 4 KiB to get 8 GiB of memory that reads as zero"
    return _compared(kept, title, WAYS, freed=False)


def freeing(kept: Kept) -> Table:
    """Return instructions a page to give memory back, for each kernel."""
    ways = (way for way in WAYS if way.config == "bench")
    return _compared(kept, "Instructions a page of 4 KiB to give 8 GiB back", ways, freed=True)


def wall(kept: Kept) -> Table:
    """Return how many times faster than stock memory is got, by instructions and on the wall."""
    made = Table(title="How many times faster than stock 8 GiB is obtained")
    made.add_column("memory")
    for title in ("fewer instructions", "less time"):
        made.add_column(title, justify="right")
    for way in (way for way in WAYS if way.title in TIMED):
        exact, time = (
            a_page(kept, "stock", way, clock=clock) / a_page(kept, "prezero=on", way, clock=clock)
            for clock in ("exact", "wall")
        )
        made.add_row(way.title, _less(exact, 1), _less(time, 1))
    return made
