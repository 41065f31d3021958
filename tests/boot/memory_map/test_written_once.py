"""Struct pages are written once where boot waits for them, and where memory is added."""

from __future__ import annotations

import pytest
from guests import Guests, asked

pytestmark = pytest.mark.groups("struct-pages-once")

#: Pages of 4 KiB between the two sizes of memory.
PAGES = (62 << 30) // 4096
#: QEMU's memory device, which is there from the start: the kernel adds it as one plugged in later.
DIMM = (
    "-m",
    "size=2048M,slots=1,maxmem=16G",
    "-object",
    "memory-backend-ram,id=dimm,size={size},reserve=off",
    "-device",
    "pc-dimm,memdev=dimm",
)


def test_boot_that_waits_takes_half_of_what_stock_takes(guests: Guests) -> None:
    taken = {}
    for flavour, mode in (("stock", None), ("flatboot", "wait")):
        small, large = (guests(asked(flavour, size, mode=mode)) for size in ("2G", "64G"))
        taken[flavour] = (large.to_init - small.to_init) / PAGES
    assert 8 < taken["flatboot"] < 0.6 * taken["stock"]


def test_added_memory_takes_a_third_of_what_it_takes_on_stock(guests: Guests) -> None:
    taken = {}
    for flavour in ("stock", "flatboot"):
        to_init = []
        for size in ("2G", "10G"):
            plugged = tuple(word.format(size=size) for word in DIMM)
            spec = asked(flavour, "2G", cmdline="memhp_default_state=online", arguments=plugged)
            record = guests(spec)
            assert record.meminfo["MemTotal"] > int(size[:-1]) << 20
            to_init.append(record.to_init)
        taken[flavour] = to_init[1] - to_init[0]
    assert taken["flatboot"] < taken["stock"] / 3
