"""A kernel's past: which earlier kernels a results file holds boots of, and what they took."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from flatboot.analysis import comparable
from flatboot.analysis.comparable import TOTAL
from flatboot.analysis.compare import SAME, Comparison, PhaseChange
from flatboot.common import units
from flatboot.common.errors import UsageError
from flatboot.record.record import Kernel, Record

_PER_MS = 1e6


def earlier(new: Sequence[Record], kept: Sequence[Record]) -> list[list[Record]]:
    """Return the boots of each kernel in *kept* that is older than that of *new*, oldest first.

    Only such kernels count that differ in nothing but the code: they have the same flavour and
    name of config, and were booted on the same clock and architecture, with the same parameters
    and on at least one of the same machines. A kernel is as old as its last boot.

    Raises:
        UsageError: there is no such kernel.
    """
    first = comparable.one_kernel(new, "the new kernel")
    sizes = comparable.by_size(new).keys()
    since = min(record.created for record in new)
    groups: dict[Kernel, list[Record]] = {}
    for record in kept:
        alike = _alike(record) == _alike(first) and record.kernel != first.kernel
        if alike and record.created < since and comparable.size(record) in sizes:
            groups.setdefault(record.kernel, []).append(record)
    if not groups:
        raise UsageError(
            f"the history has no boots of a kernel older than {first.kernel.version} with the"
            f" flavour {first.kernel.flavour}, the config {first.kernel.config}, the same"
            " parameters, clock and machines: sweep one first"
        )
    return sorted(groups.values(), key=lambda boots: max(record.created for record in boots))


def notes(comparison: Comparison, past: Sequence[Sequence[Record]]) -> list[str]:
    """Return what the whole boot and each changed phase took in all kernels of *past*."""
    count = units.many(len(past), "earlier kernel")
    shown = [phase for phase in comparison.phases if phase.name == TOTAL or phase.verdict != SAME]
    found = [f"{_span(phase, past)}" for phase in shown]
    return [f"in {count}: {'; '.join(found)}"]


def _alike(record: Record) -> tuple[str, ...]:
    kernel = record.kernel
    return kernel.flavour, kernel.config, record.clock, record.machine.arch, record.cmdline


def _span(phase: PhaseChange, past: Sequence[Sequence[Record]]) -> str:
    """Return the least and the most that *phase* took on its largest machine, in ms."""
    size = phase.sizes[-1]
    took = [
        median(runs)
        for boots in past
        for where, records in comparable.by_size(boots).items()
        if (where.memory_bytes, where.cpus, max(len(where.nodes), 1))
        == (size.memory_bytes, size.cpus, size.nodes)
        if (runs := comparable.lengths(records, phase.name))
    ]
    span = " to ".join(f"{value / _PER_MS:,.3f}" for value in sorted({min(took), max(took)}))
    return (
        f"{phase.name} {span} ms on {units.binary_size(size.memory_bytes)}, now"
        f" {size.after / _PER_MS:,.3f}"
    )
