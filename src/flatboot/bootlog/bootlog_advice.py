"""From an analysed boot log to advice: what would help, and what it would gain in this log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flatboot.bootlog.bootlog import Analysis
from flatboot.common import typed

_TABLE = Path(__file__).with_name("advice.toml")
_NS_PER_MS = 1_000_000
_KEPT_CPUS = 4
_MOST = 10


@dataclass(frozen=True)
class AdviceRule:
    """An entry of advice.toml, which says what each field means."""

    name: str
    origin: str
    text: str
    phase: str = ""
    without_phase: str = ""
    cause: str = ""
    took: str = ""
    initcall: str = ""
    line: str = ""
    only: str = ""
    unless: str = ""
    arch: str = ""
    from_cpus: int = 0
    from_version: str = ""
    before_version: str = ""
    at_least: float = 0.01
    factor: float | Literal["cpus_beyond_4"] = 1.0
    gains_nothing: bool = False


@dataclass(frozen=True)
class Advice:
    """What would help.

    Attributes:
        name: the parameter or feature.
        origin: "flatboot", "mainline" or "machine".
        text: why, and what to do.
        gain: ns that it would gain at most, or None if the log does not tell.
        cause: the name of the cause that it is for, or "".
    """

    name: str
    origin: str
    text: str
    gain: int | None
    cause: str = ""


#: The version of a kernel that a distribution keeps and adds to.
_DISTRIBUTION = re.compile(
    r"\.el\d|\.amzn|uek|\.fc\d|-generic|-default|-amd64|-cloud|-azure|-gcp|-aws"
)
RULES = typed.load(_TABLE, dict[str, tuple[AdviceRule, ...]])["advice"]


def advise(analysis: Analysis) -> list[Advice]:
    """Return the advice that applies: the largest gain first, the unknown last, ten at most."""
    found: list[Advice] = []
    whole = analysis.total or sum(call.length for call in analysis.initcalls)
    taken: set[str] = set()
    for rule in RULES:
        if not _applies(rule, analysis):
            continue
        for gain, function in _gains(rule, analysis, taken):
            if gain is not None and gain < max(rule.at_least * whole, _shortest(analysis)):
                continue
            taken.add(function)
            shown = None if gain is None or rule.gains_nothing else round(gain)
            text = rule.text.format(**_words(analysis, function))
            if rule.before_version and _DISTRIBUTION.search(analysis.facts.version):
                text += " A distribution's kernel may carry newer code under an older number."
            advice = Advice(rule.name, rule.origin, text, shown, rule.cause)
            _add(found, advice, apart=bool(function))
    # Of what gains as much, ours comes last: it is no answer for whom another kernel is none.
    return sorted(found, key=lambda item: (-(item.gain or 0), item.origin == "flatboot"))[:_MOST]


def _add(found: list[Advice], item: Advice, *, apart: bool) -> None:
    """Add *item*; what gains in two places is one piece of advice, unless it is kept *apart*."""
    for index, other in enumerate([] if apart else found):
        if other.name == item.name and item.gain is not None and other.gain is not None:
            longer = max(other, item, key=lambda each: each.gain or 0)
            found[index] = replace(longer, gain=other.gain + item.gain)
            return
    found.append(item)


def _applies(rule: AdviceRule, analysis: Analysis) -> bool:
    facts = analysis.facts
    version = _number(facts.version)
    return (
        (not rule.only or bool(re.search(rule.only, facts.cmdline)))
        and not (rule.unless and re.search(rule.unless, facts.cmdline))
        and rule.arch in ("", facts.arch)
        and (facts.cpus or 0) >= rule.from_cpus
        and not any(phase.name == rule.without_phase for phase in analysis.phases)
        and (not rule.from_version or (bool(version) and version >= _number(rule.from_version)))
        and (not rule.before_version or (bool(version) and version < _number(rule.before_version)))
    )


def _gains(
    rule: AdviceRule, analysis: Analysis, taken: set[str]
) -> Iterator[tuple[float | None, str]]:
    """Yield what *rule* gains, in ns (None: not known), and the initcall that it is about."""
    factor = _factor(rule, analysis)
    if rule.phase:
        lengths = [phase.length for phase in analysis.phases if phase.name == rule.phase]
        if lengths:
            yield factor * sum(lengths), ""
    elif rule.cause:
        lengths = [cause.length for cause in analysis.causes if cause.name == rule.cause]
        if lengths:
            yield min(factor * sum(lengths), analysis.total), ""
    elif rule.took:
        texts = (line.text for line in analysis.messages)
        took = [int(match["ms"]) for text in texts if (match := re.match(rule.took, text))]
        if took:
            yield factor * sum(took) * _NS_PER_MS, ""
    elif rule.initcall:
        for call in analysis.initcalls:
            if call.function not in taken and re.fullmatch(rule.initcall, call.function):
                yield factor * call.length, call.function
    elif any(re.match(rule.line, line.text) for line in analysis.messages):
        yield None, ""


def _shortest(analysis: Analysis) -> int:
    """Return below how many ns a time says nothing; initcalls tell theirs even without times."""
    return analysis.resolution_ns if analysis.total else 0


def _factor(rule: AdviceRule, analysis: Analysis) -> float:
    if rule.factor != "cpus_beyond_4":
        return rule.factor
    secondary = (analysis.facts.cpus or 1) - 1
    kept = min(_KEPT_CPUS - 1, secondary)
    return (secondary - kept) / secondary if secondary else 0.0


def _words(analysis: Analysis, function: str) -> dict[str, str]:
    return {
        "function": function,
        "cpus": str(analysis.facts.cpus or ""),
    }


def _number(version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else ()
