"""What boot and the first use of memory cost, in instructions, against stock."""

from __future__ import annotations

import pytest
from guests import QUIET, Guests, asked, results

pytestmark = pytest.mark.groups("memory-map")

FILLED = [("512M", 1, 1), ("768M", 2, 2)]
#: With 16 CPUs, which take blocks of one zone at the same time, waiting for each other would show.
LONG_FILLED = [("2G", 1, 16), ("4G", 1, 1), ("4G", 2, 2), ("16G", 1, 1), ("16G", 2, 2)]


@pytest.mark.parametrize("memory", ["2G", "64G"])
def test_waiting_costs_what_it_costs_on_stock(guests: Guests, memory: str) -> None:
    stock = guests(asked("stock", memory)).to_init
    for mode in (None, "wait"):
        assert guests(asked("flatboot", memory, mode=mode)).to_init <= stock * 1.005


def page_init(guests: Guests) -> float:
    """Return the instructions that stock spends on a page of memory during boot."""
    small, large = guests(asked("stock", "2G")), guests(asked("stock", "64G"))
    pages = (large.machine.memory_bytes - small.machine.memory_bytes) // 4096
    return (large.to_init - small.to_init) / pages


def check_fill(guests: Guests, memory: str, nodes: int, cpus: int, size: str) -> None:
    fill = (*QUIET, f"fill {size} {cpus}")
    per_page = []
    for ask in (
        asked("stock", memory, fill, cpus=cpus, nodes=nodes),
        asked("flatboot", memory, fill, "lazy", cpus=cpus, nodes=nodes),
    ):
        filled = results(guests(ask), "fill.")
        per_page.append(filled["touch_ticks"] / filled["pages"])
    assert per_page[1] <= 1.05 * (per_page[0] + page_init(guests))


@pytest.mark.parametrize("size", ["4k", "thp"])
@pytest.mark.parametrize(("memory", "nodes", "cpus"), FILLED)
def test_filling_pays_for_what_boot_did_not(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str
) -> None:
    check_fill(guests, memory, nodes, cpus, size)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", ["4k", "thp"])
@pytest.mark.parametrize(("memory", "nodes", "cpus"), LONG_FILLED)
def test_filling_more_pays_no_more(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str
) -> None:
    check_fill(guests, memory, nodes, cpus, size)
