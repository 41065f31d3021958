"""What a bisection says: the ends, each step, the commit, its cost and where the log shows it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from flatboot.analysis.compare import TOTAL, PhaseChange, SizeChange
from flatboot.campaign.bisect import Choice, CommitCost, Culprit, Trial
from flatboot.campaign.bisect_state import State
from flatboot.campaign.git_bisect import SKIP
from flatboot.common import units

_INSTRUCTIONS_PER_MS = 1e6


def change_table(title: str, phases: Sequence[PhaseChange], before: str, after: str) -> Table:
    """Return what *phases* cost in instructions on each machine, *before* and *after*."""
    table = Table(title=title, title_justify="left")
    table.add_column("phase")
    for column in ("memory", "CPUs", before, after, "change"):
        table.add_column(column, justify="right")
    for phase in phases:
        for index, size in enumerate(phase.sizes):
            table.add_row(
                phase.name if index == 0 else "",
                units.binary_size(size.memory_bytes),
                str(size.cpus),
                units.count(size.before),
                units.count(size.after),
                _change(size),
                end_section=size is phase.sizes[-1],
            )
    return table


def chosen(phases: Sequence[PhaseChange], name: str) -> list[PhaseChange]:
    """Return the whole boot and the phase *name* of *phases*."""
    return [phase for phase in phases if phase.name in (TOTAL, name)]


def choice_line(choice: Choice) -> str:
    """Return what tells good from bad, as a sentence."""
    return (
        f"a commit is bad if {choice.phase} takes over {units.count(choice.limit)} instructions on"
        f" {choice.machine.title} (good end {units.count(choice.good)}, bad end"
        f" {units.count(choice.bad)})"
    )


def step_line(step: Trial, state: State) -> str:
    """Return a step as a line; of one that was skipped also why, and where the log is."""
    if step.cost is None:
        failure = state.failure(step.commit.hash)
        return (
            f"{step.commit.title}: {failure}, skipped; the end of the log is"
            f" {state.log_file(step.commit.hash)}"
        )
    return (
        f"{step.commit.title}: {step.verdict}, {units.count(step.cost)} instructions,"
        f" {step.seconds:.0f} s"
    )


def step_table(steps: Sequence[Trial]) -> Table:
    """Return the steps: commit, verdict, cost, seconds."""
    table = Table(title="Commits that were tried", title_justify="left")
    table.add_column("commit")
    table.add_column("verdict")
    for column in ("instructions", "seconds"):
        table.add_column(column, justify="right")
    for step in steps:
        cost = "not measured" if step.cost is None else units.count(step.cost)
        verdict = "skipped" if step.verdict == SKIP else step.verdict
        table.add_row(Text(step.commit.title), verdict, cost, f"{step.seconds:.0f}")
    return table


def verdict(found: Culprit) -> Text:
    """Return the first bad commit, or all that may be it."""
    lines = ["The first bad commit:"]
    if len(found.candidates) > 1:
        lines = ["The first bad commit is one of these; the skipped ones were not measured:"]
    for commit in found.candidates:
        lines += [
            f"  {commit.hash}",
            f"    {commit.subject}",
            f"    {commit.author}, {commit.date}",
        ]
    return Text("\n".join(lines))


def cost_lines(cost: CommitCost) -> Text:
    """Return what the commit costs by memory and CPUs, and the gap in the log."""
    both = [cost.change] if cost.change.name == TOTAL else [cost.change, cost.total]
    lines = [f"It costs {_by_size(change)} ({change.name})." for change in both]
    if cost.gap is not None:
        gap = cost.gap
        size = units.binary_size(cost.total.sizes[-1].memory_bytes)
        lines += [
            f"In the log of {size}, {_ms(gap.after)} lie between these lines, in place of"
            f" {_ms(gap.before)}:",
            f"  {gap.first}",
            f"  {gap.then}",
        ]
    return Text("\n".join(lines))


def _by_size(change: PhaseChange) -> str:
    parts = [
        f"{_instructions(amount)} for each {what}"
        for amount, what in ((change.per_gib, "GiB"), (change.per_cpu, "CPU"))
        if amount
    ]
    if not parts:
        return _instructions(max(size.after - size.before for size in change.sizes))
    since = ""
    if change.from_bytes is not None and len(change.sizes) > 1:
        since = f", from {units.binary_size(change.from_bytes)} on"
    return " and ".join(parts) + since


def _change(size: SizeChange) -> str:
    change = size.after - size.before
    share = f" ({change / size.before:+.1%})" if size.before else ""
    return f"{'+' if change >= 0 else ''}{units.count(change)}{share}"


def _instructions(amount: float) -> str:
    return f"{units.count(amount)} instructions ({amount / _INSTRUCTIONS_PER_MS:.3g} ms)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
