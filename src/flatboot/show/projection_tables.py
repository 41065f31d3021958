"""A projection for people: the answer, what it takes for granted, the check, published rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from flatboot.analysis.projection import (
    Chosen,
    Estimate,
    FittedKernel,
    MachineSize,
    Projection,
    every,
)
from flatboot.analysis.projection_rules import Row, Rule, Term, Way
from flatboot.common import units
from flatboot.show.report_tables import add, table

#: How many parts of the check are shown, those that are furthest off.
_WORST = 6
#: How many parts are shown of what a way costs.
_DEAREST = 6
_ALL = "all"
_FIGURES: dict[str, Callable[[float], str]] = {
    "instructions a second": lambda value: f"{value / 1e9:g} G/s",
    "s": lambda value: f"{value * 1e6:.3g} us",
    "share": lambda value: f"{value:.0%}",
}


def answer(found: Projection, machine: MachineSize) -> Text:
    """Return how long *machine* takes by its first way and by the quickest one, as a sentence."""
    whole = {
        way.name: found.seconds(way, machine, every) for way in found.rules.ways if not way.online
    }
    first = next(iter(whole))
    quickest = min(whole, key=lambda name: whole[name].value)
    parts = [
        f"{whole[name].value:.2f} s ({whole[name].low:.2f} to {whole[name].high:.2f}) with {name}"
        for name in dict.fromkeys((first, quickest))
    ]
    return Text(f"Bringing up {_machine(machine)} takes {', '.join(parts)}.")


def terms(found: Projection) -> Table:
    """Return the terms that the exact clock does not see: value, range, where it is from."""
    made = table("Terms that the exact clock does not see", ["term", "what"], ["value", "range"])
    made.add_column("source")
    for name, term in found.rules.terms.items():
        figure = _FIGURES[term.unit]
        low, high = (figure(end) for end in found.range(name))
        cells = (figure(found.values[name]), f"{low} to {high}")
        add(made, name, term.what, *cells, _source(term))
    return made


def assumed(found: Projection) -> Table:
    """Return what is taken for granted without a number."""
    made = table("Taken for granted", ["what", "how"], [])
    for what, text in found.rules.assumed.items():
        add(made, what, text)
    return made


def parts(found: Projection) -> Table:
    """Return who runs which part, and what may run at the same time."""
    made = table("Who runs what", ["parts", "phase", "runs", "by", "a call takes", "why"], [])
    made.columns[0].overflow = "fold"
    for rule in found.rules.parts:
        add(made, _parts(rule), rule.phase, _runs(rule), rule.over, _takes(rule), rule.reason)
    return made


def check(found: Projection) -> Table:
    """Return what is projected for the boots that were held out, and what they cost."""
    kernels = found.kernels
    held_out = ", ".join(dict.fromkeys(str(kernel.held_out) for kernel in kernels.values()))
    made = table(
        f"Check on {held_out} CPUs, which the fit did not see: instructions",
        ["kernel", "part", "what"],
        ["projected", "measured", "ratio"],
    )
    made.caption = (
        f"fitted to {'; '.join(dict.fromkeys(map(_fitted, kernels.values())))} CPUs;"
        " parts: those furthest off, of those that boot waits for"
    )
    for flavour in kernels:
        of = found.check(flavour)
        whole = [sum(figures) for figures in zip(*of.values(), strict=True)]
        add(made, flavour, _ALL, "", *_checked(whole[0], whole[1]))
        worst = sorted(of, key=lambda part: -abs(of[part][0] - of[part][1]))[:_WORST]
        for part in worst:
            add(made, "", part.function, part.kind, *_checked(*of[part]))
        made.add_section()
    return made


def ways(found: Projection, machine: MachineSize) -> Table:
    """Return the seconds of each phase of *machine* by the way that it boots."""
    phases = found.rules.phases
    title = f"{_machine(machine)}: seconds, and their range"
    made = table(title, ["way"], [*phases, _ALL])
    for way, where in _boots(found, machine):
        chosen = [*(_in_phase(phase) for phase in phases), every]
        cells = (_range(found.seconds(way, where, one)) for one in chosen)
        name = way.name if where == machine else f"{way.name}, {units.many(where.cpus, 'CPU')}"
        add(made, name, *cells)
    return made


def dearest(found: Projection, machine: MachineSize) -> Table:
    """Return the parts that cost each way most on *machine*."""
    made = table(f"{_machine(machine)}: the dearest parts", ["way", "part", "what"], ["seconds"])
    for way in found.rules.ways:
        for index, (part, seconds) in enumerate(found.by_part(way, machine).items()):
            if index < _DEAREST:
                name = "" if index else way.name
                add(made, name, part.function, part.kind, f"{seconds:.2f}")
        made.add_section()
    return made


def published(found: Projection, rows: tuple[Row, ...]) -> Table:
    """Return each published row beside the projections of the kernels that it may be of."""
    made = table(
        "Published figures, before and after the fixes, beside their projection: seconds",
        ["row", "way"],
        ["CPUs", "nodes", "published", "projected", "ratio"],
    )
    made.add_column("which is")
    made.caption = "fitted: a term follows from the row; partly: from a row that is part of it"
    for row, way in _comparable(found, rows):
        estimate, figure = found.row(row, way), row.seconds(way.published)
        ratio = f"{estimate.value / figure:.2f}" if estimate and figure else ""
        projected = _range(estimate) if estimate else ""
        machine = (str(row.cpus), str(row.nodes))
        cells = (f"{way.published} {figure:g}", projected, ratio, _told(found, row))
        add(made, row.name, way.name, *machine, *cells)
    return made


def verdicts(found: Projection, machine: MachineSize) -> Table:
    """Return each ratio that is asked for, as projected, and whether it is met."""
    made = table(f"{_machine(machine)}: what is asked for", ["what"], ["ratio", "at most"])
    made.add_column("which is")
    made.caption = (
        "bring-up: what is done for each CPU, in SMP init and in callbacks that initcalls set up;"
        " open: the range holds what is asked for"
    )
    for verdict in found.verdicts(machine):
        add(made, verdict.what, _range(verdict.ratio), f"{verdict.asked:g}", verdict.word)
    return made


def document(found: Projection, machine: MachineSize, rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the projection as plain data; times in seconds."""
    return {
        "machine": dataclasses.asdict(machine),
        "terms": {
            name: {
                "value": found.values[name],
                "range": found.range(name),
                "unit": term.unit,
                "source": _source(term),
            }
            for name, term in found.rules.terms.items()
        },
        "assumed": found.rules.assumed,
        "parts": [dataclasses.asdict(rule) for rule in found.rules.parts],
        "check": {
            flavour: [
                {**dataclasses.asdict(part), "projected": of[0], "measured": of[1]}
                for part, of in found.check(flavour).items()
            ]
            for flavour in found.kernels
        },
        "ways": [
            {
                "way": way.name,
                **dataclasses.asdict(where),
                "phases": {
                    phase: dataclasses.asdict(found.seconds(way, where, _in_phase(phase)))
                    for phase in found.rules.phases
                },
                _ALL: dataclasses.asdict(found.seconds(way, where, every)),
            }
            for way, where in _boots(found, machine)
        ],
        "published": [
            {
                **dataclasses.asdict(row),
                "way": way.name,
                "projected": dataclasses.asdict(estimate) if estimate else None,
                "which is": _told(found, row),
            }
            for row, way in _comparable(found, rows)
            for estimate in [found.row(row, way)]
        ],
        "verdicts": [
            {**dataclasses.asdict(verdict), "word": verdict.word}
            for verdict in found.verdicts(machine)
        ],
    }


def _comparable(found: Projection, rows: tuple[Row, ...]) -> list[tuple[Row, Way]]:
    """Return each row with each way that one of its figures is of."""
    return [
        (row, way)
        for row in rows
        for way in found.rules.ways
        if row.seconds(way.published) is not None
    ]


def _boots(found: Projection, machine: MachineSize) -> list[tuple[Way, MachineSize]]:
    """Return each way on *machine*, and behind one with few CPUs the machine that has no more."""
    pairs = []
    for way in found.rules.ways:
        pairs.append((way, machine))
        if way.online:
            pairs.append((way, MachineSize(way.online, 1)))
    return pairs


def _in_phase(phase: str) -> Chosen:
    return lambda part, rule: rule.phase == phase


def _range(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _checked(projected: float, measured: float) -> tuple[str, str, str]:
    ratio = f"{projected / measured:.2f}" if measured else ""
    return f"{projected:,.0f}", f"{measured:,.0f}", ratio


def _machine(machine: MachineSize) -> str:
    return f"{units.many(machine.cpus, 'CPU')} on {units.many(machine.nodes, 'node')}"


def _fitted(kernel: FittedKernel) -> str:
    return ", ".join(map(str, kernel.fitted))


def _source(term: Term) -> str:
    return f"fitted to the published row {term.row}: {term.source}" if term.row else term.source


def _told(found: Projection, row: Row) -> str:
    """Return whether the projection of *row* tells anything."""
    if not row.here:
        return "not measured here"
    if row.name in found.fitted:
        return "fitted"
    inside = (function for other in found.fitted.values() for function in other.functions)
    return "partly fitted" if any(found.has(row, function) for function in inside) else "predicted"


def _parts(rule: Rule) -> str:
    if rule.functions:
        return ", ".join(rule.functions)
    return f"every other {rule.kind}" if rule.kind else "what no part holds"


def _runs(rule: Rule) -> str:
    """Return when it runs, and what may overlap."""
    marks = {"parallel": rule.parallel, "spread": rule.spread, "once a group": rule.grouped}
    return ", ".join([rule.runs, *(mark for mark, is_so in marks.items() if is_so)])


def _takes(rule: Rule) -> str:
    words = ("handshake", "errand", "turn", "exit")
    counts = (rule.handshakes, rule.errands, rule.turns, rule.exits)
    return ", ".join(f"{n:g} {word}" for n, word in zip(counts, words, strict=True) if n)
