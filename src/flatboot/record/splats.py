"""Splats: what a kernel prints on its console when it finds itself in the wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: What each kind of splat looks like. A line is of the first kind that fits.
PATTERNS: Mapping[str, str] = {
    "kasan": r"(?:KASAN|KFENCE|KCSAN|KMSAN): ",
    "ubsan": r"UBSAN: ",
    "rcu": r"suspicious RCU usage|INFO: rcu|rcu_\w+ (?:self-)?detected .*stall",
    "context": r"[Ii]nvalid wait context|sleeping function called|scheduling while atomic",
    "lockdep": r"possible (?:circular|recursive|irq lock|deadlock)|inconsistent lock state"
    r"|lock order detected|safe -> .*unsafe lock|bad (?:un|contention )lock"
    r"|INFO: trying to register|held lock freed|turning off the locking correctness"
    r"|MAX_LOCK\w* too low|still has locks held|lock held when returning",
    "page": r"Bad page|page dumped because|bad: page|marked as zeroed but holds",
    "poison": r"(?:Redzone|Poison|Object padding|Left Redzone|Right Redzone) overwritten"
    r"|memory corruption on|pagealloc: |slab \w.*: (?:.*overwritten|.*corrupt|Freelist)"
    r"|list_(?:add|del) corruption|\b[Cc]orrupted\b",
    # Off at time 0, on the console or in /dev/kmsg, is what the config or a parameter asked for.
    "kmemleak": r"kmemleak: (?:[1-9]\d* new suspected|.*Cannot|Memory pool|Found object"
    r"|.*unknown object)"
    r"|(?<!\[    0\.000000\] )(?<!,0,-;)kmemleak: .*disabled",
    "reserved": r"Cannot free reserved memory",
    "allocation": r"page allocation (?:failure|stall)|Out of memory|invoked oom-killer",
    "stall": r"INFO: task .* blocked|soft lockup|[Hh]ard LOCKUP",
    "kunit": r"not ok \d|EXPECTATION FAILED|ASSERTION FAILED",
    "oops": r"Oops\b|Internal error:|general protection fault|double fault|invalid opcode"
    r"|[Uu]nable to handle |stack guard page|Kernel panic",
    "warning": r"WARNING: ",
    "bug": r"(?:kernel )?BUG[: ]",
    "tainted": r"Tainted: [A-Z]|Not tainted \d",
    "trace": r"Call [Tt]race:|cut here|end trace|Modules linked in:",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}
_ANY = re.compile("|".join(PATTERNS.values()))
#: A leak detector that is off from the beginning, where the clock is not at 0 then: RCU begins a
#: few lines later, once in a boot.
_LEAKS_UNWANTED = re.compile(
    r"kmemleak: .*disabled(?=\r?\n(?:.*\n){0,9}.*rcu: .*ierarchical RCU implementation)"
)
#: A race of mainline's at the end of a machine: the CPUs are told to stop while they still run, and
#: one that has not stopped wakes a task of one that has. Nothing but this, and only from there on.
_STOPPED_CPUS = re.compile(
    r"(?<=reboot: machine restart)\r?\n.*cut here.*\n.*Unexpected reschedule of offline CPU"
    r"(?:(?!.*cut here).*\n)*?(?:.*end trace.*|\Z)"
)


@dataclass(frozen=True)
class Splat:
    """A line that tells of a splat.

    Attributes:
        kind: the name of its pattern, such as "lockdep".
        line: its number in the text, from 1.
        text: the line.
    """

    kind: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return number, kind and text."""
        return f"{self.line}: {self.kind}: {self.text}"

    @property
    def told(self) -> str:
        """What it says in every boot: the text without times, addresses and counts."""
        return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", self.text)


def find(text: str) -> list[Splat]:
    """Return every line of *text* (a console, or dmesg) that belongs to a splat, in order.

    One splat is many lines (the warning, the trace, the modules); all that a pattern knows are
    returned, so that a splat whose first line is lost among other output is still found. A CPU
    that is stopped for a reboot before another has done with it is none.
    """
    text = _LEAKS_UNWANTED.sub("", text)
    text = _STOPPED_CPUS.sub(lambda race: "\n" * race[0].count("\n"), text)
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _ANY.search(line):
            kind = next(kind for kind, pattern in _PATTERNS.items() if pattern.search(line))
            found.append(Splat(kind, number, line.strip()))
    return found


def around(text: str, splat: Splat, before: int = 5, after: int = 60) -> str:
    """Return the lines of *text* around *splat*, for a report."""
    lines = text.splitlines()
    return "\n".join(lines[max(0, splat.line - 1 - before) : splat.line + after])
