"""The place in the kernel log where one kernel spends time that another does not."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

_LINE = re.compile(r"^\[ *(\d+\.\d+)\] (.*)$", re.MULTILINE)
# What differs between boots of the same code: addresses, sizes, counts, times.
_NUMBER = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{6,}\b|\d+", re.IGNORECASE)


@dataclass(frozen=True)
class WiderGap:
    """Two lines that follow each other in both logs, and the seconds between them.

    Attributes:
        first: the earlier line, as the second log has it.
        then: the later line.
        before: seconds between them in the first log.
        after: seconds in the second log.
    """

    first: str
    then: str
    before: float
    after: float


def growth(before: str, after: str) -> WiderGap | None:
    """Return the gap that is wider in the log *after* than in *before*, by most.

    Lines that only one of the logs has are passed over; numbers in the lines do not matter.
    None where no gap is wider, or the logs have no time stamps.
    """
    old, new = _LINE.findall(before), _LINE.findall(after)
    matcher = SequenceMatcher(None, _shapes(old), _shapes(new), autojunk=False)
    pairs = [
        (block.a + offset, block.b + offset)
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    ]
    gaps = [
        WiderGap(
            first=new[j][1],
            then=new[next_j][1],
            before=float(old[next_i][0]) - float(old[i][0]),
            after=float(new[next_j][0]) - float(new[j][0]),
        )
        for (i, j), (next_i, next_j) in itertools.pairwise(pairs)
    ]
    widest = max(gaps, key=lambda gap: gap.after - gap.before, default=None)
    return widest if widest is not None and widest.after > widest.before else None


def _shapes(lines: list[tuple[str, str]]) -> list[str]:
    return [_NUMBER.sub("#", text) for _, text in lines]
