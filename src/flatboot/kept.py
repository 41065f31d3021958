"""Boots for published tables: their records are kept, and made when there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flatboot import bases, boot, build, host, progress, record, units
from flatboot.errors import FlatbootError
from flatboot.machine import machine
from flatboot.record import Record

_CONFIG = "bench"
_STOCK = "stock"
_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Wanted:
    """A boot of the default base on the exact clock.

    Attributes:
        table: the table that it is for, and the folder of its record.
        flavour: "stock" or "flatboot".
        memory: size, such as "2G".
        cmdline: see ``boot.Boot``.
        cpus: CPUs.
        nodes: NUMA nodes.
        programs: see ``boot.Boot``.
        phases: see ``boot.Boot``.
        functions: see ``boot.Boot``.
        config: name of the kernel's config.
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
    config: str = _CONFIG

    @property
    def name(self) -> str:
        """The record's file without the suffix; boots of one table differ in what it tells."""
        size = [f"{self.nodes}n{self.cpus}c"] if (self.nodes, self.cpus) != (1, 1) else []
        config = [self.config] if self.config != _CONFIG else []
        program = [self.programs[-1].replace(" ", "-")] if self.programs else []
        return f"{self.table}/{'-'.join([self.flavour, *config, self.memory, *size, *program])}"

    @property
    def host_bytes(self) -> float:
        """Bytes of host memory that the boot may take."""
        size = units.size(self.memory)
        return host.boot_memory(size if self.flavour == _STOCK else 0) + bool(self.programs) * size


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
            FlatbootError: this machine has too little memory for it; or as ``boot.boot`` does.
        """
        if wanted not in self._records:
            path = self._folder / f"{wanted.name}.json"
            if path.exists() and not self._again:
                self._records[wanted] = record.load(path)
            else:
                self._records[wanted] = _booted(wanted)
                if self._save:
                    self._records[wanted].save(path)
        return self._records[wanted]


def _booted(wanted: Wanted) -> Record:
    available = host.available_memory()
    if wanted.host_bytes > available:
        raise FlatbootError(
            f"{wanted.name} may take {units.decimal_size(wanted.host_bytes)} of this machine's"
            f" memory and {units.decimal_size(available)} is free: free some, or boot it elsewhere"
            " and take the record with --kept"
        )
    with progress.step(wanted.name):
        return boot.boot(
            build.kernel(bases.default(), wanted.flavour, wanted.config),
            machine(memory=wanted.memory, cpus=wanted.cpus, nodes=wanted.nodes),
            cmdline=wanted.cmdline,
            guest=wanted.programs,
            phases=wanted.phases,
            functions=wanted.functions,
            timeout_s=_TIMEOUT_S,
        )
