"""The outcome of a comparison in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from flatboot.analysis.compare import (
    GIB,
    IMPROVEMENT,
    REGRESSION,
    SAME,
    UNDECIDED,
    Comparison,
    PhaseChange,
    SizeChange,
)
from flatboot.common import units

_STYLES = {REGRESSION: "bold red", IMPROVEMENT: "green", SAME: "", UNDECIDED: "yellow"}
# Both clocks count nanoseconds: an instruction is a virtual one.
_PER_MS = 1e6
# A part of a change is worth a word if it makes up this share of it on the largest machine.
_WORTH = 0.05
_NAMED = 3
_LONG_MS = 100
# From here on a change is told as a multiple, not in per cent.
_MANY = 10
_HEADINGS = {"fixed": "fixed", "per_gib": "per GiB", "per_cpu": "per CPU"}


def sentence(comparison: Comparison) -> str:
    """Return the verdict in one sentence."""
    before, after = comparison.before, comparison.after
    if before == after:
        before, after = "A", "B"
    total = comparison.phases[0]
    whole = largest(total)
    if comparison.verdict == SAME:
        return (
            f"same: no change of {after} against {before} was found; one of"
            f" {whole.smallest / whole.before:.2%} of the whole boot would have been"
        )
    if comparison.verdict == UNDECIDED:
        return f"undecided: there are too few boots of {before} and {after} to find a change"
    changed = [phase for phase in comparison.phases[1:] if phase.verdict == comparison.verdict]
    changed.sort(key=_difference, reverse=True)
    if total.verdict == comparison.verdict or not changed:
        changed.insert(0, total)
    word = "slower" if comparison.verdict == REGRESSION else "faster"
    parts = "; ".join(describe(phase) for phase in changed[: _NAMED + 1])
    more = len(changed) - _NAMED - 1
    rest = f"; and {units.many(more, 'more phase')}" if more > 0 else ""
    return f"{comparison.verdict}: {after} boots {word} than {before}: {parts}{rest}"


def describe(phase: PhaseChange) -> str:
    """Return what became of a phase: how much, on which size, from which on, and per what."""
    size = largest(phase, phase.verdict)
    difference = size.after - size.before
    text = f"{phase.name} {_change(difference)} ms ({_share(size)}) on {title(size, phase.sizes)}"
    memories = sorted({one.memory_bytes for one in phase.sizes})
    if phase.from_bytes is not None and phase.from_bytes > memories[0]:
        text += f", seen from {units.binary_size(phase.from_bytes)} on"
    cpus = sorted({one.cpus for one in phase.sizes})
    if phase.from_cpus is not None and phase.from_cpus > cpus[0]:
        text += f", seen from {phase.from_cpus} CPUs on"
    if phase.verdict not in (REGRESSION, IMPROVEMENT) or len(phase.sizes) == 1:
        return text
    if phase.from_bytes == memories[-1] > memories[0]:
        # One size cannot tell what is fixed from what grows.
        return f"{text} ({_change(difference / (size.memory_bytes / GIB))} ms for each GiB of it)"
    parts = [
        f"{_change(value)} ms {_HEADINGS[term]}"
        for term, value, times in (
            ("per_gib", phase.per_gib, size.memory_bytes / GIB),
            ("per_cpu", phase.per_cpu, size.cpus),
            ("fixed", phase.fixed, 1),
        )
        if abs(value * times) > _WORTH * abs(difference)
    ]
    return f"{text} ({', '.join(parts)})" if parts else text


def _difference(phase: PhaseChange) -> float:
    size = largest(phase, phase.verdict)
    return abs(size.after - size.before)


def largest(phase: PhaseChange, verdict: str = "") -> SizeChange:
    """Return the largest size of machine, of those with *verdict* if one is given."""
    return [size for size in phase.sizes if verdict in ("", size.verdict)][-1]


def title(size: SizeChange, among: Sequence[SizeChange]) -> str:
    """Return *size* in as many words as tell it from the others."""
    words = units.binary_size(size.memory_bytes)
    if len({one.cpus for one in among}) > 1 or size.cpus > 1:
        words += f", {units.many(size.cpus, 'CPU')}"
    if len({one.nodes for one in among}) > 1 or size.nodes > 1:
        words += f", {units.many(size.nodes, 'node')}"
    return words


def tables(comparison: Comparison) -> list[Table]:
    """Return the tables of a comparison: phases, what they are made of, sizes where it matters."""
    total = comparison.phases[0]
    shown = [total, *(phase for phase in comparison.phases[1:] if phase.verdict != SAME)]
    made_of = [_fit_table(comparison)] if len(total.sizes) > 1 else []
    return [
        _phase_table(comparison),
        *made_of,
        *(_size_table(phase, comparison) for phase in shown),
    ]


def _phase_table(comparison: Comparison) -> Table:
    total = comparison.phases[0]
    table = _table(
        f"Phases on the largest machine, {title(largest(total), total.sizes)},"
        f" in {_unit(comparison)}",
        "phase",
        ("A", "change", "share", "from", "verdict"),
    )
    for phase in comparison.phases:
        size = largest(phase)
        table.add_row(
            phase.name,
            _ms(size.before),
            _change(size.after - size.before),
            _share(size),
            "" if phase.from_bytes is None else units.binary_size(phase.from_bytes),
            phase.verdict,
            style=_STYLES[phase.verdict],
            end_section=phase is total,
        )
    return table


def _fit_table(comparison: Comparison) -> Table:
    """Return what each phase is made of; terms that no size tells apart are left out."""
    sizes = comparison.phases[0].sizes
    varies = {
        "fixed": True,
        "per_gib": len({size.memory_bytes for size in sizes}) > 1,
        "per_cpu": len({size.cpus for size in sizes}) > 1,
    }
    terms = [term for term, shown in varies.items() if shown]
    table = _table(
        f"What each phase is made of, fitted over all machines, in {_unit(comparison)}",
        "phase",
        [f"{_HEADINGS[term]} {side}" for term in terms for side in "AB"],
    )
    for phase in comparison.phases:
        fitted = phase.before, phase.after
        cells = [_ms(getattr(fit, term)) for term in terms for fit in fitted]
        table.add_row(phase.name, *cells, end_section=phase is comparison.phases[0])
    return table


def _size_table(phase: PhaseChange, comparison: Comparison) -> Table:
    wall = comparison.clock == "wall"
    table = _table(
        f"{phase.name}, in {_unit(comparison)}",
        "machine",
        ("A", "B", "change", "share", "low", "high", "detectable", *["p"] * wall, "verdict"),
    )
    for size in phase.sizes:
        table.add_row(
            title(size, phase.sizes),
            _ms(size.before),
            _ms(size.after),
            _change(size.after - size.before),
            _share(size),
            _change(size.low),
            _change(size.high),
            _ms(size.smallest),
            *([] if size.p is None else [f"{size.p:.2g}"]),
            size.verdict,
            style=_STYLES[size.verdict],
        )
    return table


def _table(name: str, first: str, numbers: Sequence[str]) -> Table:
    table = Table(title=name, title_justify="left")
    table.add_column(first)
    for heading in numbers:
        table.add_column(heading, justify="left" if heading == "verdict" else "right")
    return table


def _unit(comparison: Comparison) -> str:
    exact = comparison.clock == "exact"
    return "virtual ms (1 ms is 1,000,000 instructions)" if exact else "ms"


def _ms(value: float) -> str:
    """Return *value* in ms, to the microsecond below a tenth of a second."""
    if not math.isfinite(value):
        return "unknown"
    ms = value / _PER_MS
    return f"{ms:,.3f}" if abs(ms) < _LONG_MS else f"{ms:,.1f}"


def _change(value: float) -> str:
    return f"{'+' * (value >= 0)}{_ms(value)}"


def _share(size: SizeChange) -> str:
    if not size.before:
        return "new"
    times = size.after / size.before
    return f"{times - 1:+.2%}" if times < _MANY else f"{times:,.0f} times"
