"""Memory that has to be accepted, as a test of the kernel pretends: never used before, never twice.

That is what the kernel itself watches: it warns, which fails the boot.
"""

from __future__ import annotations

import pytest
from guests import Guests, asked, free_pages, results, vmstat, zones

from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

#: In the middle, where neither the kernel nor the initramfs lies.
WORDS = "unaccepted_test=768M@512M"
UNITS = 384
FILE = "/sys/kernel/debug/unaccepted_test"
PROGRAMS = (
    f"poke show before {FILE}",
    "poke show vmstat /proc/vmstat",
    "fill 4k 2 once",
    f"poke show after {FILE}",
)
#: What boots of one kernel differ by: free memory in kB, and units accepted.
NOISE_KB = 1024
NOISE_UNITS = 8


def accepted(text: str) -> int:
    told = dict(line.split() for line in text.splitlines())
    assert int(told["units"]) == UNITS
    # What memblock takes before it is mapped, at most a block of the buddy allocator.
    assert int(told["unseen"]) <= 2
    return int(told["accepted"])


def shown(record: Record) -> dict[str, int]:
    """Return what meminfo shows, and as free also the pages on the lists of CPUs, in kB."""
    free = free_pages(record.files["/proc/zoneinfo"]) * 4
    lists = free - record.meminfo["MemFree"]
    return {
        "MemTotal": record.meminfo["MemTotal"],
        "MemFree": free,
        "MemAvailable": record.meminfo["MemAvailable"] + lists,
    }


def boot(guests: Guests, mode: str) -> Record:
    return guests(asked("flatboot", "1536M", PROGRAMS, mode, 2, config="debug", cmdline=WORDS))


@pytest.mark.parametrize("mode", ["wait", "lazy", "background"])
def test_all_of_it_can_be_used(guests: Guests, mode: str) -> None:
    record = boot(guests, mode)
    assert results(record, "fill.")["bad_words"] == 0
    before, after = (accepted(record.files[name]) for name in ("before", "after"))
    assert before < UNITS * 3 // 4
    # Where the map is complete, reclaim begins before all is accepted, as it does on stock.
    assert after > before if mode != "lazy" else after >= UNITS - NOISE_UNITS


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_it_is_accepted_no_earlier_than_stock_does(guests: Guests, mode: str) -> None:
    ours, waited = boot(guests, mode), boot(guests, "wait")
    early, its = (accepted(record.files["before"]) for record in (ours, waited))
    assert early <= its + NOISE_UNITS
    assert vmstat(waited.files["vmstat"])["nr_unaccepted"] > 0


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_it_counts_as_free_memory(guests: Guests, mode: str) -> None:
    ours, waited = boot(guests, mode), boot(guests, "wait")
    for name, kb in shown(waited).items():
        assert abs(shown(ours)[name] - kb) <= NOISE_KB, name
    mine, theirs = (zones(record.files["/proc/zoneinfo"]) for record in (ours, waited))
    for key, zone in theirs.items():
        for mark in ("min", "low", "high"):
            assert abs(getattr(mine[key], mark) - getattr(zone, mark)) <= 8, mark
