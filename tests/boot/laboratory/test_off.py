"""What is built costs next to nothing while it is off, and little while it is on."""

from __future__ import annotations

import dataclasses

import pytest
from guests import Guests, asked

OFF = "deferred_init=wait prezero=off hugetlb_deferred=off anon_fault_ahead=off cpuhp.group=off"
#: What is done, and how often: some ten million instructions each.
DONE = {
    "look-ups": {"look_up": 2000, "no_entry": 2000},
    "pages": {"page": 300, "fault": 2000, "map_fault": 2000, "huge_fault": 30},
}
#: How many times the instructions of stock each may take, off and with a memory map that is
#: initialised on demand.
MOST = 1.002
MOST_LAZY = {"look-ups": 1.03, "pages": 1.005}
#: With so much memory the hash tables are zeroed on demand.
LAZY_MEMORY = "2G"


def cost(
    guests: Guests, flavour: str, operations: dict[str, int], cmdline: str, memory: str = "512M"
) -> int:
    """Return the instructions of *operations*, done four times: a boot of five, less one of once.

    Where ticks of the timer fall differs by a quarter of a percent of doing them once.
    """
    counted = []
    for factor in (1, 5):
        programs = [f"operations {name} {times * factor}" for name, times in operations.items()]
        spec = asked(flavour, memory, programs, cmdline=cmdline)
        record = guests(dataclasses.replace(spec, counted="end"))
        counted.append(int(record.results["counted"]))
    return counted[1] - counted[0]


@pytest.mark.parametrize("what", DONE)
def test_what_is_off_costs_next_to_nothing(guests: Guests, what: str) -> None:
    stock = cost(guests, "stock", DONE[what], "")
    assert stock > 10_000_000
    assert cost(guests, "flatboot", DONE[what], OFF) <= MOST * stock


@pytest.mark.parametrize("what", DONE)
def test_a_map_on_demand_costs_others_little(guests: Guests, what: str) -> None:
    lazy = OFF.replace("deferred_init=wait", "deferred_init=lazy")
    stock = cost(guests, "stock", DONE[what], "", LAZY_MEMORY)
    assert cost(guests, "flatboot", DONE[what], lazy, LAZY_MEMORY) <= MOST_LAZY[what] * stock
