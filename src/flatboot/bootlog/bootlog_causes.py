"""From the lines of a boot to what it waited for: known causes, and waits that are alike."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flatboot.bootlog.bootlog_facts import Facts
from flatboot.bootlog.bootlog_lines import Line
from flatboot.common import typed, units

#: The name of the wait for a serial console, of which there are two signs.
SERIAL = "serial console"
Sure = Literal["certain", "likely"]
_NS_PER_MS = 1_000_000
#: A wait of a share of the boot that is worth a word.
_LEAST_SHARE = 0.005
#: Waits that differ by less than this are alike; shorter ones are alike by chance.
_ALIKE_SHARE, _ALIKE_NS = 0.01, 50 * _NS_PER_MS
#: What differs between the lines of two devices.
_NUMBERS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d\b|0x[0-9a-f]+|\d+", re.IGNORECASE)
#: What a port sends in a tenth of its rate of bits a second, and by how much a wait may miss it.
_RATES, _BITS, _NEAR = (9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600, 1500000), 10, 0.2
_AROUND = 17
_CONSOLE = re.compile(
    r"(?:printk: )?(?:legacy )?console \[((?:tty[A-Z]|ttymxc|uart|hvc)\w*)\] enabled"
)


@dataclass(frozen=True)
class Span:
    """Two lines between which a cause lies; see causes.toml."""

    begins: str = ""
    ends: str = ""


@dataclass(frozen=True)
class CauseRule:
    """An entry of causes.toml, which says what each field means."""

    name: str
    what: str
    sure: Sure
    spans: tuple[Span, ...]
    like: str = ""
    each: str = ""
    only: str = ""
    least_ms: int = 0


@dataclass(frozen=True)
class Cause:
    """What the boot waited for.

    Attributes:
        name: that of its rule; "" for waits that are only alike.
        what: what went on.
        sure: "certain" or "likely".
        like: what else would look the same, or "".
        start: when it began first, in ns.
        length: how long all of it took, in ns.
        devices: how many waited.
        line: the line that ended it first.
    """

    name: str
    what: str
    sure: Sure
    like: str
    start: int
    length: int
    devices: int
    line: str


RULES = typed.load(Path(__file__).with_name("causes.toml"), dict[str, tuple[CauseRule, ...]])[
    "causes"
]


def find(lines: Sequence[Line], facts: Facts, total: int, resolution_ns: int) -> list[Cause]:
    """Return what the boot of *lines* waited for, the longest first.

    Args:
        lines: up to the end of the boot.
        facts: what they tell of the machine.
        total: how long it took, in ns.
        resolution_ns: what is not longer than this says nothing.
    """
    claimed: list[tuple[int, int]] = []
    found = []
    least = max(round(_LEAST_SHARE * total), resolution_ns)
    console = _replayed(lines)
    if console is not None:
        found.append(console)
        claimed.append((console.start, console.start + console.length))
    for rule in RULES:
        if rule.only and not re.search(rule.only, facts.cmdline):
            continue
        pieces = [piece for span in rule.spans for piece in _pieces(span, lines)]
        pieces = _unclaimed(
            [p for p in pieces if p[1] - p[0] >= rule.least_ms * _NS_PER_MS], claimed
        )
        if not pieces or sum(stop - start for start, stop, _ in pieces) <= least:
            continue
        found.append(_cause(rule, pieces))
    alike = [cause for cause in _alike(lines, claimed) if cause.length > least]
    return sorted([*found, *alike], key=lambda cause: -cause.length)


def _cause(rule: CauseRule, pieces: Sequence[tuple[int, int, str]]) -> Cause:
    names = {match[1] for *_, line in pieces if rule.each and (match := re.match(rule.each, line))}
    return Cause(
        name=rule.name,
        what=rule.what,
        sure=rule.sure,
        like=rule.like,
        start=min(start for start, _, _ in pieces),
        length=sum(stop - start for start, stop, _ in pieces),
        devices=max(len(names), 1),
        line=pieces[0][2],
    )


def _pieces(span: Span, lines: Sequence[Line]) -> list[tuple[int, int, str]]:
    """Return where *span* lies: its beginning and end, in ns, and the line that ends it."""
    begins, ends = (
        re.compile(pattern) if pattern else None for pattern in (span.begins, span.ends)
    )
    found = []
    opened: int | None = None
    for index, line in enumerate(lines):
        if begins is None:
            if index and ends is not None and ends.match(line.text):
                found.append((lines[index - 1].at or 0, line.at or 0, line.text))
        elif opened is not None and (ends is None or ends.match(line.text)):
            found.append((opened, line.at or 0, line.text))
            opened = None
        if begins is not None and opened is None and begins.match(line.text):
            opened = line.at or 0
    return [piece for piece in found if piece[1] > piece[0]]


def _unclaimed(
    pieces: Sequence[tuple[int, int, str]], claimed: list[tuple[int, int]]
) -> list[tuple[int, int, str]]:
    """Return those of *pieces* that no other cause has, and claim them."""
    free = []
    for start, stop, line in pieces:
        if all(stop <= other or start >= end for other, end in claimed):
            free.append((start, stop, line))
            claimed.append((start, stop))
    return free


def _alike(lines: Sequence[Line], claimed: Sequence[tuple[int, int]]) -> list[Cause]:
    """Return waits that end in lines of one shape and are equally long, added up."""
    groups: dict[str, list[tuple[int, int, str]]] = {}
    for before, line in itertools.pairwise(lines):
        start, stop = before.at or 0, line.at or 0
        if stop - start >= _ALIKE_NS and all(stop <= at or start >= end for at, end in claimed):
            shape = _NUMBERS.sub("#", line.text)
            groups.setdefault(shape, []).append((start, stop, line.text))
    found = []
    for pieces in groups.values():
        lengths = [stop - start for start, stop, _ in pieces]
        if len(pieces) > 1 and max(lengths) - min(lengths) <= _ALIKE_SHARE * max(lengths):
            each = units.duration(lengths[0])
            found.append(
                Cause(
                    name="",
                    what=f"{len(pieces)} waits of {each} before lines alike",
                    sure="certain",
                    like="",
                    start=pieces[0][0],
                    length=sum(lengths),
                    devices=len(pieces),
                    line=pieces[0][2],
                )
            )
    return found


def _replayed(lines: Sequence[Line]) -> Cause | None:
    """Return the wait for a serial console that prints all that came before it began.

    The time to the line that says it is enabled must be that of so many characters at a usual rate.
    """
    characters = 0
    for before, line in itertools.pairwise(lines):
        characters += len(before.text) + _AROUND
        match = _CONSOLE.match(line.text)
        length = (line.at or 0) - (before.at or 0)
        if match and length >= _ALIKE_NS:
            rate = min(_RATES, key=lambda baud: abs(characters * _BITS * 1e9 / baud - length))
            if abs(characters * _BITS * 1e9 / rate - length) <= _NEAR * length:
                what = f"{match[1]} prints the {characters:,} characters before it, at {rate} baud"
                return Cause(SERIAL, what, "certain", "", before.at or 0, length, 1, line.text)
    return None
