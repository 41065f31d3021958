"""Struct pages are written once where boot waits for them, and where memory is added."""

from __future__ import annotations

import pytest
from guests import Guests, asked

pytestmark = pytest.mark.groups("struct-pages-once")

#: Pages of 4 KiB between the two sizes of memory.
PAGES = (62 << 30) // 4096


def test_boot_that_waits_takes_half_of_what_stock_takes(guests: Guests) -> None:
    taken = {}
    for flavour in ("stock", "flatboot"):
        small, large = (guests(asked(flavour, size)) for size in ("2G", "64G"))
        taken[flavour] = (large.to_init - small.to_init) / PAGES
    assert 8 < taken["flatboot"] < 0.6 * taken["stock"]


def plugged_page(guests: Guests, flavour: str, mode: str | None = None) -> float:
    """Return the instructions that a page takes of a memory device that is there from the start."""
    small, large = (
        guests(
            asked(
                flavour,
                "2G",
                (),
                mode,
                cmdline="memhp_default_state=online",
                arguments=(
                    *("-m", "size=2048M,slots=1,maxmem=128G"),
                    *("-object", f"memory-backend-ram,id=dimm,size={gib}G,reserve=off"),
                    *("-device", "pc-dimm,memdev=dimm"),
                ),
            )
        )
        for gib in (4, 20)
    )
    assert large.meminfo["MemTotal"] - small.meminfo["MemTotal"] == 16 << 20
    return (large.to_init - small.to_init) / (16 << 18)


@pytest.mark.parametrize(
    "mode", [None, pytest.param("lazy", marks=pytest.mark.groups("memory-map"))]
)
def test_a_page_that_is_plugged_in_costs_at_most_twenty(guests: Guests, mode: str | None) -> None:
    assert plugged_page(guests, "flatboot", mode) <= 20


def test_added_memory_takes_a_third_of_what_it_takes_on_stock(guests: Guests) -> None:
    assert plugged_page(guests, "flatboot") < plugged_page(guests, "stock") / 3
