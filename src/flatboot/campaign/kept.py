"""Boots for published tables: what the tables read of them is kept, and made when there is none."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import host, progress, units
from flatboot.common.errors import FlatbootError
from flatboot.guest import next_kernel, stored
from flatboot.guest.boot_spec import BootSpec, Clock, Counted, Functions
from flatboot.guest.machine import machine
from flatboot.kernel import bases
from flatboot.kernel.build import KernelName
from flatboot.record import excerpts, splats
from flatboot.record.excerpts import NOTHING, Excerpt, Reads
from flatboot.record.record import Record

_CONFIG = "bench"
_ARCH = "x86_64"
# With these, a guest that runs no programs has touched little of the memory map when it ends.
_LEAN = ("deferred_init=lazy", "deferred_init=background")
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Wanted:
    """A boot for a table.

    Attributes:
        table: the table that it is for; what stands before a slash names the file of its excerpt.
        flavour: "stock" or "flatboot".
        memory: size, such as "2G".
        cmdline: see ``BootSpec``.
        cpus: CPUs.
        nodes: NUMA nodes.
        programs: see ``BootSpec``.
        phases: see ``BootSpec``.
        functions: see ``BootSpec``.
        spans: see ``BootSpec``; the text of a trace is not kept then.
        counted: see ``BootSpec``; the table names the result among what it reads.
        config: name of the kernel's config.
        arch: name of the architecture.
        arguments: see ``BootSpec``.
        fills: whether the programs may touch all of the memory.
        clock: see ``BootSpec``.
        run: which of several boots, where they differ from one to the next; 0 if there is one.
        files: see ``BootSpec``, as pairs; the record keeps none of them.
        next_cmdline: parameters of the same kernel, which the guest boots by kexec after its
            programs; "" for no other. The record is of that boot, and has the raw counter just
            before it as ``ticks.kexec``.
        reads: what the table reads of its record, besides phases, functions and spans, which it
            reads where it asks for them.
        groups: see ``flatboot.kernel.build.kernel``.
        base: name of the base; "" for the default.
    """

    table: str
    flavour: str
    memory: str
    cmdline: str = ""
    cpus: int = 1
    nodes: int = 1
    programs: tuple[str, ...] = ()
    phases: bool = False
    functions: Functions = ""
    spans: bool = False
    counted: Counted = ""
    config: str = _CONFIG
    arch: str = _ARCH
    arguments: tuple[str, ...] = ()
    fills: bool = True
    clock: Clock = "exact"
    run: int = 0
    files: tuple[tuple[str, Path], ...] = ()
    next_cmdline: str = ""
    reads: Reads = NOTHING
    groups: tuple[str, ...] = ()
    base: str = ""

    @property
    def name(self) -> str:
        """The table and the boot; boots of one table differ in what it tells."""
        size = [f"{self.nodes}n{self.cpus}c"] if (self.nodes, self.cpus) != (1, 1) else []
        config = [self.config] if self.config != _CONFIG else []
        arch = [self.arch] if self.arch != _ARCH else []
        # A boot whose calls are counted has the tracer's program, and no other.
        program = [self.programs[-1].replace(" ", "-")] if self.programs and not self.spans else []
        run = [str(self.run)] if self.run else []
        groups = [name.replace("/", "-") for name in self.groups]
        base = [self.base] if self.base else []
        words = [*base, self.flavour, *groups, *arch, *config, self.memory, *size, *program, *run]
        return f"{self.table}/{'-'.join(words)}"

    @property
    def spec(self) -> BootSpec:
        """The boot."""
        kernel = KernelName(
            self.flavour,
            self.config,
            self.arch,
            self.base or bases.default(),
            self.groups,
        )
        programs, files = self.programs, self.files
        if self.next_cmdline:
            load = next_kernel.load(self.next_cmdline)
            programs = (*programs, load, "poke ticks kexec", next_kernel.BOOT)
            files = (*files, *next_kernel.files(kernel.image().image, (), self.clock).items())
        return BootSpec(
            kernel,
            machine(self.arch, self.memory, self.cpus, self.nodes),
            self.cmdline,
            self.clock,
            programs,
            files,
            self.arguments,
            self.phases,
            self.functions,
            self.spans,
            self.counted,
            _TIMEOUT_S,
            self.run,
        )

    @property
    def host_bytes(self) -> float:
        """Bytes of host memory that the boot may take."""
        size = units.size(self.memory)
        whole_map = bool(self.programs) or not any(mode in self.cmdline for mode in _LEAN)
        touched = size if self.programs and self.fills else 0
        # The next kernel's map need not come to lie where the first one's was.
        maps = (2 if self.next_cmdline else 1) * whole_map
        return host.boot_memory(maps * size) + touched


class Kept:
    """What tables read of wanted boots, each of which is made once at most."""

    def __init__(self, folder: Path, *, again: bool, save: bool = True) -> None:
        """Look for excerpts of records in *folder*, a file a table.

        Args:
            folder: where they lie.
            again: whether to boot although there is one.
            save: whether to write those of new boots.
        """
        self._folder = folder
        self._again = again
        self._save = save
        self._records: dict[Wanted, Record] = {}
        self._files: dict[Path, dict[str, Excerpt]] = {}

    def __call__(self, wanted: Wanted) -> Record:
        """Return what *wanted* reads of its record, kept or made now; to read more is an error.

        Raises:
            FlatbootError: this machine has too little memory for it, its kernel complained, or what
                is kept is of another boot, is too little or damaged; or as ``stored.boot`` does.
        """
        if wanted not in self._records:
            path, name = self._place(wanted)
            reads = _reads(wanted)
            # Before the boot: a file that is damaged could not take what it leaves.
            found = self._excerpts(path).get(name)
            if found is not None and not self._again:
                _check(found, wanted, path)
            else:
                whole = _booted(wanted)
                _check_sound(whole, wanted)
                # The record is whole up to here.
                found = excerpts.excerpt(whole, reads)
                if self._save:
                    excerpts.add(path, name, found)
            self._records[wanted] = excerpts.guarded(found, reads, wanted.name)
        return self._records[wanted]

    def can(self, wanted: Wanted) -> bool:
        """Return whether *wanted* is kept, or there is memory enough to boot it."""
        if wanted in self._records:
            return True
        path, name = self._place(wanted)
        there = not self._again and name in self._excerpts(path)
        return there or wanted.host_bytes <= host.available_memory()

    def _place(self, wanted: Wanted) -> tuple[Path, str]:
        """Return the file of *wanted*, and its name there."""
        table, _, name = wanted.name.partition("/")
        return self._folder / f"{table}.json", name

    def _excerpts(self, path: Path) -> dict[str, Excerpt]:
        if path not in self._files:
            self._files[path] = excerpts.load(path) if path.exists() else {}
        return self._files[path]


def _reads(wanted: Wanted) -> Reads:
    """Return all that is read of *wanted*."""
    return dataclasses.replace(
        wanted.reads, phases=wanted.phases, functions=bool(wanted.functions), spans=wanted.spans
    )


def _check(kept: Excerpt, wanted: Wanted, path: Path) -> None:
    """Check that what is kept is of the boot that is wanted, and all of it that is read.

    Raises:
        FlatbootError: it is of another, or less.
    """
    found = kept.record
    machine, kernel = found.machine, found.kernel
    same_machine = (
        machine.memory_bytes == units.size(wanted.memory)
        and machine.cpus == wanted.cpus
        and max(len(machine.nodes), 1) == wanted.nodes
        and machine.arch == wanted.arch
    )
    same_boot = (
        kernel.base == (wanted.base or kernel.base)
        and kernel.flavour == wanted.flavour
        and kernel.config == wanted.config
        and found.clock == wanted.clock
        and set(wanted.cmdline.split()) <= set(found.cmdline.split())
    )
    if not same_machine or not same_boot:
        raise FlatbootError(
            f"{path}: what is kept of {wanted.name} is of another boot: run flatboot bench without"
            " --kept"
        )
    if lacking := kept.reads.lacks(_reads(wanted)):
        raise FlatbootError(
            f"{path}: what is kept of {wanted.name} lacks {', '.join(lacking)} that its table reads"
            " now: run flatboot bench without --kept"
        )


def _check_sound(made: Record, wanted: Wanted) -> None:
    """Check that the kernel did not complain: what it did then is not what is to be measured.

    Raises:
        FlatbootError: it did.
    """
    if found := splats.find(made.console):
        raise FlatbootError(
            f"the kernel of {wanted.name} complains, so its cost says nothing:\n"
            + splats.around(made.console, found[0], after=5)
        )


def _booted(wanted: Wanted) -> Record:
    available = host.available_memory()
    if wanted.host_bytes > available:
        raise FlatbootError(
            f"{wanted.name} may take {units.decimal_size(wanted.host_bytes)} of this machine's"
            f" memory and {units.decimal_size(available)} is free: free some, or boot it elsewhere"
            " and take what it left with --kept"
        )
    with progress.step(wanted.name):
        return stored.boot(wanted.spec)
