"""Boots for published tables: their records are kept, and made when there is none."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import host, progress, units
from flatboot.common.errors import FlatbootError
from flatboot.guest import stored
from flatboot.guest.boot_spec import BootSpec, Clock
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName
from flatboot.record import record, splats
from flatboot.record.record import Record

_CONFIG = "bench"
_ARCH = "x86_64"
# With these, a guest that runs no programs has touched little of the memory map when it ends.
_LEAN = ("deferred_init=lazy", "deferred_init=background")
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Wanted:
    """A boot of the default base.

    Attributes:
        table: the table that it is for, and the folder of its record.
        flavour: "stock" or "flatboot".
        memory: size, such as "2G".
        cmdline: see ``BootSpec``.
        cpus: CPUs.
        nodes: NUMA nodes.
        programs: see ``BootSpec``.
        phases: see ``BootSpec``.
        functions: see ``BootSpec``.
        spans: see ``BootSpec``; the text of a trace is not kept then.
        config: name of the kernel's config.
        arch: name of the architecture.
        arguments: see ``BootSpec``.
        fills: whether the programs may touch all of the memory.
        clock: see ``BootSpec``.
        run: which of several boots, where they differ from one to the next; 0 if there is one.
        files: see ``BootSpec``, as pairs; the record keeps none of them.
    """

    table: str
    flavour: str
    memory: str
    cmdline: str = ""
    cpus: int = 1
    nodes: int = 1
    programs: tuple[str, ...] = ()
    phases: bool = False
    functions: bool = False
    spans: bool = False
    config: str = _CONFIG
    arch: str = _ARCH
    arguments: tuple[str, ...] = ()
    fills: bool = True
    clock: Clock = "exact"
    run: int = 0
    files: tuple[tuple[str, Path], ...] = ()

    @property
    def name(self) -> str:
        """The record's file without the suffix; boots of one table differ in what it tells."""
        size = [f"{self.nodes}n{self.cpus}c"] if (self.nodes, self.cpus) != (1, 1) else []
        config = [self.config] if self.config != _CONFIG else []
        arch = [self.arch] if self.arch != _ARCH else []
        # A boot whose calls are counted has the tracer's program, and no other.
        program = [self.programs[-1].replace(" ", "-")] if self.programs and not self.spans else []
        run = [str(self.run)] if self.run else []
        words = [self.flavour, *arch, *config, self.memory, *size, *program, *run]
        return f"{self.table}/{'-'.join(words)}"

    @property
    def spec(self) -> BootSpec:
        """The boot."""
        return BootSpec(
            KernelName(self.flavour, self.config, self.arch),
            machine(self.arch, self.memory, self.cpus, self.nodes),
            self.cmdline,
            self.clock,
            self.programs,
            self.files,
            self.arguments,
            self.phases,
            self.functions,
            self.spans,
            _TIMEOUT_S,
            self.run,
        )

    @property
    def host_bytes(self) -> float:
        """Bytes of host memory that the boot may take."""
        size = units.size(self.memory)
        whole_map = bool(self.programs) or not any(mode in self.cmdline for mode in _LEAN)
        touched = size if self.programs and self.fills else 0
        return host.boot_memory(size if whole_map else 0) + touched


class Kept:
    """The records of wanted boots, each made once at most."""

    def __init__(self, folder: Path, *, again: bool, save: bool = True) -> None:
        """Look for records in *folder*.

        Args:
            folder: where they lie.
            again: whether to boot although there is one.
            save: whether to write those of new boots.
        """
        self._folder = folder
        self._again = again
        self._save = save
        self._records: dict[Wanted, Record] = {}

    def __call__(self, wanted: Wanted) -> Record:
        """Return the record of *wanted*, kept or made now.

        Raises:
            FlatbootError: this machine has too little memory for it, or its kernel complained; or
                as ``stored.boot`` does.
        """
        if wanted not in self._records:
            path = self._path(wanted)
            if self._there(path):
                found = record.load(path)
                _check(found, wanted, path)
                _check_sound(found, wanted)
            else:
                found = _booted(wanted)
                _check_sound(found, wanted)
                if self._save:
                    found.save(path)
            self._records[wanted] = found
        return self._records[wanted]

    def can(self, wanted: Wanted) -> bool:
        """Return whether there is a record of *wanted*, or memory enough to make one."""
        return self._there(self._path(wanted)) or wanted.host_bytes <= host.available_memory()

    def _path(self, wanted: Wanted) -> Path:
        return self._folder / f"{wanted.name}.json"

    def _there(self, path: Path) -> bool:
        return path.exists() and not self._again


def _check(kept: Record, wanted: Wanted, path: Path) -> None:
    """Check that a kept record is of the boot that is wanted, which its file's name does not tell.

    Raises:
        FlatbootError: it is of another.
    """
    machine, kernel = kept.machine, kept.kernel
    same_machine = (
        machine.memory_bytes == units.size(wanted.memory)
        and machine.cpus == wanted.cpus
        and max(len(machine.nodes), 1) == wanted.nodes
        and machine.arch == wanted.arch
    )
    same_boot = (
        kernel.flavour == wanted.flavour
        and kernel.config == wanted.config
        and kept.clock == wanted.clock
        and set(wanted.cmdline.split()) <= set(kept.cmdline.split())
    )
    if not same_machine or not same_boot:
        raise FlatbootError(f"{path} is of another boot: run flatboot bench without --kept")


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
            " and take the record with --kept"
        )
    with progress.step(wanted.name):
        made = stored.boot(wanted.spec)
    if wanted.spans:
        _check_sound(made, wanted)
        files = {path: text for path, text in made.files.items() if path != record.TRACE_FILE}
        made = dataclasses.replace(made, files=files, log="", console="")
    return made
