"""A boot as a timeline in the Chrome trace-event format, which Perfetto opens.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatboot import atomic
from flatboot.record import Record

_PROCESS = 1
_PHASES, _CALLS = 1, 2
_PER_MICROSECOND = 1000


def events(record: Record) -> list[dict[str, Any]]:
    """Return the trace events: phases on the first track, initcalls on the second.

    Time stamps and durations are microseconds: thousands of instructions on the exact clock.
    """
    machine = f"{record.kernel.flavour} {record.kernel.version}, {record.clock} clock"
    return [
        _name("process_name", _PHASES, machine),
        _name("thread_name", _PHASES, "phases"),
        _name("thread_name", _CALLS, "initcalls"),
        *(_span(phase.name, _PHASES, phase.start, phase.length) for phase in record.phases),
        *(_span(call.function, _CALLS, call.start, call.length) for call in record.calls),
    ]


def write(record: Record, path: Path) -> None:
    """Write the timeline of *record* to *path*, whole or not at all."""
    document = {
        "traceEvents": events(record),
        "displayTimeUnit": "ns",
        "otherData": {"clock": record.clock, "unit": record.unit, "cmdline": record.cmdline},
    }
    with atomic.new_file(path) as temporary:
        temporary.write_text(json.dumps(document) + "\n")


def _name(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _span(name: str, track: int, start: int, length: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": _PROCESS,
        "tid": track,
        "ts": start / _PER_MICROSECOND,
        "dur": length / _PER_MICROSECOND,
        "args": {"exact": length},
    }
