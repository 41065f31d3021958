"""Records of the bench scripts: kept as files, made when there is none or when asked for anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flatboot import progress, record
from flatboot.record import Record

RESULTS = Path(__file__).parent / "results"


def kept(name: str, what: str, again: bool, boot: Callable[[], Record]) -> Record:
    """Return a boot's record, kept or made now.

    Args:
        name: its file in bench/results, without the suffix, such as "growth/stock-2G".
        what: what is booted, to show while it is.
        again: whether to boot although there is a record.
        boot: boots and returns the record.
    """
    path = RESULTS / f"{name}.json"
    if again or not path.exists():
        with progress.step(what):
            boot().save(path)
    return record.load(path)
