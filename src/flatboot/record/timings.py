"""What a record tells of times on the way, besides that of /init."""

from __future__ import annotations

import re

from flatboot.common.errors import FlatbootError
from flatboot.record.record import Record

_BEGIN = re.compile(r"\[ *(\d+\.\d+)\] smp: Bringing up secondary CPUs")
_END = re.compile(r"\[ *(\d+\.\d+)\] smp: Brought up")


def ready_ns(record: Record) -> float:
    """Return nanoseconds from reset to all memory being ready, of a boot with ``ready``."""
    return 1e9 * record.seconds("ready.ticks") - 1000 * int(record.results["ready.age_us"])


def bring_up_s(record: Record) -> float:
    """Return the seconds that boot waited for its CPUs, by the kernel's log.

    Raises:
        FlatbootError: the log does not tell.
    """
    begin, end = _BEGIN.search(record.log), _END.search(record.log)
    if begin is None or end is None:
        raise FlatbootError("the log does not say when other CPUs were brought up")
    return float(end[1]) - float(begin[1])
