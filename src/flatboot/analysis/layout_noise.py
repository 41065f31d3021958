"""What code layout alone was seen to move phases by, which ``flatboot bench`` measures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from flatboot.analysis.comparable import TOTAL
from flatboot.common import typed
from flatboot.record import phases

#: These follow the size of the code: the kernel frees the gaps behind it page by page.
BY_SIZE = (TOTAL, phases.UNATTRIBUTED)
#: From here on a phase is long, in instructions: a millisecond.
LONG = 1_000_000
_DIGITS = 6
_FILE = Path(__file__).with_suffix(".toml")
_HEAD = """\
# What code layout moved the phases of stock by, one CPU, the config control less bench. Written by
# `flatboot bench -k layout-noise`; the phases one by one stand in docs/compare.md.
"""


@dataclass(frozen=True)
class LayoutNoise:
    """The most that was seen, on any size of machine.

    Attributes:
        whole_share: the whole boot, as a share of it.
        phase_instructions: a phase that is not among ``BY_SIZE``, in instructions.
        long_phase_share: a long one of those, as a share of it.
    """

    whole_share: float
    phase_instructions: int
    long_phase_share: float


@functools.cache
def seen() -> LayoutNoise:
    """Return what was seen."""
    return typed.load(_FILE, LayoutNoise)


def of(boots: Sequence[tuple[dict[str, int], dict[str, int]]]) -> LayoutNoise:
    """Return the most of *boots*: of each size the phases, with ``TOTAL``, in either layout."""
    moved = [
        (name, length, abs(control.get(name, 0) - length))
        for bench, control in boots
        for name, length in bench.items()
    ]
    phase = [(length, by) for name, length, by in moved if name not in BY_SIZE]
    return LayoutNoise(
        whole_share=max(by / length for name, length, by in moved if name == TOTAL),
        phase_instructions=max(by for _, by in phase),
        long_phase_share=max(by / length for length, by in phase if length >= LONG),
    )


def text(noise: LayoutNoise) -> str:
    """Return the file that holds *noise*."""
    figures = {
        name: f"{value:.{_DIGITS}f}" if isinstance(value, float) else str(value)
        for name, value in asdict(noise).items()
    }
    return _HEAD + "".join(f"{name} = {figure}\n" for name, figure in figures.items())
