"""From the lines of a boot to what it waited for: known causes, and waits that are alike."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flatboot.bootlog import bootlog_facts
from flatboot.bootlog.bootlog_facts import Facts, SerialConsole
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
#: Usual rates of a port in bits a second, and by what share a wait may miss them.
_RATES, _NEAR = (9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600, 1500000), 0.2
_CONSOLE = re.compile(
    r"(?:printk: )?(?:legacy )?console \[((?:tty[A-Z]|ttymxc|uart|hvc)\w*)\] enabled"
)


@dataclass(frozen=True)
class NamedLines:
    """Two lines between which a cause lies; see causes.toml."""

    begins: re.Pattern[str] | None = None
    ends: re.Pattern[str] | None = None


@dataclass(frozen=True)
class CauseRule:
    """An entry of causes.toml, which says what each field means."""

    name: str
    what: str
    sure: Sure
    spans: tuple[NamedLines, ...]
    like: str = ""
    each: str = ""
    only: str = ""
    least_ms: int = 0
    later: bool = False


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
        after: the line behind which the longest of it begins, or "".
        until: the line that ends it, or "".
    """

    name: str
    what: str
    sure: Sure
    like: str
    start: int
    length: int
    devices: int
    after: str
    until: str


@dataclass(frozen=True)
class _Piece:
    """A time between two lines, in ns."""

    start: int
    stop: int
    after: str
    until: str

    @property
    def length(self) -> int:
        return self.stop - self.start


RULES = typed.load(Path(__file__).with_name("causes.toml"), dict[str, tuple[CauseRule, ...]])[
    "causes"
]


def find(
    lines: Sequence[Line],
    facts: Facts,
    total: int,
    resolution_ns: int,
    console: SerialConsole | None = None,
) -> list[Cause]:
    """Return what the boot of *lines* waited for, the longest first.

    Args:
        lines: up to the end of the boot and for some time behind it.
        facts: what they tell of the machine.
        total: when user space began, in ns.
        resolution_ns: what is not longer than this says nothing.
        console: the serial console, if there was one.
    """
    claimed: list[tuple[int, int]] = []
    found = []
    kernel = [line for line in lines if (line.at or 0) <= total]
    least = max(round(_LEAST_SHARE * total), resolution_ns, _NS_PER_MS)
    replay = _replayed(kernel)
    if replay is not None:
        found.append(replay)
        claimed.append((replay.start, replay.start + replay.length))
    for rule in RULES:
        if rule.only and not re.search(rule.only, facts.cmdline):
            continue
        where = lines if rule.later else kernel
        pieces = [piece for span in rule.spans for piece in _pieces(span, where)]
        long_enough = [piece for piece in pieces if piece.length >= rule.least_ms * _NS_PER_MS]
        own = _unclaimed(long_enough, claimed)
        if sum(piece.length for piece in own) > least:
            found.append(_cause(rule, own))
    found += [cause for cause in _alike(kernel, claimed) if cause.length > least]
    if console and console.bound:
        # All that it printed, what it printed late among it, took so long; so did lines alike.
        found = [cause for cause in found if cause.name not in ("", SERIAL)]
        what = f"{console.name} prints {console.characters:,} characters at {console.baud} baud"
        piece = _Piece(0, min(console.most_ns, total), "", "")
        found.append(_cause(CauseRule(SERIAL, what, "likely", ()), [piece]))
    return sorted(found, key=lambda cause: -cause.length)


def _cause(rule: CauseRule, pieces: Sequence[_Piece]) -> Cause:
    ends = [piece.until for piece in pieces]
    names = {match[1] for line in ends if rule.each and (match := re.match(rule.each, line))}
    longest = max(pieces, key=lambda piece: piece.length)
    return Cause(
        name=rule.name,
        what=rule.what,
        sure=rule.sure,
        like=rule.like,
        start=min(piece.start for piece in pieces),
        length=sum(piece.length for piece in pieces),
        devices=max(len(names), 1),
        after=longest.after,
        until=longest.until,
    )


def _pieces(span: NamedLines, lines: Sequence[Line]) -> list[_Piece]:
    """Return where *span* lies."""
    begins, ends = span.begins, span.ends
    found = []
    opened: Line | None = None
    before: Line | None = None
    for line in lines:
        if begins is None:
            if before is not None and ends is not None and ends.match(line.text):
                found.append(_between(before, line))
        elif opened is not None and (ends is None or ends.match(line.text)):
            found.append(_between(opened, line))
            opened = None
        if begins is not None and opened is None and begins.match(line.text):
            opened = line
        before = line
    return [piece for piece in found if piece.length > 0]


def _between(first: Line, last: Line) -> _Piece:
    return _Piece(first.at or 0, last.at or 0, first.text, last.text)


def _unclaimed(pieces: Sequence[_Piece], claimed: list[tuple[int, int]]) -> list[_Piece]:
    """Return those of *pieces* that no other cause has, and claim them."""
    free = []
    for piece in pieces:
        if _is_free(piece, claimed):
            free.append(piece)
            claimed.append((piece.start, piece.stop))
    return free


def _is_free(piece: _Piece, claimed: Sequence[tuple[int, int]]) -> bool:
    return all(piece.stop <= start or piece.start >= stop for start, stop in claimed)


def _alike(lines: Sequence[Line], claimed: Sequence[tuple[int, int]]) -> list[Cause]:
    """Return waits that end in lines of one shape and are equally long, added up."""
    groups: dict[str, list[_Piece]] = {}
    for before, line in itertools.pairwise(lines):
        piece = _between(before, line)
        if piece.length >= _ALIKE_NS and _is_free(piece, claimed):
            groups.setdefault(_NUMBERS.sub("#", line.text), []).append(piece)
    found = []
    for pieces in groups.values():
        lengths = [piece.length for piece in pieces]
        if len(pieces) > 1 and max(lengths) - min(lengths) <= _ALIKE_SHARE * max(lengths):
            what = f"{len(pieces)} waits of {units.duration(lengths[0])} before lines alike"
            rule = CauseRule("", what, "certain", ())
            found.append(replace(_cause(rule, pieces), devices=len(pieces)))
    return found


def _replayed(lines: Sequence[Line]) -> Cause | None:
    """Return the wait for a serial console that prints all that came before it began.

    The time to the line that says it is enabled must be that of so many characters at a usual rate.
    """
    characters = 0
    for before, line in itertools.pairwise(lines):
        characters += bootlog_facts.characters(before)
        match, piece = _CONSOLE.match(line.text), _between(before, line)
        if match and piece.length >= _ALIKE_NS:
            bits = characters * bootlog_facts.BITS_PER_CHARACTER * 1e9
            rate = min(_RATES, key=lambda baud: abs(bits / baud - piece.length))
            if abs(bits / rate - piece.length) <= _NEAR * piece.length:
                what = f"{match[1]} prints the {characters:,} characters before it, at {rate} baud"
                return _cause(CauseRule(SERIAL, what, "certain", ()), [piece])
    return None
