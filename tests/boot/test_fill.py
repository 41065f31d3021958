"""A guest that fills its memory finds all of it, as early and as cheap as on stock."""

from __future__ import annotations

import pytest
from guests import Ask, Guests, results

from flatboot.record import Record

FORBIDDEN = ("oom_kill", "allocstall_normal", "allocstall_movable", "allocstall_dma32")
#: A step of the fill near its end, in pages: one of the program's, or a huge page.
STEP = {"4k": 32, "thp": 512}
#: A CPU takes up to this many pages (63, scaled by up to 2^5) off a zone at once, so where exactly
#: reclaim begins depends on how many are on its list; SHORT_LISTS keeps that to a few batches.
CPU_BATCH = 63 << 5
SHORT_BATCH = 63 * 4
SHORT_LISTS = "poke write lists /proc/sys/vm/percpu_pagelist_high_fraction 1000000"
#: What a kernel may use more at one time than at another, in kB.
NOISE_KB = 2048


def check(record: Record) -> dict[str, int]:
    """Check one guest's fill by itself and return its results."""
    fill, again = results(record, "fill."), results(record, "refill.")
    assert fill["bad_words"] == again["bad_words"] == 0
    assert fill["reclaim"] == 1
    assert fill["free_after"] >= fill["free_before"] - NOISE_KB
    for event in FORBIDDEN:
        assert f"vm.{event}" not in fill
    assert "vm.pageoutrun" not in again
    assert fill["short_deferred"] == 0, "reclaim began while memory was left to initialise"
    assert "vm.deferred_init_demand" not in again
    return fill


def compare(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str, mode: str, short: bool = False
) -> None:
    """Compare the fill of a flatboot guest with that of a stock guest."""
    programs = (*((SHORT_LISTS,) if short else ()), f"fill {size} {cpus}")
    ours = Ask("flatboot", memory, programs, mode, cpus=cpus, nodes=nodes)
    stock = Ask("stock", memory, programs, cpus=cpus, nodes=nodes)
    compare_points(guests, ours, stock, STEP[size] + (SHORT_BATCH if short else CPU_BATCH))


def compare_debug(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str, mode: str
) -> None:
    """Compare the fill of a debug guest with that of the same kernel after waiting."""
    programs = (SHORT_LISTS, f"fill {size} {cpus}")
    ours, reference = (
        Ask("flatboot", memory, programs, how, cpus=cpus, nodes=nodes, config="debug")
        for how in (mode, "wait")
    )
    compare_points(guests, ours, reference, STEP[size] + SHORT_BATCH)


def compare_points(guests: Guests, ours: Ask, reference: Ask, slack: int) -> None:
    """Check that reclaim begins no earlier than in the reference, within *slack* pages a CPU."""
    mine, theirs = check(guests(ours)), check(guests(reference))
    at_start = max(theirs["free_before"] - mine["free_before"], 0) // 4
    assert at_start <= NOISE_KB / 4
    point, its_point = (fill["clean_pages"] + fill["listed"] for fill in (mine, theirs))
    assert point >= its_point - at_start - slack * ours.cpus


@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.parametrize("size", ["4k", "thp"])
@pytest.mark.parametrize("cpus", [1, 2])
def test_512m(guests: Guests, cpus: int, size: str, mode: str) -> None:
    compare(guests, "512M", cpus, cpus, size, mode, short=True)


@pytest.mark.parametrize("size", ["4k", "thp"])
def test_4g_two_nodes(guests: Guests, size: str) -> None:
    compare(guests, "4G", 2, 2, size, "lazy")


@pytest.mark.parametrize("size", ["4k", "thp"])
def test_debug_512m_two_nodes(guests: Guests, size: str) -> None:
    compare_debug(guests, "512M", 2, 2, size, "lazy")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.parametrize("size", ["4k", "thp"])
@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("memory", ["512M", "4G", "16G"])
def test_matrix(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str, mode: str
) -> None:
    compare(guests, memory, nodes, cpus, size, mode)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.parametrize("size", ["4k", "thp"])
@pytest.mark.parametrize(("nodes", "cpus"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("memory", ["512M", "4G"])
def test_debug_matrix(
    guests: Guests, memory: str, nodes: int, cpus: int, size: str, mode: str
) -> None:
    compare_debug(guests, memory, nodes, cpus, size, mode)
