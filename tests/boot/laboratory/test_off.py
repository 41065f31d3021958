"""What is built and off costs those next to nothing who do not use it."""

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
#: How many times the instructions of stock each may take.
MOST = 1.002


def cost(guests: Guests, flavour: str, operations: dict[str, int]) -> int:
    """Return the instructions of *operations*, done four times: a boot of five, less one of once.

    Where ticks of the timer fall differs by a quarter of a percent of doing them once.
    """
    counted = []
    for factor in (1, 5):
        programs = [f"operations {name} {times * factor}" for name, times in operations.items()]
        spec = asked(flavour, "512M", programs, cmdline=OFF if flavour == "flatboot" else "")
        record = guests(dataclasses.replace(spec, counted="end"))
        counted.append(int(record.results["counted"]))
    return counted[1] - counted[0]


@pytest.mark.parametrize("what", DONE)
def test_what_is_off_costs_next_to_nothing(guests: Guests, what: str) -> None:
    stock = cost(guests, "stock", DONE[what])
    assert stock > 10_000_000
    assert cost(guests, "flatboot", DONE[what]) <= MOST * stock
