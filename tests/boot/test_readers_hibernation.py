"""Hibernation has every struct page initialised before it makes its image.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

import pytest
from guests import DEFERRED, Guests, meminfo
from readers import answer, lazy

ZRAM = "/dev/zram0"

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_hibernation(guests: Guests, mode: str) -> None:
    record = guests(
        lazy(
            "poke write size /sys/block/zram0/disksize 1G",
            f"swap {ZRAM}",
            f"poke show before {DEFERRED}remaining_kb",
            "poke write kind /sys/power/disk test_resume",
            "poke write hibernate /sys/power/state disk",
            f"poke show after {DEFERRED}remaining_kb",
            "poke show meminfo /proc/meminfo",
            "fill 4k 2",
            memory="1G",
            mode=mode,
        )
    )
    if mode == "lazy":
        assert int(record.files["before"]) > 0
    assert answer(record, "write.hibernate") == "ok"
    assert record.files["after"].strip() == "0"
    assert meminfo(record.files["meminfo"])["Deferred"] == 0
    assert record.results["fill.bad_words"] == "0"
