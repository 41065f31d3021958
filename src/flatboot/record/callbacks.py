"""CPU hotplug callbacks, from an ftrace text trace of the cpuhp events.

The trace is the file ``trace`` of tracefs, of a boot with ``trace_event=cpuhp:*``. The events:
include/trace/events/cpuhp.h in the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: The tracer's own callback: without the trace it would not run.
TRACERS_OWN = "trace_rb_cpu_prepare"
_EVENT = re.compile(
    r"^\s*.+-(?P<pid>\d+)\s.*?(?P<at>\d+(?:\.\d+)?): cpuhp_(?P<event>enter|multi_enter|exit): +"
    r"cpu: (?P<cpu>\d+) +(?:target|state): +-?\d+ +step: +(?P<step>-?\d+)"
    r"(?: \((?P<function>.+)\))?",
    re.MULTILINE,
)
_LOST = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]|entries-in-buffer/entries-written: (\d+)/(\d+)")


@dataclass(frozen=True)
class Callback:
    """One call of a CPU callback.

    Attributes:
        cpu: the CPU that was brought up.
        step: the number of its hotplug state.
        function: the callback.
        start: when it began.
        length: how long it took. Both are in the unit of the trace's clock: ticks with
            ``trace_clock=x86-tsc`` and other counters, else ns.
    """

    cpu: int
    step: int
    function: str
    start: float
    length: float


@dataclass(frozen=True)
class CallbackCost:
    """A callback over all CPUs: how often it ran, together and on average; and its longest."""

    step: int
    function: str
    calls: int
    total: float
    mean: float
    longest: float


def parse(text: str) -> list[Callback]:
    """Return the callbacks in *text*, a trace, in order of their beginning.

    A callback whose end or beginning the trace does not hold is left out.
    """
    running: dict[tuple[str, str, str], tuple[str, float]] = {}
    calls = []
    for match in _EVENT.finditer(text):
        key = (match["pid"], match["cpu"], match["step"])
        at = float(match["at"]) * (1e9 if "." in match["at"] else 1)
        if match["event"] != "exit":
            running[key] = (match["function"] or "unknown", at)
        elif key in running:
            function, start = running.pop(key)
            calls.append(
                Callback(int(match["cpu"]), int(match["step"]), function, start, at - start)
            )
    return sorted(calls, key=lambda call: call.start)


def unit(text: str) -> str:
    """Return what the clock of the trace *text* counts: "ns" or "ticks"."""
    match = _EVENT.search(text)
    return "ns" if match is None or "." in match["at"] else "ticks"


def lost(text: str) -> int:
    """Return how many events the trace *text* has lost."""
    count = 0
    for match in _LOST.finditer(text):
        count += int(match[1]) if match[1] else int(match[3]) - int(match[2])
    return count


def costs(calls: Sequence[Callback]) -> list[CallbackCost]:
    """Return what each callback cost, the most expensive first, without the tracer's own."""
    groups: dict[tuple[int, str], list[float]] = {}
    for call in calls:
        if call.function != TRACERS_OWN:
            groups.setdefault((call.step, call.function), []).append(call.length)
    found = [
        CallbackCost(
            step, function, len(lengths), sum(lengths), sum(lengths) / len(lengths), max(lengths)
        )
        for (step, function), lengths in groups.items()
    ]
    return sorted(found, key=lambda cost: -cost.total)
