"""Boots of many records by kernel and machine, so that tables and plots need not look for them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flatboot.common import units
from flatboot.record import kernel_names, phases
from flatboot.record.record import Record


@dataclass(frozen=True)
class Clock:
    """How a clock's figures are written.

    Attributes:
        key: a word for it.
        title: the clock, and on the wall clock what ran the guest.
        unit: what a column of figures counts.
        factor: how many of the record's units one of those is.
        digits: decimals of a figure in a table.
    """

    key: str
    title: str
    unit: str
    factor: float
    digits: int

    @property
    def exact(self) -> bool:
        """Whether it counts instructions."""
        return self.key == _EXACT.key

    def figure(self, value: float) -> str:
        """Return *value*, in the record's unit, for a table."""
        rounded = round(value / self.factor, self.digits) + 0.0  # Not -0.0.
        return f"{rounded:,.{self.digits}f}"

    def short(self, value: float) -> str:
        """Return *value*, in the record's unit, to four digits or so."""
        return units.count(value) if self.exact else self.figure(value)

    def tick(self, value: float) -> str:
        """Return *value*, in the record's unit, for an axis."""
        shown = value / self.factor
        for unit, factor in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
            if shown >= factor:
                return f"{shown / factor:g}{unit}"
        return f"{shown:g}"


_EXACT = Clock("exact", "Exact clock", "instructions", 1, 0)


@dataclass(frozen=True)
class Case:
    """One kernel on one machine by one clock, booted once or several times.

    Attributes:
        kernel: its name; see ``kernel_names``.
        clock: the clock.
        runs: the boots, at least one.
    """

    kernel: str
    clock: Clock
    runs: tuple[Record, ...]

    @property
    def memory(self) -> int:
        """Bytes of the machine's memory."""
        return self.runs[0].machine.memory_bytes

    @property
    def gib(self) -> float:
        """GiB of the machine's memory."""
        return self.memory / (1 << 30)

    @property
    def cpus(self) -> int:
        """The machine's CPUs."""
        return self.runs[0].machine.cpus

    @property
    def nodes(self) -> int:
        """The machine's NUMA nodes; a machine without NUMA is one."""
        return max(len(self.runs[0].machine.nodes), 1)

    @property
    def arch(self) -> str:
        """The machine's architecture."""
        return self.runs[0].machine.arch

    @property
    def machine(self) -> str:
        """The machine in a few words."""
        nodes = [_nodes(self)] if self.nodes > 1 else []
        return ", ".join([self.arch, _memory(self), _cpus(self), *nodes])

    @property
    def cost(self) -> float:
        """From reset to /init in units of the records' clock, the median of the runs."""
        return statistics.median(run.to_init for run in self.runs)

    @property
    def host_peak(self) -> float:
        """The most host memory that QEMU held, in bytes, the median of the runs."""
        return statistics.median(run.host_peak_bytes for run in self.runs)

    @property
    def phases(self) -> dict[str, float]:
        """The length of each phase, the median of the runs that have phases; empty if none has."""
        lengths = [phases.by_name(run.phases) for run in self.runs if run.phases]
        names = dict.fromkeys(name for run in lengths for name in run)
        return {name: statistics.median(run.get(name, 0) for run in lengths) for name in names}


@dataclass(frozen=True)
class Sweep:
    """One kernel on machines that differ in one thing only: its name, and the cases by that."""

    name: str
    cases: list[Case]


def cases(records: Sequence[Record]) -> list[Case]:
    """Return the cases of *records*: stock kernels first, each kernel's by memory, CPUs, nodes."""
    names = kernel_names.names(records)
    found: dict[tuple[Any, ...], list[Record]] = {}
    for name, record in zip(names, records, strict=True):
        machine = record.machine
        nodes = tuple((node.memory_bytes, node.cpus) for node in machine.nodes)
        size = (machine.memory_bytes, machine.cpus, nodes)
        found.setdefault((name, _clock(record), machine.arch, size), []).append(record)
    order = list(dict.fromkeys(names))
    made = {key: Case(key[0], key[1], tuple(runs)) for key, runs in found.items()}
    stock = {key: case.runs[0].kernel.flavour == "stock" for key, case in made.items()}
    keys = sorted(made, key=lambda key: (not stock[key], order.index(key[0]), key[2], key[3]))
    return [made[key] for key in keys]


def by_clock(found: Sequence[Case]) -> dict[Clock, list[Case]]:
    """Return the cases of each clock; figures of two clocks belong in no one table or plot."""
    return _grouped(found, lambda case: case.clock)


def by_machine(found: Sequence[Case]) -> dict[str, list[Case]]:
    """Return the cases of each machine, the smallest first."""
    ordered = sorted(found, key=lambda case: (case.arch, case.memory, case.cpus, case.nodes))
    return _grouped(ordered, lambda case: case.machine)


def over_memory(found: Sequence[Case]) -> list[Sweep]:
    """Return the sweeps in which nothing but memory differs, each of at least two sizes."""
    return _sweeps(found, lambda case: case.memory, (_cpus, _nodes))


def over_cpus(found: Sequence[Case]) -> list[Sweep]:
    """Return the sweeps in which nothing but the number of CPUs differs, each of at least two."""
    return _sweeps(found, lambda case: case.cpus, (_memory, _nodes))


def _sweeps(
    found: Sequence[Case], size: Callable[[Case], int], fixed: Sequence[Callable[[Case], str]]
) -> list[Sweep]:
    """Return the sweeps over *size*; a name tells of what is *fixed* if that is not so in all."""
    groups = _grouped(
        found, lambda case: (case.kernel, case.arch, *(value(case) for value in fixed))
    )
    groups = {key: group for key, group in groups.items() if len({*map(size, group)}) > 1}
    told = [index for index in range(2, 2 + len(fixed)) if len({key[index] for key in groups}) > 1]
    return [
        Sweep(", ".join([key[0], *(key[index] for index in told)]), sorted(group, key=size))
        for key, group in groups.items()
    ]


def _memory(case: Case) -> str:
    return units.binary_size(case.memory)


def _cpus(case: Case) -> str:
    return units.many(case.cpus, "CPU")


def _nodes(case: Case) -> str:
    return units.many(case.nodes, "node")


def _clock(record: Record) -> Clock:
    if record.clock == _EXACT.key:
        return _EXACT
    runner = record.machine.accelerator
    return Clock(f"wall-{runner}", f"Wall clock, {runner.upper()}", "ms", 1e6, 1)


def _grouped(found: Sequence[Case], key: Callable[[Case], Any]) -> dict[Any, list[Case]]:
    groups: dict[Any, list[Case]] = {}
    for case in found:
        groups.setdefault(key(case), []).append(case)
    return groups
