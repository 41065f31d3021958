"""An analysed boot log in other ways: in three lines, by boots, line by line, against another."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from flatboot.bootlog.bootlog import Analysis, Gap
from flatboot.bootlog.bootlog_advice import Advice
from flatboot.bootlog.bootlog_boots import NoBoot
from flatboot.bootlog.bootlog_causes import Cause
from flatboot.bootlog.bootlog_facts import Stage
from flatboot.bootlog.bootlog_way import WholeWay
from flatboot.bootlog.log_gap import WiderGap
from flatboot.common import units
from flatboot.show import bootlog_tables

_MOST = 20
_MOST_UNITS = 10
#: Who printed a line: what stands before the first colon, a driver with its device.
_WHO = re.compile(r"([A-Za-z][\w.-]*(?: [\w:.-]+)?): ")
_UNKNOWN = "not known"
_SOMEBODY = "(no name)"


def terse(analysis: Analysis, advice: Sequence[Advice]) -> list[str]:
    """Return where the boot went, why, and what to do, a line each."""
    if analysis.troubles:
        worst = analysis.troubles[0]
        where = f"at {units.duration(worst.at)}"
        return _three(
            where, f"{worst.what}: {worst.line}", "report what the log says from there on"
        )
    match bootlog_tables.leading(analysis):
        case Stage() as stage:
            return _three(
                f"{units.duration(stage.length)} of"
                f" {units.duration(bootlog_tables.whole_way(analysis))} in the"
                f" {bootlog_tables.AFTER_KERNEL[stage.name]}",
                f"it says so itself; the kernel's part is {units.duration(analysis.total)}",
                bootlog_tables.ASK,
            )
        case Cause() as cause:
            remedy = bootlog_tables.remedy(cause, advice)
            where = _where(cause.length, analysis, cause.after)
            return _three(where, bootlog_tables.sure(cause), remedy.name if remedy else _UNKNOWN)
        case Gap() as gap:
            where, why = _where(gap.length, analysis, gap.before[-1]), f"until: {gap.after[0]}"
            return _three(where, f"{_UNKNOWN}, {why}", _best(advice))
    return _three("nowhere for long", "no gap stands out", _best(advice))


def _best(advice: Sequence[Advice]) -> str:
    """Return what helps most where no known cause leads."""
    return next((item.name for item in advice if not item.cause), _UNKNOWN)


def _three(where: str, why: str, to_do: str) -> list[str]:
    return [f"where: {where}", f"why: {why}", f"do: {to_do}"]


def _where(length: int, analysis: Analysis, after: str) -> str:
    share = f"{length / analysis.total:.0%} of {units.duration(analysis.total)}"
    return f"{units.duration(length)} ({share}){f', after: {after.strip()}' * bool(after)}"


def way(known: WholeWay) -> Iterator[Table]:
    """Yield the units of systemd that took longest, and what the last of them waited for."""
    if known.slowest:
        table = Table(title="Slowest units of systemd", title_justify="left")
        table.add_column("unit", overflow="fold")
        table.add_column("takes", justify="right")
        for unit in known.slowest[:_MOST_UNITS]:
            table.add_row(Text(unit.name), units.duration(unit.length))
        yield table
    if known.chain:
        table = Table(title="What the last unit waited for", title_justify="left")
        table.add_column("unit", overflow="fold")
        for heading in ("begins", "takes"):
            table.add_column(heading, justify="right")
        for unit in known.chain[:_MOST]:
            table.add_row(
                Text(unit.name), units.duration(unit.at or 0), units.duration(unit.length)
            )
        yield table


def boots(found: Sequence[Analysis | NoBoot]) -> Table:
    """Return the boots of a log, a row each."""
    table = Table(title=units.many(len(found), "boot"), title_justify="left")
    for heading, right in (("boot", True), ("kernel", False), ("takes", True), ("longest", False)):
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for number, item in enumerate(found, 1):
        if isinstance(item, NoBoot):
            table.add_row(str(number), "", "", Text(str(item), style="dim"))
            continue
        start = "" if item.from_start else " (no start)"
        table.add_row(
            str(number),
            f"{item.facts.version}{start}",
            units.duration(item.total) if item.total else "",
            Text(_longest(item)),
        )
    return table


def _longest(analysis: Analysis) -> str:
    if analysis.troubles:
        return analysis.troubles[0].what
    match bootlog_tables.leading(analysis):
        case Stage() as stage:
            return f"{units.duration(stage.length)}: {bootlog_tables.AFTER_KERNEL[stage.name]}"
        case Cause() as cause:
            return f"{units.duration(cause.length)}: {cause.what}"
        case Gap() as gap:
            return f"{units.duration(gap.length)} before {gap.after[0]}"
    return ""


def annotated(analysis: Analysis, over_ns: int) -> Iterator[RenderableType]:
    """Yield each message with its time and that since the one before it, those over *over_ns* only.

    A table of who printed them, with the time before their lines, comes last.
    """
    spent: dict[str, list[int]] = {}
    for before, line in itertools.pairwise([analysis.messages[0], *analysis.messages]):
        delta = max((line.at or 0) - (before.at or 0), 0)
        if delta < over_ns:
            continue
        style = "bold" if delta >= max(over_ns, 1) and over_ns else ""
        yield Text(f"{(line.at or 0) / 1e9:12.6f} {delta / 1e9:+12.6f}  {line.text}", style=style)
        match = _WHO.match(line.text)
        spent.setdefault(match[1] if match else _SOMEBODY, []).append(delta)
    table = Table(title="Time before the lines of", title_justify="left")
    table.add_column("device or driver", overflow="fold")
    for heading in ("lines", "together", "longest"):
        table.add_column(heading, justify="right")
    for who, deltas in sorted(spent.items(), key=lambda item: -sum(item[1]))[:_MOST]:
        table.add_row(
            Text(who), str(len(deltas)), units.duration(sum(deltas)), units.duration(max(deltas))
        )
    if spent:
        yield Text("")
        yield table


def against(old: Analysis, new: Analysis, gaps: Sequence[WiderGap]) -> Iterator[RenderableType]:
    """Yield what *new* takes longer for than *old*: on the whole, by phase, and line by line."""
    grown = new.total - old.total
    word = "longer" if grown >= 0 else "less"
    text = Text(units.duration(abs(grown)), style="bold")
    whole = f"{units.duration(old.total)} to {units.duration(new.total)}"
    text.append(f" {word}: {whole}.\n".replace("\\\n", "\n"), "not bold")
    if gaps and gaps[0].growth > 0:
        first = gaps[0]
        text.append(
            f"Most of it: {units.duration(round(first.growth * 1e9))}, between\n", "not bold"
        )
        text.append(f"  {first.first}\n  {first.then}\n", "not bold")
    yield text
    table = Table(title="By phase", title_justify="left")
    table.add_column("phase")
    for heading in ("first", "second", "grew by"):
        table.add_column(heading, justify="right")
    lengths = [_by_phase(each) for each in (old, new)]
    for name in dict.fromkeys([*lengths[0], *lengths[1]]):
        before, after = (each.get(name, 0) for each in lengths)
        table.add_row(name, units.duration(before), units.duration(after), _signed(after - before))
    yield table
    lines = Table(title="Gaps that grew", title_justify="left", show_lines=True)
    for heading in ("first", "second", "grew by"):
        lines.add_column(heading, justify="right")
    lines.add_column("between", overflow="fold")
    for gap in gaps[:_MOST]:
        times = (round(seconds * 1e9) for seconds in (gap.before, gap.after))
        lines.add_row(
            *map(units.duration, times),
            _signed(round(gap.growth * 1e9)),
            Text(f"{gap.first}\n{gap.then}"),
        )
    if gaps:
        yield lines


def _by_phase(analysis: Analysis) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for phase in analysis.phases:
        lengths[phase.name] = lengths.get(phase.name, 0) + phase.length
    return lengths


def _signed(length: int) -> str:
    return f"{'+' if length >= 0 else '-'}{units.duration(abs(length))}"
