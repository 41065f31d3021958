"""The places in the kernel log where one boot spends time that another does not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

# Half a step of a log's clock, in seconds: what differences of floats may be off by is less.
_STEP_S = 0.5e-6
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

    @property
    def growth(self) -> float:
        """How many seconds more the second log has."""
        return self.after - self.before


def growth(before: str, after: str) -> WiderGap | None:
    """Return the gap that is wider in the log *after* than in *before*, by most.

    Lines that only one of the logs has are passed over; numbers in the lines do not matter.
    None where no gap is wider, or the logs have no time stamps.
    """
    logs = ([(float(at), text) for at, text in _LINE.findall(log)] for log in (before, after))
    found = wider(*logs)
    return found[0] if found else None


def wider(old: Sequence[tuple[float, str]], new: Sequence[tuple[float, str]]) -> list[WiderGap]:
    """Return the gaps that are wider in *new* than in *old*, the one that grew most first.

    Both are lines with the seconds at which they were printed.
    """
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
            before=old[next_i][0] - old[i][0],
            after=new[next_j][0] - new[j][0],
        )
        for (i, j), (next_i, next_j) in itertools.pairwise(pairs)
    ]
    return sorted((gap for gap in gaps if gap.growth > _STEP_S), key=lambda gap: -gap.growth)


def _shapes(lines: Sequence[tuple[float, str]]) -> list[str]:
    return [_NUMBER.sub("#", text) for _, text in lines]
