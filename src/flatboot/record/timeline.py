"""A boot as a timeline in the Chrome trace-event format, which Perfetto opens.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatboot.common import atomic
from flatboot.record.record import Record

_PROCESS = 1
_PER_MICROSECOND = 1000
#: A name, where it begins and how long it is, in ns (on the exact clock: instructions).
Span = tuple[str, int, int]


def write(record: Record, path: Path) -> None:
    """Write the timeline of *record* to *path*: phases and initcalls; whole or not at all."""
    title = f"{record.kernel.flavour} {record.kernel.version}, {record.clock} clock"
    tracks = {
        "phases": [(phase.name, phase.start, phase.length) for phase in record.phases],
        "initcalls": [(call.function, call.start, call.length) for call in record.calls],
    }
    about = {"clock": record.clock, "unit": record.unit, "cmdline": record.cmdline}
    save(document(title, tracks, about), path)


def document(
    title: str, tracks: Mapping[str, Sequence[Span]], about: Mapping[str, str]
) -> dict[str, Any]:
    """Return a timeline: its *title*, named *tracks* from top to bottom, and facts *about* it.

    Time stamps and durations are microseconds: thousands of instructions on the exact clock.
    """
    events = [_name("process_name", 1, title)]
    for number, (name, spans) in enumerate(tracks.items(), start=1):
        events.append(_name("thread_name", number, name))
        events += [_span(*span, number) for span in spans]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": dict(about)}


def save(timeline: Mapping[str, Any], path: Path) -> None:
    """Write *timeline* to *path*, whole or not at all."""
    with atomic.new_file(path) as temporary:
        temporary.write_text(json.dumps(timeline) + "\n")


def _name(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _span(name: str, start: int, length: int, track: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": _PROCESS,
        "tid": track,
        "ts": start / _PER_MICROSECOND,
        "dur": length / _PER_MICROSECOND,
        "args": {"exact": length},
    }
