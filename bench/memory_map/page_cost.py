"""What setting up a page costs: at boot in every mode, and in memory hotplug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from map_ready import READS
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record import timings
from flatboot.record.excerpts import NOTHING, Reads
from flatboot.record.record import Record

PAGE = 4096
COMPLETE = "poke write all /sys/kernel/mm/deferred_init/complete 1"
#: QEMU's memory device, which is there from the start: firmware tells the kernel of it by ACPI, not
#: in its map of memory, so the kernel adds it as it adds one that is plugged in later.
DIMM = (
    "-m",
    "size=2048M,slots=1,maxmem=128G",
    "-object",
    "memory-backend-ram,id=dimm,size={size},reserve=off",
    "-device",
    "pc-dimm,memdev=dimm",
)


def at_init(record: Record) -> float:
    """Return the instructions from reset to /init."""
    return record.to_init


@dataclass(frozen=True)
class Way:
    """A way in which struct pages come to be.

    Attributes:
        name: what the table calls it.
        flavour: "stock" or "flatboot".
        cmdline: kernel parameters.
        programs: guest programs.
        until: returns the time of a record at which all are initialised.
        reads: what it reads for that.
        hotplug: whether the memory is that of a device.
        sizes: of the memory, smaller and larger; the difference is what is measured.
    """

    name: str
    flavour: str
    cmdline: str
    programs: tuple[str, ...] = ()
    until: Callable[[Record], float] = at_init
    reads: Reads = NOTHING
    hotplug: bool = False
    sizes: tuple[str, str] = ("2G", "64G")


ONLINE = "memhp_default_state=online"
PLUGGED = ("4G", "20G")
WAYS = (
    Way("boot, stock", "stock", ""),
    Way("boot, wait", "flatboot", "deferred_init=wait"),
    # Small maps are ready before /init, and large ones after the boot's other work is done.
    Way(
        "boot, background",
        "flatboot",
        "deferred_init=background",
        ("ready",),
        timings.ready_ns,
        READS,
        sizes=("32G", "64G"),
    ),
    Way(
        "boot, lazy, completed",
        "flatboot",
        "deferred_init=lazy",
        (COMPLETE, "ready"),
        timings.ready_ns,
        READS,
    ),
    Way("hotplug, stock", "stock", ONLINE, hotplug=True, sizes=PLUGGED),
    Way(
        "hotplug, wait",
        "flatboot",
        f"deferred_init=wait {ONLINE}",
        hotplug=True,
        sizes=PLUGGED,
    ),
    Way("hotplug, lazy", "flatboot", f"deferred_init=lazy {ONLINE}", hotplug=True, sizes=PLUGGED),
)


def each_page(kept: Kept, way: Way) -> float:
    """Return the instructions that a page of the larger memory costs more."""
    times = []
    for size in way.sizes:
        wanted = Wanted(
            f"page_cost/{way.name.replace(', ', '-')}-{size}",
            way.flavour,
            "2G" if way.hotplug else size,
            way.cmdline,
            programs=way.programs,
            arguments=tuple(word.format(size=size) for word in DIMM) if way.hotplug else (),
            fills=False,
            reads=way.reads,
        )
        times.append(way.until(kept(wanted)))
    pages = (units.size(way.sizes[1]) - units.size(way.sizes[0])) // PAGE
    return (times[1] - times[0]) / pages


def table(kept: Kept) -> Table:
    """Return the instructions a page, one CPU, exact clock."""
    made = Table(title="Instructions a page of 4 KiB, one CPU")
    made.add_column("way")
    made.add_column("instructions", justify="right")
    for way in WAYS:
        made.add_row(way.name, f"{each_page(kept, way):.1f}")
    return made
