"""What was published for many CPUs, on the base that lacks it: the same outcome as without."""

from __future__ import annotations

import dataclasses
import re

import pytest
from guests import POOL_2M, Guests, asked

from flatboot.guest.machine import Node
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("published-fixes")

ZONES = "poke show zones /proc/zoneinfo"
LATER = tuple(
    f"poke write online{cpu} /sys/devices/system/cpu/cpu{cpu}/online {word}"
    for cpu, word in ((2, 1), (3, 1), (1, 0))
)
TWO_NODES = (Node(512 << 20, 4), Node(512 << 20, 4))


def thresholds(record: Record) -> list[str]:
    """Return the threshold of each online CPU for each zone."""
    return re.findall(r"vm stats threshold: (\d+)", record.files["zones"])


@pytest.mark.parametrize(
    ("cmdline", "programs", "cpus"),
    [("", (ZONES,), 8), ("maxcpus=2", (*LATER, ZONES), 3)],
    ids=["boot", "later"],
)
def test_each_cpu_has_its_thresholds(
    guests: Guests, cmdline: str, programs: tuple[str, ...], cpus: int
) -> None:
    """For all zones, also when CPUs come and go after boot."""
    found = {}
    for flavour in ("stock", "flatboot"):
        spec = asked(flavour, "1G", programs, nodes=TWO_NODES, cmdline=cmdline, config="bench")
        found[flavour] = thresholds(guests(spec))
    assert len(found["stock"]) % cpus == 0
    assert "0" not in found["stock"]
    assert found["flatboot"] == found["stock"]


def test_domains_are_those_of_the_base(guests: Guests) -> None:
    found = {}
    for flavour in ("stock", "flatboot"):
        cmdline = "sched_verbose ignore_loglevel"
        record = guests(asked(flavour, "1G", nodes=TWO_NODES, cmdline=cmdline, config="bench"))
        found[flavour] = re.findall(r"CPU\d+ attaching .*|domain-\d: span=\S+ .*", record.log)
    assert any("level=NUMA" in line for line in found["stock"])
    assert found["flatboot"] == found["stock"]


def test_less_is_done_for_each_cpu(guests: Guests) -> None:
    """Of 32 CPUs: thresholds are computed for all of them once."""
    spent = {}
    for flavour in ("stock", "flatboot"):
        spec = asked(flavour, "512M", cpus=32, config="bench", cmdline="lpj=4000000 nolapic_timer")
        spent[flavour] = guests(dataclasses.replace(spec, functions="instructions")).functions
    for function, share in (("refresh_zone_stat_thresholds", 8), ("build_sched_domains", 1.2)):
        ours, stock = (spent[flavour][function] for flavour in ("flatboot", "stock"))
        assert 0 < ours < stock / share, function


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", False),
        ("hugepage_alloc_threads=auto", False),
        ("hugepage_alloc_threads=1", False),
        ("hugepage_alloc_threads=7", False),
        ("hugepage_alloc_threads=0", True),
        ("hugepage_alloc_threads=many", True),
    ],
)
def test_pools_are_filled(guests: Guests, value: str, told: bool) -> None:
    """Whatever the threads; what is no number of them is told and changes nothing."""
    programs = (f"poke show pool {POOL_2M}nr_hugepages",)
    cmdline = f"hugepages=150 {value}"
    record = guests(asked("flatboot", "1G", programs, cpus=4, cmdline=cmdline, config="bench"))
    assert record.files["pool"].strip() == "150"
    assert ("is neither auto nor a number from 1 on, ignoring" in record.console) == told


@pytest.mark.parametrize("config", ["users", "debug"])
def test_huge_pages_with_shared_struct_pages_are_given_back(guests: Guests, config: str) -> None:
    """Whole, and as pages that the allocator, which looks at each here, has nothing to say of."""
    pages = 100
    programs = (
        "pool all 2m count:before",
        f"poke write none {POOL_2M}nr_hugepages 0",
        "pool none 2m count:after",
    )
    cmdline = f"hugepages={pages} hugetlb_free_vmemmap=on init_on_free=1"
    results = guests(asked("flatboot", "1G", programs, cmdline=cmdline, config=config)).results
    assert results["before.2m.nr"] == str(pages)
    assert results["after.2m.nr"] == "0"
    # Seven of eight pages of struct pages are had again; they come out of what is given back.
    had = pages * (2048 - 7 * 4)
    freed = int(results["after.memory"]) - int(results["before.memory"])
    assert abs(freed - had) < had / 100
