"""Those who work on mapped memory get new pages from memory that is not initialised.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

import pytest
from guests import DEFERRED, Guests, vmstat
from readers import lazy

from flatboot.record.record import Record

#: What each program maps, in MiB.
SIZE_MB = 64
PAGES = SIZE_MB << 8
USED = lazy(
    f"mapped merge {SIZE_MB}",
    f"mapped collapse {SIZE_MB}",
    f"mapped move {SIZE_MB}",
    f"mapped balance {SIZE_MB // 4}",
    "poke show vmstat /proc/vmstat",
    f"poke show remaining {DEFERRED}remaining_kb",
    cmdline="numa_balancing=enable",
)
TIERS = "/sys/devices/virtual/memory_tiering/memory_tier4/nodelist"

pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def used(guests: Guests) -> Record:
    """Return the record of a guest whose mapped memory was worked on."""
    return guests(USED)


def test_memory_was_left_to_initialise(used: Record) -> None:
    assert int(used.files["remaining"]) > 0


def test_ksm(used: Record) -> None:
    assert int(used.results["merge.shared"]) > PAGES * 9 // 10
    assert used.results["merge.bad"] == used.results["merge.apart_bad"] == "0"


def test_khugepaged(used: Record) -> None:
    assert int(used.results["collapse.huge"]) == SIZE_MB << 10
    assert used.results["collapse.bad"] == "0"


def test_move_pages(used: Record) -> None:
    assert used.results["move.before"] == "0"
    assert int(used.results["move.moved"]) == PAGES
    assert used.results["move.bad"] == "0"


def test_numa_balancing(used: Record) -> None:
    assert used.results["balance.before"] == "0"
    assert int(used.results["balance.moved"]) > PAGES // 8
    assert used.results["balance.bad"] == "0"
    assert vmstat(used.files["vmstat"])["numa_hint_faults"] > 0


def test_memory_tiers(guests: Guests) -> None:
    record = guests(lazy(f"poke show tiers {TIERS}", memory="1G"))
    assert record.files["tiers"].strip() == "0-1"
