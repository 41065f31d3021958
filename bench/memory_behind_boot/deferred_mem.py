"""What it saves to boot with 2 GiB of a larger machine and to add the rest behind boot."""

from __future__ import annotations

from dataclasses import dataclass

from map_ready import READS
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record import timings
from flatboot.record.excerpts import NOTHING
from flatboot.record.record import Record

LEFT = "2G"
DEFERRED = f"mem={LEFT} deferred_mem.mode=kernel"


@dataclass(frozen=True)
class Kind:
    """A kind of machine: the parameters of all its boots, its sizes, and its kernels' config."""

    arch: str
    cmdline: str
    sizes: tuple[str, ...]
    config: str = "bench"


#: On arm64 the linear map decides what memory costs: see bench/memory_map/arm64.py.
KINDS = {
    "arm64, 4 KiB entries": Kind("arm64", "", ("12G", "24G", "64G")),
    "arm64, 4 KiB entries, for size": Kind("arm64", "", ("12G", "24G", "64G"), "size"),
    "arm64, blocks": Kind("arm64", "rodata=noalias", ("12G", "24G", "64G")),
    "x86-64": Kind("x86_64", "", ("64G", "1T")),
}


def boot(kept: Kept, name: str, flavour: str, memory: str) -> Record:
    """Return the boot of a machine of the kind *name*: stock's, or one that defers memory."""
    kind = KINDS[name]
    more = DEFERRED if flavour == "flatboot" else ""
    folder = f"deferred_mem/{name.replace(',', '').replace(' ', '-')}"
    cmdline = f"{kind.cmdline} {more}".strip()
    return kept(Wanted(folder, flavour, memory, cmdline, config=kind.config, arch=kind.arch))


def table(kept: Kept) -> Table:
    """Return what stock's boots cost, those that defer memory, and what is saved."""
    made = Table(
        title=f"Instructions from reset to /init, in millions; deferred: {DEFERRED}",
        caption="one CPU, exact clock; for size: both kernels compiled so; of what there is: of"
        f" what stock's boot costs more than stock's with {units.binary_size(units.size(LEFT))}",
    )
    made.add_column("machine")
    for column in ("memory", "stock", "deferred", "saved", "each GiB", "of what there is"):
        made.add_column(column, justify="right")
    for name, kind in KINDS.items():
        small = boot(kept, name, "stock", LEFT)
        for memory in kind.sizes:
            stock, ours = (boot(kept, name, flavour, memory) for flavour in ("stock", "flatboot"))
            saved = stock.to_init - ours.to_init
            gib = (units.size(memory) - units.size(LEFT)) / 2**30
            made.add_row(
                name,
                units.binary_size(units.size(memory)),
                _millions(stock.to_init),
                _millions(ours.to_init),
                _millions(saved),
                _millions(saved / gib),
                f"{saved / (stock.to_init - small.to_init):.1%}",
                end_section=memory == kind.sizes[-1],
            )
    return made


#: Ways to a first process that does not wait for all memory, and how a guest knows that all is
#: there: parameters, and program. Without one, all can be had when /init starts.
WAYS = {
    "deferred_init=lazy": ("deferred_init=lazy", ""),
    "deferred_init=background": ("deferred_init=background", "ready"),
    "deferred_mem.mode=kernel": (DEFERRED, "ready added"),
}
#: Machines of the comparison: kind and memory.
MACHINES = (("arm64, 4 KiB entries", "12G"), ("x86-64", "64G"))


def ways(kept: Kept) -> Table:
    """Return when /init runs and when all memory can be had, for each way."""
    made = Table(
        title="Instructions from reset, in millions, and host memory",
        caption="one CPU, exact clock, /init does nothing; host memory: the most that QEMU held",
    )
    made.add_column("machine")
    made.add_column("boot")
    for column in ("/init", "all memory", "host memory"):
        made.add_column(column, justify="right")
    for name, memory in MACHINES:
        records = {"stock": boot(kept, name, "stock", memory)}
        for way, (cmdline, program) in WAYS.items():
            wanted = Wanted(
                f"deferred_mem/{way.replace('=', '-')}",
                "flatboot",
                memory,
                cmdline,
                programs=(program,) if program else (),
                fills=False,
                arch=KINDS[name].arch,
                reads=READS if program else NOTHING,
            )
            records[way] = kept(wanted)
        for way, record in records.items():
            later = way in WAYS and WAYS[way][1]
            made.add_row(
                "" if way != "stock" else f"{name}, {units.binary_size(units.size(memory))}",
                way,
                _millions(record.to_init),
                _millions(timings.ready_ns(record) if later else record.to_init),
                units.decimal_size(record.host_peak_bytes),
                end_section=way == list(records)[-1],
            )
    return made


def _millions(instructions: float) -> str:
    return f"{instructions / 1e6:,.1f}"
