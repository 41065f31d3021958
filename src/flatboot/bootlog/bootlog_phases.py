"""From the lines of one boot to its phases, as far as the lines tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.bootlog.bootlog_boots import BANNER
from flatboot.bootlog.bootlog_lines import Line
from flatboot.common import typed
from flatboot.record.phases import UNATTRIBUTED
from flatboot.record.record import Phase

USER_SPACE = "user space"
EARLY = "early memory set-up"
_TABLE = Path(__file__).with_name("bootlog_marks.toml")
_NS_PER_MS = 1_000_000
#: The kernel counts how long a phase lasted in ticks, of at most this.
_TICK_NS = 10 * _NS_PER_MS
_LAST_SIGN = re.compile(r"Freeing (?:unused kernel|init memory)|Write protecting the kernel")


@dataclass(frozen=True)
class LogMark:
    """Lines that begin a phase; see bootlog_marks.toml."""

    begins: str
    patterns: tuple[re.Pattern[str], ...]
    last: bool = False
    lasted: bool = False
    optional: bool = False
    needs: str = ""


@dataclass(frozen=True)
class FoundMark:
    """A mark that the log holds: at which index of the lines, and at which time (ns)."""

    mark: LogMark
    index: int
    at: int


MARKS = typed.load(_TABLE, dict[str, tuple[LogMark, ...]])["marks"]


def find(lines: Sequence[Line]) -> list[FoundMark]:
    """Return the marks that *lines* hold, in their order."""
    found: list[FoundMark] = []
    after = 0
    for mark in MARKS:
        index = _index(mark, lines, after)
        if index is None:
            continue
        at = lines[index].at or 0
        if mark.lasted:
            longest = max(_lasted(mark, line) for line in lines[after : index + 1])
            before = lines[after].at or 0
            begin = at - longest if at - longest - before > _TICK_NS else before
            found.append(FoundMark(mark, index, begin))
            index = _report_of_memory(lines, index)
            found.append(FoundMark(LogMark(UNATTRIBUTED, ()), index, lines[index].at or 0))
        else:
            found.append(FoundMark(mark, index, at))
        after = index
    return found


def phases(lines: Sequence[Line], found: Sequence[FoundMark]) -> list[Phase]:
    """Return the phases up to ``end``: without gaps, adding up.

    Times are nanoseconds of the kernel's clock. A phase whose beginning or end the log does not
    show is unattributed.
    """
    stop_at = end(lines, found)
    bounds = [(EARLY, 0), *((item.mark.begins, item.at) for item in found)]
    vague = _vague(lines, found)
    parts: list[Phase] = []
    for (name, start), (_, stop) in zip(bounds, [*bounds[1:], ("", stop_at)], strict=True):
        shown = UNATTRIBUTED if name in vague else name
        stop = min(stop, stop_at)
        if stop <= start:
            continue
        if parts and parts[-1].name == shown:
            start = parts.pop().start
        parts.append(Phase(shown, start, stop - start))
    return parts


def end(lines: Sequence[Line], found: Sequence[FoundMark]) -> int:
    """Return when the first process of user space starts, in ns.

    Where the log does not show it, that is the last sign of the kernel's own boot, or else the last
    line.
    """
    if user_space(found):
        return found[-1].at
    last = [line.at or 0 for line in lines if _LAST_SIGN.match(line.text)]
    return max(last or [line.at or 0 for line in lines])


def user_space(found: Sequence[FoundMark]) -> bool:
    """Return whether the log shows the start of the first process of user space."""
    return bool(found) and found[-1].mark.begins == USER_SPACE


def missing(lines: Sequence[Line], found: Sequence[FoundMark]) -> list[LogMark]:
    """Return the marks that such a log should hold, and does not."""
    seen = {item.mark for item in found}
    banner = next((line.text for line in lines if BANNER.match(line.text)), None)
    return [
        mark
        for mark in MARKS
        if mark not in seen
        and not mark.optional
        and (banner is None or re.match(mark.needs, banner))
    ]


def _index(mark: LogMark, lines: Sequence[Line], after: int) -> int | None:
    for pattern in mark.patterns:
        hits = [index for index in range(after, len(lines)) if pattern.match(lines[index].text)]
        if hits:
            return hits[-1] if mark.last else hits[0]
    return None


def _lasted(mark: LogMark, line: Line) -> int:
    matches = (pattern.match(line.text) for pattern in mark.patterns)
    return max((int(match["ms"]) * _NS_PER_MS for match in matches if match), default=0)


def _report_of_memory(lines: Sequence[Line], index: int) -> int:
    """Return the index of the summary that follows the wait in new kernels, else *index*."""
    following = index + 1
    if following < len(lines) and lines[following].text.startswith("Memory: "):
        return following
    return index


def _vague(lines: Sequence[Line], found: Sequence[FoundMark]) -> set[str]:
    """Return the phases without a beginning or an end, because a mark is missing."""
    lost = missing(lines, found)
    present = {item.mark for item in found}
    vague = set() if any(BANNER.match(line.text) for line in lines) else {EARLY}
    before = EARLY
    for mark in MARKS:
        if mark in lost and mark.begins != USER_SPACE:
            vague |= {before, mark.begins}
        if mark in lost or mark in present:
            before = mark.begins
    return vague
