"""What more CPUs gain on this machine: one page of tables of the wall clock, in ten minutes.

    .venv/bin/python bench/hardware.py

boots stock and flatboot with one CPU, with four, and so on up to as many as this machine has, in
turn, until the time is used up, and writes hardware.html and, for bench/hardware.json, the figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.common import host, paths, progress, rows, screen, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import boot
from flatboot.guest.boot_spec import BootSpec, Image
from flatboot.guest.machine import machine
from flatboot.kernel import build
from flatboot.kernel.build import KernelName
from flatboot.record import splats, timings
from flatboot.record.record import Record
from flatboot.show import web_page
from flatboot.show.plain_table import plain
from flatboot.show.web_page import Block, Section

CONFIG = "bench"
#: The tables of docs are made from what machines left here.
FILE = Path("bench/hardware.json")
_TIMEOUT_S = 300
#: The console takes its time. And where KVM does not work the processor has no constant_tsc, so
#: that each CPU would measure its delay loop, one after another.
_COMMON = "quiet lpj=4000000"


@dataclass(frozen=True)
class Way:
    """A kernel and its parameters."""

    flavour: str
    cmdline: str = ""


@dataclass(frozen=True)
class Trial:
    """Something that is done with more and more CPUs.

    Attributes:
        title: what the time is of, in a few words.
        ways: how, by the names of the table; times are compared with those of the first.
        seconds: reads the time from a record.
        memory: of the guest.
        programs: of the guest.
        backed: whether the host has all of the guest's memory ready before.
        several: whether it takes several CPUs: then there are also twice as many as the host has.
    """

    title: str
    ways: Mapping[str, Way]
    seconds: Callable[[Record], float]
    memory: str = "64G"
    programs: tuple[str, ...] = ()
    backed: bool = False
    several: bool = False

    @property
    def host_bytes(self) -> float:
        """The memory of the host that a boot takes."""
        size = units.size(self.memory)
        return host.boot_memory(size) + (size if self.backed else 0)


_HIDDEN, _ADDED_MIB = 1 << 32, 14 << 10
_ADDING = "mem=2G deferred_mem.mode=user"
_POOL_PAGES = 24000
TRIALS = {
    "map": Trial(
        "memory map of 64 GiB",
        {
            "stock": Way("stock"),
            "deferred_init=background": Way("flatboot", "deferred_init=background"),
        },
        lambda record: timings.ready_ns(record) / 1e9,
        programs=("ready",),
    ),
    "adding": Trial(
        "14 GiB added",
        {
            "one thread": Way("flatboot", f"{_ADDING} memory_hotplug.threads=1"),
            "all CPUs": Way("flatboot", _ADDING),
        },
        lambda record: record.seconds("blocks.ticks"),
        "16G",
        (f"blocks {_HIDDEN:#x} {_ADDED_MIB} kernel",),
        backed=True,
    ),
    "pool": Trial(
        f"pool of {_POOL_PAGES:,}",
        {
            "stock": Way("stock"),
            "hugepage_alloc_threads=auto": Way("flatboot", "hugepage_alloc_threads=auto"),
            "hugepage_alloc_threads=16": Way("flatboot", "hugepage_alloc_threads=16"),
        },
        lambda record: record.seconds("pool.ticks"),
        programs=(f"grow pool hugepages-2048kB/nr_hugepages {_POOL_PAGES}",),
    ),
    "bring-up": Trial(
        "CPUs brought up",
        {
            "stock": Way("stock"),
            "cpuhp.group=flat": Way("flatboot", "cpuhp.group=flat"),
            "cpuhp.group=tree": Way("flatboot", "cpuhp.group=tree"),
        },
        timings.bring_up_s,
        "2G",
        several=True,
    ),
}


@dataclass(frozen=True)
class Measured:
    """What a machine did.

    Attributes:
        cores: that this process could use.
        accelerator: "kvm" or "tcg": what the guests ran on.
        qemu: its version.
        seconds: the times of each round, by trial, way and CPUs: "map/stock/4".
        failures: what did not boot, and why.
    """

    cores: int
    accelerator: str
    qemu: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def cpus(trial: Trial, cores: int) -> list[int]:
    """Return the numbers of CPUs that *trial* has on a machine of so many *cores*, least first."""
    most = 2 * cores if trial.several else cores
    wanted = {4**power for power in range(5)} | {cores, most}
    return sorted(count for count in wanted if (2 if trial.several else 1) <= count <= most)


@dataclass(frozen=True)
class Cell:
    """One boot of each round."""

    trial: str
    way: str
    cpus: int

    @property
    def name(self) -> str:
        """The name of its times."""
        return f"{self.trial}/{self.way}/{self.cpus}"

    def spec(self, image: Image) -> BootSpec:
        """Return the boot of the kernel *image*."""
        trial = TRIALS[self.trial]
        size = units.size(trial.memory)
        whole = f"memory-backend-ram,id=whole,size={size},prealloc=on,prealloc-threads={self.cpus}"
        backed = ("-object", whole, "-machine", "memory-backend=whole") if trial.backed else ()
        return BootSpec(
            image,
            machine(memory=size, cpus=self.cpus),
            f"{_COMMON} {trial.ways[self.way].cmdline}".strip(),
            "wall",
            trial.programs,
            arguments=backed,
            timeout_s=_TIMEOUT_S,
        )


def cells(names: Sequence[str], cores: int, memory: float) -> list[Cell]:
    """Return the boots of a round of the trials *names*, on a machine of so many *cores*, in turn.

    What takes more than *memory* is left out. Ways that are compared come one after another, so
    that what changes on the host hits all.
    """
    return [
        Cell(name, way, count)
        for name in names
        if TRIALS[name].host_bytes <= memory
        for count in cpus(TRIALS[name], cores)
        for way in TRIALS[name].ways
    ]


def measure(
    names: Sequence[str],
    images: Mapping[str, Image],
    minutes: float,
    write: Callable[[Measured], None],
) -> None:
    """Boot round after round until the next would not end in time, and *write* after each.

    Args:
        names: the trials.
        images: kernels by flavour.
        minutes: what there is; one round is done in any case.
        write: takes what was measured so far.

    Raises:
        FlatbootError: no boot of a round succeeded.
    """
    began = time.monotonic()
    wanted = cells(names, host.cores(), host.available_memory())
    run = {cell.trial for cell in wanted}
    skipped = [f"{TRIALS[name].title}: too little memory" for name in names if name not in run]
    found = Measured(host.cores(), "", "", failures=skipped)
    longest = 0.0
    while time.monotonic() - began + longest < 60 * minutes or not longest:
        begin = time.monotonic()
        with progress.step("a round", total=len(wanted)) as step:
            for done, cell in enumerate(wanted):
                step.update(done, cell.name)
                found = _taken(found, cell, images)
        longest = max(longest, time.monotonic() - begin)
        if not found.seconds:
            raise FlatbootError(f"nothing could be booted: {found.failures[0]}")
        write(found)


def _taken(found: Measured, cell: Cell, images: Mapping[str, Image]) -> Measured:
    """Return *found* with one more boot."""
    trial = TRIALS[cell.trial]
    try:
        record = boot.boot(cell.spec(images[trial.ways[cell.way].flavour]))
        if complaints := splats.find(record.console):
            raise FlatbootError(f"the kernel complains: {complaints[0]}")
        seconds = trial.seconds(record)
    except FlatbootError as error:
        progress.warn(f"{cell.name}: {error}")
        return replace(found, failures=[*found.failures, f"{cell.name}: {error}"])
    times = {**found.seconds, cell.name: [*found.seconds.get(cell.name, []), seconds]}
    machine = record.machine
    return replace(found, accelerator=machine.accelerator, qemu=machine.qemu, seconds=times)


def table(found: Mapping[str, Measured]) -> Table:
    """Return the times of machines, each as a ratio to that of its first way and fewest CPUs."""
    counts = sorted(
        {count for one in found.values() for t in TRIALS.values() for count in cpus(t, one.cores)}
    )
    least = min(len(times) for one in found.values() for times in one.seconds.values())
    made = Table(
        title="Time on the wall clock, by number of CPUs",
        caption=f"medians of {least} or more boots of each, in turn; in brackets the least and the"
        " most; of each part, the first way with the fewest CPUs is 1",
    )
    for column in ("cores", "what", "how"):
        made.add_column(column)
    for count in counts:
        made.add_column(units.many(count, "CPU"), justify="right")
    for one in found.values():
        for name, trial in TRIALS.items():
            base = one.seconds.get(f"{name}/{next(iter(trial.ways))}/{cpus(trial, one.cores)[0]}")
            for way in trial.ways if base else ():
                times = (one.seconds.get(f"{name}/{way}/{count}", []) for count in counts)
                ratios = (_ratio(values, statistics.median(base or [1.0])) for values in times)
                made.add_row(str(one.cores), trial.title, way, *ratios)
            made.add_section()
    return made


def _ratio(times: list[float], base: float) -> str:
    if not times:
        return ""
    least, middle, most = (f(times) / base for f in (min, statistics.median, max))
    return f"{middle:.2f} ({least:.2f} to {most:.2f})"


def published(kept: Kept) -> Table:
    """Return the table of the machines that sent what they measured; no boot is looked at."""
    return table(rows.read(paths.repo() / FILE, dict[str, Measured]))


def page(title: str, found: Measured) -> str:
    """Return what *found* says of the machine *title*, as a web page."""
    sections = [
        Section("machine", "The machine", [Block("", [], [_ran_on(found)])], ""),
        Section("times", "By number of CPUs", [Block("", [plain(table({title: found}))])], ""),
        Section(
            "failures",
            "What did not run",
            [Block("", [], found.failures)] if found.failures else [],
            "All ran.",
        ),
    ]
    return web_page.html("What more CPUs gain", title, sections)


def _ran_on(found: Measured) -> str:
    kvm = (
        "KVM boots a kernel here, and the guests ran on it."
        if found.accelerator == "kvm"
        else "KVM boots no kernel here: the guests ran on QEMU's emulator, a thread for each CPU."
    )
    return f"{kvm} QEMU {found.qemu}; {found.cores} cores."


def main(
    minutes: Annotated[float, typer.Option(help="How long it may take; a round in any case.")] = 10,
    kernels: Annotated[
        Path | None,
        typer.Option(help="Folder with kernels that were built elsewhere: stock/ and flatboot/."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("-k", help=f"Only this; there are {', '.join(TRIALS)}.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The page; the figures go beside it.")] = Path(
        "hardware.html"
    ),
) -> None:
    """Measure what more CPUs gain on this machine, and write a page of it."""
    if unknown := set(only or ()) - TRIALS.keys():
        raise UsageError(f"there is no {unknown.pop()!r}: choose of {', '.join(TRIALS)}")
    images: dict[str, Image] = {
        flavour: build.load(kernels / flavour) if kernels else KernelName(flavour, CONFIG).image()
        for flavour in build.FLAVOURS
    }
    cores, memory = units.many(host.cores(), "core"), units.binary_size(host.memory())
    title = f"{host.processor()}, {cores}, {memory}"
    console = screen.console()

    def write(found: Measured) -> None:
        web_page.write(page(title, found), output)
        rows.write(output.with_suffix(".json"), {title: found})
        console.print(table({title: found}))

    measure(only or list(TRIALS), images, minutes, write)
    console.print(f"page: {output.resolve()}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    try:
        typer.run(main)
    except FlatbootError as error:
        raise SystemExit(f"flatboot: {error}") from None
