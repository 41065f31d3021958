"""``flatboot bisect``: which commit made boot slower."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from flatboot.campaign import bisect as bisecting
from flatboot.campaign import bisect_tables, git_bisect
from flatboot.campaign.bisect import Bisection, BisectionSpec, Trial
from flatboot.campaign.bisect_state import State
from flatboot.campaign.git_bisect import Commit
from flatboot.cli import kernel_cli
from flatboot.common import arches, disk, host, locks, paths, progress, screen, units
from flatboot.common.errors import UsageError
from flatboot.guest import machine, stored
from flatboot.guest.boot_spec import BootSpec, Image
from flatboot.guest.machine import Machine
from flatboot.kernel import build, groups, kconfig, layer, make, sources
from flatboot.record.record import Record

_SIZES = (2 << 30, 16 << 30, 64 << 30)


@dataclass(frozen=True)
class _Lab:
    """Builds with ``build.kernel`` and boots on the exact clock."""

    flavour: str
    config: str
    arch: str
    cc: str
    cmdline: str

    def build(self, folder: Path) -> Image:
        """Build the kernel tree *folder*."""
        return build.kernel(str(folder), self.flavour, self.config, self.arch, cc=self.cc)

    def boot(self, image: Image, machine: Machine, timeout_s: float) -> Record:
        """Boot *image* on *machine*."""
        return stored.boot(BootSpec(image, machine, self.cmdline, phases=True, timeout_s=timeout_s))


@disk.full_is_an_error()
def bisect(
    good: Annotated[str, typer.Argument(help="A commit before the regression.")],
    bad: Annotated[str, typer.Argument(help="A later commit with it.")],
    tree: Annotated[
        Path, typer.Option(metavar="DIR", help="The kernel's git tree, which is only read.")
    ],
    flavour: kernel_cli.Flavour = "stock",
    config: kernel_cli.Config = "bench",
    arch: kernel_cli.Arch = "x86_64",
    cc: kernel_cli.Compiler = "gcc",
    memory: Annotated[
        str | None,
        typer.Option(help="Sizes of memory to try, such as 2G,16G,64G.", show_default="2G,16G,64G"),
    ] = None,
    cpus: Annotated[str, typer.Option(help="Numbers of CPUs to try, such as 1,4.")] = "1",
    cmdline: Annotated[str, typer.Option(help="More kernel parameters.")] = "",
    above: Annotated[
        str | None,
        typer.Option(
            metavar="LIMIT",
            help="How much more than the good end is bad: 5%, or instructions such as 20M."
            " By default, half of what the bad end costs more.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for what is found out; else in the cache."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget an earlier run.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that a boot of an end may take.")] = 600,
) -> None:
    """Find the commit that made boot slower; the same command again takes up where it was left.

    Both ends are built and booted on all machines, then the commits between them on the smallest
    machine that shows the difference. Exit status: 0 found, 1 failed, 2 nothing to be found.
    """
    lab = _Lab(flavour, config, arch, cc, cmdline)
    tree = tree.resolve()
    sources.kernel_version(tree, tree)
    ends = git_bisect.ends(tree, good, bad)
    limit = bisecting.parse_above(above) if above else None
    wanted = BisectionSpec(*ends, machines(arch, memory, cpus), limit, timeout)
    home = paths.cache() / "bisect" / hashlib.sha256(str(tree).encode()).hexdigest()[:16]
    settings = _settings(lab, tree, ends)
    folder = state or home / hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    with locks.exclusive(home / "lock", f"a bisection of {tree}"):
        if reset:
            State.forget(folder)
        known = State(folder, settings)
        clone = home / "tree" / tree.name
        git_bisect.clone(tree, clone, ends)
        run(Bisection(wanted, clone, lab, known), known)


def run(bisection: Bisection, state: State) -> None:
    """Bisect and print what is found.

    Raises:
        UsageError: no machine shows a regression.
    """
    wanted = bisection.wanted
    console = screen.console()
    ends = bisection.ends()
    choice = bisecting.choose(ends, wanted.machines, wanted.above)
    shown = bisect_tables.chosen(ends.phases, choice.phase if choice else "")
    console.print(bisect_tables.change_table("The two ends, instructions", shown, "good", "bad"))
    if choice is None:
        sizes = ", ".join(dict.fromkeys(units.short_size(m.memory_bytes) for m in wanted.machines))
        raise UsageError(
            f"neither the boot nor a phase of it is slower in {wanted.bad.short} than in"
            f" {wanted.good.short} with {sizes}: try larger machines with --memory, more CPUs with"
            " --cpus, or other commits"
        )
    console.print(Text(bisect_tables.choice_line(choice)), soft_wrap=True)

    def show(step: Trial) -> None:
        line = bisect_tables.step_line(step, state)
        progress.console.print(line, highlight=False, markup=False, soft_wrap=True)

    found = bisection.search(choice, show)
    console.print(bisect_tables.step_table(found.steps))
    console.print(bisect_tables.verdict(found), soft_wrap=True)
    if found.cost is not None:
        named = bisect_tables.chosen([found.cost.total, found.cost.change], choice.phase)
        title = f"{found.cost.after.short} and, before it, {found.cost.before.short}, instructions"
        console.print(bisect_tables.change_table(title, named, "before", "with it"))
        console.print(bisect_tables.cost_lines(found.cost), soft_wrap=True)
    console.print(Text(f"records and logs: {state.folder.resolve()}"), soft_wrap=True)


def machines(arch: str, memory: str | None, cpus: str) -> tuple[Machine, ...]:
    """Return the machines to try, smallest first: each size of memory with each number of CPUs.

    Raises:
        UsageError: a size or number is none, or such a machine cannot be made.
    """
    sizes = [units.size(size) for size in memory.split(",")] if memory else _default_sizes()
    counts = cpus.split(",")
    for count in counts:
        if not count.strip().isdecimal():
            raise UsageError(f"{count!r} is no number of CPUs: write numbers such as 1,4")
    return tuple(
        machine.machine(arch, size, count)
        for size in sorted(set(sizes))
        for count in sorted({int(count) for count in counts})
    )


def _default_sizes() -> list[int]:
    """Return the sizes that a stock kernel can be booted on in this host's memory."""
    available = host.available_memory()
    return [size for size in _SIZES if size == _SIZES[0] or host.boot_memory(size) <= available]


def _settings(lab: _Lab, tree: Path, ends: tuple[Commit, Commit]) -> dict[str, str]:
    """Return all that the records depend on beside commit and machine."""
    base = "" if lab.flavour == "stock" else sources.resolve(str(tree)).base()
    taken = groups.chosen(base) if base else ()
    return {
        "tree": str(tree),
        "good": ends[0].hash,
        "bad": ends[1].hash,
        "flavour": lab.flavour,
        "config": kconfig.resolve(lab.config, taken, arches.load(lab.arch)).digest,
        "arch": lab.arch,
        "cc": make.compiler_version(arches.load(lab.arch), lab.cc),
        "layer": layer.inputs_digest(taken, base) if taken else "",
        "cmdline": lab.cmdline,
    }
