"""From marks to phases: where the time of one boot went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flatboot.record.marks import Hit, MarkSpec
from flatboot.record.record import Call, Phase

FIRMWARE = "firmware"
UNATTRIBUTED = "unattributed"
IDLE = "idle"


@dataclass(frozen=True)
class Breakdown:
    """Where a boot's time went.

    Attributes:
        phases: in order of time, without gaps, adding up to the whole.
        calls: every initcall.
        notes: sentences on what could not be attributed, and why.
    """

    phases: list[Phase]
    calls: list[Call]
    notes: list[str]


def breakdown(
    specs: Sequence[MarkSpec],
    hits: Sequence[Hit],
    busy: int,
    total: int,
    rest: str = IDLE,
) -> Breakdown:
    """Divide a boot into its phases.

    A mark that was never hit (the kernel has no such function, or it was inlined) leaves its phase
    without a beginning: that and the phase before, whose end it is, become unattributed.

    Args:
        specs: the marks table.
        hits: the marks in order of time.
        busy: the moment of /init on the clock of the hits.
        total: the moment of /init on the clock of the guest, at least *busy*.
        rest: the phase for what *total* is more; where the clock of the hits counts instructions,
            that is time in which no CPU had work.
    """
    seen = {hit.spec for hit in hits}
    lost = [spec for spec in specs if spec not in seen and not spec.calls]
    vague = _without_bounds(specs, lost)
    segments: list[Phase] = []
    name, start = FIRMWARE, 0
    base = FIRMWARE

    def turn(to: str, at: int) -> None:
        nonlocal name, start
        shown = UNATTRIBUTED if name in vague else name
        if at > start:
            if segments and segments[-1].name == shown:
                last = segments.pop()
                segments.append(Phase(shown, last.start, at - last.start))
            else:
                segments.append(Phase(shown, start, at - start))
        name, start = to, at

    for hit in hits:
        if hit.spec.begins and not hit.leaves:
            base = hit.spec.begins
            turn(base, hit.at)
        elif hit.spec.during and not hit.leaves:
            turn(hit.spec.during, hit.at)
        elif hit.spec.during:
            base = hit.spec.then or base
            turn(base, hit.at)
    turn(rest, busy)
    turn(UNATTRIBUTED, total)
    return Breakdown(segments, _calls(hits), _notes(lost, vague))


def _notes(lost: Sequence[MarkSpec], vague: set[str]) -> list[str]:
    if not lost:
        return []
    functions = ", ".join(" or ".join(spec.functions) for spec in lost)
    return [
        f"the kernel never passed {functions}, so these count as {UNATTRIBUTED}:"
        f" {', '.join(sorted(vague - {UNATTRIBUTED}))}"
    ]


def _without_bounds(specs: Sequence[MarkSpec], lost: Sequence[MarkSpec]) -> set[str]:
    """Return the phases that lack a beginning or an end because the marks *lost* are missing."""
    vague: set[str] = set()
    before = FIRMWARE
    for spec in specs:
        begins = spec.begins or spec.then
        if spec in lost:
            vague |= {phase for phase in (spec.during, spec.begins) if phase}
            if begins:
                vague.add(before)
        if begins:
            before = begins
    return vague


def _calls(hits: Sequence[Hit]) -> list[Call]:
    open_calls: list[Hit] = []
    calls: list[Call] = []
    for hit in hits:
        if not hit.spec.calls:
            continue
        if not hit.leaves:
            open_calls.append(hit)
        elif open_calls:
            entered = open_calls.pop()
            calls.append(Call(entered.callee, entered.at, hit.at - entered.at))
    return sorted(calls, key=lambda call: call.start)


def by_name(phases: Sequence[Phase]) -> dict[str, int]:
    """Return the length of each phase, all its parts together, in order of first appearance."""
    lengths: dict[str, int] = {}
    for phase in phases:
        lengths[phase.name] = lengths.get(phase.name, 0) + phase.length
    return lengths
