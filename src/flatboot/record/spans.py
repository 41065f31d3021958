"""What chosen calls cost a boot with several CPUs, working told from waiting, by a plugin of QEMU.

The plugin, plugin/spans.c, charges each instruction to the task that runs it, and to the innermost
of the measured calls that the task is in. Whose calls are measured is the table spans.toml. So the
parts add up to the instructions of the whole boot.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import typed
from flatboot.common.errors import FlatbootError
from flatboot.record import callbacks
from flatboot.record.marks import Symbols, without_clone
from flatboot.record.record import Span

#: The caller in the row of what no measured call holds, in the kernel and outside.
NOBODY = ""
KERNEL = "all other of the kernel"
FIRMWARE = "firmware"
#: The architectures whose calls the plugin knows.
ARCHES = ("x86_64",)
#: The caller of CPU callbacks, and the function that a new CPU begins with.
CALLBACKS = "cpuhp_invoke_callback"
STARTS = "start_secondary"
#: The table.
TABLE = Path(__file__).parent / "spans.toml"
_FIELDS = 9


@dataclass(frozen=True)
class Callers:
    """The table spans.toml.

    Attributes:
        kinds: of each function whose calls are measured, what they are.
        sleeping: the kinds whose calls sleep for want of work.
        each_cpu: the kinds whose calls are for one CPU, once for each that comes up.
        switch: the functions that switch tasks, of which a kernel has one.
        skipped: how the names of functions begin that are the tracer's.
    """

    kinds: dict[str, str]
    sleeping: frozenset[str]
    each_cpu: frozenset[str]
    switch: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    kind: str
    functions: tuple[str, ...]
    sleeps: bool = False
    each_cpu: bool = False


@dataclass(frozen=True)
class _CallersFile:
    switch: tuple[str, ...]
    skipped: tuple[str, ...]
    callers: tuple[_Row, ...]


@functools.cache
def table() -> Callers:
    """Return the table."""
    data = typed.load(TABLE, _CallersFile)
    return Callers(
        kinds={name: row.kind for row in data.callers for name in row.functions},
        sleeping=frozenset(row.kind for row in data.callers if row.sleeps),
        each_cpu=frozenset(row.kind for row in data.callers if row.each_cpu),
        switch=data.switch,
        skipped=data.skipped,
    )


def arguments(symbols: Symbols) -> tuple[str, ...]:
    """Return the plugin's arguments for the kernel with these *symbols*.

    Raises:
        FlatbootError: tasks cannot be told in it.
    """
    callers = table()
    switch = next((found for name in callers.switch if (found := symbols.bounds(name))), None)
    if switch is None:
        raise FlatbootError(
            f"the kernel has no {' or '.join(callers.switch)}, so tasks cannot be told apart"
        )
    called = [bounds for name in callers.kinds if (bounds := symbols.bounds(name))]
    ranges = [("switch", switch), *(("caller", bounds) for bounds in called)]
    return tuple(f"{word}={begin:#x}-{end:#x}" for word, (begin, end) in ranges)


def read(text: str, symbols: Symbols) -> list[Span]:
    """Return the spans in *text*, which the plugin wrote, those that cost most first.

    Raises:
        FlatbootError: it is cut, or the parts do not add up to the whole.
    """
    lines = [line.split() for line in text.splitlines()]
    heads = {words[0]: [int(word) for word in words[1:]] for words in lines[:3]}
    try:
        (whole,), (low,), (rest, spinning) = heads["all"], heads["low"], heads["rest"]
    except (KeyError, ValueError) as error:
        raise FlatbootError("QEMU's plugin wrote no counts of calls: boot again") from error
    made = [
        Span(NOBODY, KERNEL, 1, 1, 0, 0, rest - spinning, spinning),
        Span(NOBODY, FIRMWARE, 1, 1, 0, 0, low, 0),
        *(_span(words, symbols) for words in lines[3:] if len(words) == _FIELDS),
    ]
    parts = sum(span.working + span.spinning for span in made)
    if parts != whole:
        raise FlatbootError(
            f"the calls add up to {parts:,} instructions and the CPUs ran {whole:,}: boot again"
        )
    return sorted(made, key=lambda span: (-span.working, span.caller, span.function))


def _span(words: Sequence[str], symbols: Symbols) -> Span:
    caller, function = (without_clone(symbols.name(int(word, 16))) for word in words[:2])
    calls, total, work, spin, own, spinning, still = map(int, words[2:])
    waiting = total - (work - spin)
    return Span(caller, function, calls, still, total, waiting, own - spinning, spinning)


def with_steps(found: Sequence[Span], trace: str) -> list[Span]:
    """Return *found* with the steps of those CPU callbacks that *trace* names.

    Callbacks that a CPU runs before it is online (CPUHP_AP_*_STARTING) are in no trace.
    """
    steps = {call.function: call.step for call in callbacks.parse(trace)}
    return [
        dataclasses.replace(span, step=steps[span.function])
        if span.caller == CALLBACKS and span.function in steps
        else span
        for span in found
    ]


def cpus(found: Sequence[Span]) -> int:
    """Return how many CPUs were online at /init: the boot processor and those that started."""
    return 1 + max((span.calls for span in found if span.caller == STARTS), default=0)


def is_tracers(span: Span) -> bool:
    """Return whether the tracer did this, which would not run without it."""
    return span.function == callbacks.TRACERS_OWN or span.function.startswith(table().skipped)
