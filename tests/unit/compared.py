"""Boots made up for tests of comparisons: what a phase costs is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import boots

from flatboot.common import units
from flatboot.record.record import EmulatedNode, Phase, Record

#: What a phase takes in instructions: fixed, for each GiB, for each CPU.
COSTS = {
    "firmware": (15_800_000, 15, 0),
    "early memory set-up": (28_000_000, 400_000, 0),
    "waiting for the memory map": (0, 7_200_000, 0),
    "unattributed": (2_600_000, 100, 0),
    "initcalls": (144_000_000, 12_000, 900_000),
    "user space": (180_000, 20, 0),
}
#: Changes what a phase takes on a machine: its cost, GiB and CPUs.
Change = Callable[[float, float, int], float]


def boot(memory: str, cpus: int = 1, flavour: str = "stock", /, **changes: Change) -> Record:
    """Return a boot on the exact clock; *changes* are by the first word of a phase."""
    gib = units.size(memory) / (1 << 30)
    lengths = {}
    for name, (fixed, per_gib, per_cpu) in COSTS.items():
        cost = fixed + per_gib * gib + per_cpu * cpus
        change = changes.get(name.partition(" ")[0])
        lengths[name] = round(change(cost, gib, cpus) if change else cost)
    return with_phases(boots.record(flavour, memory, 0), lengths, cpus)


def sizes(*memory: str, **changes: Change) -> list[Record]:
    """Return a boot on each size with one CPU."""
    return [boot(size, **changes) for size in memory]


def with_phases(record: Record, lengths: Mapping[str, int], cpus: int = 1) -> Record:
    """Return *record* with these phases, as long as they are together."""
    phases, start = [], 0
    for name, length in lengths.items():
        phases.append(Phase(name, start, length))
        start += length
    machine = dataclasses.replace(
        record.machine, cpus=cpus, nodes=[EmulatedNode(record.machine.memory_bytes, cpus)]
    )
    return dataclasses.replace(record, machine=machine, phases=phases, to_init=start)


def wall(runs: Sequence[Mapping[str, int]], memory: str = "512M", since: int = 0) -> list[Record]:
    """Return boots on the wall clock, one every two seconds from *since* on."""
    record = boots.record("stock", memory, 0)
    return [
        dataclasses.replace(
            with_phases(record, lengths),
            clock="wall",
            created=f"2026-01-01T00:{second // 60:02}:{second % 60:02}+00:00",
        )
        for second, lengths in zip(range(since, 3600, 2), runs, strict=False)
    ]
