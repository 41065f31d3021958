"""Kernel parameters that change which memory there is, and who takes it, while it is deferred."""

from __future__ import annotations

import pytest
from guests import DEFERRED, QUICK_TIMER, Guests, asked, meminfo, zones

from flatboot.guest.machine import parse_nodes

pytestmark = pytest.mark.groups("memory-map")

PARAMETERS = [
    "movablecore=1G",
    "kernelcore=1G",
    # Without mirrored memory, which no emulator has: as if it was not there.
    "kernelcore=mirror",
    "movable_node",
    "mem=1500M",
    # Begins and ends inside blocks of the buddy allocator, below what boot takes from the top.
    "memmap=5M$509M",
    "cma=64M",
    "hugepages=100",
    "numa=fake=4",
    "page_alloc.shuffle=1",
    "init_on_alloc=1 init_on_free=1",
    "hashdist=1",
]
#: Those that the debug kernel boots with in the short tests.
SHORT = {"movablecore=1G", "cma=64M", "hashdist=1"}
PROGRAMS = (
    "poke drain flags /proc/kpageflags",
    "poke drain types /proc/pagetypeinfo",
    "poke write compact /proc/sys/vm/compact_memory 1",
    f"poke write all {DEFERRED}complete 1",
    "poke drain again /proc/kpageflags",
    "poke show after /proc/meminfo",
)
#: Bitmaps of the tables that are zeroed on demand, in kB.
BITMAPS_KB = 16


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_no_memory_is_lost(guests: Guests, parameters: str) -> None:
    lazy, waited = (
        guests(
            asked(
                "flatboot",
                "2G",
                PROGRAMS,
                mode,
                cpus=2,
                nodes=2,
                config="users",
                cmdline=f"{parameters} {QUICK_TIMER}",
            )
        )
        for mode in ("lazy", "wait")
    )
    nodes = sum(path.startswith("/sys/devices/system/node/") for path in lazy.files)
    assert nodes == (4 if "numa=fake=4" in parameters else 2)
    lost = waited.meminfo["MemTotal"] - lazy.meminfo["MemTotal"]
    assert 0 <= lost <= BITMAPS_KB
    for record in (lazy, waited):
        managed = sum(zone.managed for zone in zones(record.files["/proc/zoneinfo"]).values())
        assert managed * 4 == record.meminfo["MemTotal"]
    after = meminfo(lazy.files["after"])
    assert after["Deferred"] == 0
    assert after["MemTotal"] == lazy.meminfo["MemTotal"]
    assert lazy.meminfo["Deferred"] > 0


@pytest.mark.parametrize(
    "parameters",
    [pytest.param(words, marks=[] if words in SHORT else pytest.mark.long) for words in PARAMETERS],
)
def test_the_debug_kernel_finds_nothing(guests: Guests, parameters: str) -> None:
    ask = asked(
        "flatboot", "2G", PROGRAMS, "lazy", cpus=2, nodes=2, config="debug", cmdline=parameters
    )
    record = guests(ask)
    assert record.results["write.all"] == "ok"
    assert record.results["write.compact"] == "ok"
    assert record.results["drain.flags"] == record.results["drain.again"]


@pytest.mark.parametrize("mode", ["lazy", "wait"])
def test_nodes_that_meet_inside_a_pageblock(guests: Guests, mode: str) -> None:
    """The second node's pages are free before the first node has written the pageblock's start."""
    nodes = parse_nodes("769M:0,93M:0,4M:1")
    assert not isinstance(nodes, int)
    guests(
        asked(
            "flatboot",
            "2G",
            mode=mode,
            nodes=tuple(nodes),
            config="debug",
            cmdline="movable_node",
            clock="wall",
        )
    )
