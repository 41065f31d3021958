"""Memory is taken in ways other than faults while most of it is not initialised."""

from __future__ import annotations

import re

import pytest
from guests import (
    BLOCKS,
    DEFERRED,
    HUGE_1G,
    HUGE_2M,
    Guests,
    asked,
    itemised,
    meminfo,
    vmstat,
    zones,
)

from flatboot.guest.boot_spec import BootSpec

pytestmark = pytest.mark.groups("memory-map")

CONFIGS = [("users", "2G", 1), ("debug", "1G", 2)]


def ask(config: str, memory: str, cpus: int, *programs: str) -> BootSpec:
    return asked("flatboot", memory, programs, "lazy", cpus=cpus, nodes=cpus, config=config)


@pytest.mark.parametrize(("config", "memory", "cpus"), CONFIGS)
def test_a_pool_of_huge_pages_at_run_time(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    record = guests(
        ask(
            config,
            memory,
            cpus,
            f"poke show before {DEFERRED}remaining_kb",
            f"poke write some {HUGE_2M} 300",
            f"poke show some {HUGE_2M}",
            f"poke show after {DEFERRED}remaining_kb",
            f"poke write none {HUGE_2M} 0",
            f"poke show none {HUGE_2M}",
            f"fill 4k {cpus} once",
        )
    )
    assert record.files["some"].strip() == "300"
    assert record.files["none"].strip() == "0"
    assert int(record.files["before"]) - int(record.files["after"]) > 300 << 10
    assert record.results["fill.bad_words"] == "0"


def test_nearly_all_memory_as_huge_pages(guests: Guests) -> None:
    """Stock gets 985; with none left, the next kernel thread to start would meet the OOM killer."""
    programs = (
        f"poke write all {HUGE_2M} 960",
        f"poke show all {HUGE_2M}",
        f"poke show remaining {DEFERRED}remaining_kb",
        "poke show vmstat /proc/vmstat",
        f"poke write none {HUGE_2M} 0",
    )
    ours = guests(asked("flatboot", "2G", programs, "lazy"))
    assert ours.files["all"].strip() == "960"
    assert int(ours.files["remaining"]) <= 16 << 10
    assert vmstat(ours.files["vmstat"])["pageoutrun"] == 0


def test_gigantic_pages_from_memory_not_initialised(guests: Guests) -> None:
    programs = (
        f"poke show before {DEFERRED}remaining_kb",
        f"poke write some {HUGE_1G} 2",
        f"poke show some {HUGE_1G}",
        f"poke show after {DEFERRED}remaining_kb",
        f"poke write none {HUGE_1G} 0",
        f"poke show none {HUGE_1G}",
    )
    ours = guests(asked("flatboot", "8G", programs, "lazy"))
    stock = guests(asked("stock", "8G", programs[1:3]))
    assert ours.files["some"] == stock.files["some"]
    assert ours.files["some"].strip() == "2"
    assert ours.files["none"].strip() == "0"
    taken = int(ours.files["before"]) - int(ours.files["after"])
    assert 0 < taken <= 4 << 20


def on_lists(zoneinfo: str) -> int:
    """Return the free memory on the lists of CPUs, in kB, which is in no zone's free pages."""
    return 4 * sum(int(count) for count in re.findall(r"^ +count: +(\d+)", zoneinfo, re.MULTILINE))


@pytest.mark.parametrize(
    ("config", "memory", "cpus", "number"), [("users", "4G", 1, 40), ("debug", "1G", 2, 6)]
)
def test_a_memory_block_goes_offline_and_comes_back(
    guests: Guests, config: str, memory: str, cpus: int, number: int
) -> None:
    """Blocks are of 128 MiB; these lie between what boot uses at both ends of a node."""
    block = f"{BLOCKS}memory{number}/state"
    record = guests(
        ask(
            config,
            memory,
            cpus,
            f"poke await listed {block} online",
            "poke show before /proc/meminfo",
            "poke show before_zones /proc/zoneinfo",
            f"poke write offline {block} offline",
            f"poke show offline {block}",
            "poke show without /proc/meminfo",
            "poke show without_zones /proc/zoneinfo",
            f"poke write online {block} online_movable",
            f"poke show online {block}",
            "poke show after /proc/meminfo",
            f"poke write complete {DEFERRED}complete 1",
            "poke show complete /proc/meminfo",
            "poke show complete_zones /proc/zoneinfo",
        )
    )
    assert record.results["write.offline"] == "ok"
    assert record.files["offline"].strip() == "offline"
    assert record.files["online"].strip() == "online"
    before, without, after, complete = (
        meminfo(record.files[name]) for name in ("before", "without", "after", "complete")
    )
    assert before["MemTotal"] - without["MemTotal"] == 128 << 10
    assert after["MemTotal"] == complete["MemTotal"] == before["MemTotal"]
    # Less than a block of 4 MiB, besides what both say that it is used for, and what left the lists
    # of CPUs, which offlining empties.
    used = itemised(complete) - itemised(before)
    lists = on_lists(record.files["complete_zones"]) - on_lists(record.files["before_zones"])
    assert abs(before["MemFree"] - complete["MemFree"] - used - lists) < 4096
    kept = zones(record.files["without_zones"])
    assert sum(zone.managed for zone in kept.values()) * 4 == without["MemTotal"]


@pytest.mark.parametrize(("config", "memory", "cpus"), CONFIGS)
def test_whoever_walks_all_pages_meets_none_that_is_not_initialised(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    walks = [
        "/proc/kpagecount",
        "/proc/kpageflags",
        "/proc/kpagecgroup",
        "/proc/pagetypeinfo",
        "/proc/buddyinfo",
        "/proc/zoneinfo",
        "/proc/slabinfo",
        "/proc/vmallocinfo",
    ]
    record = guests(
        ask(
            config,
            memory,
            cpus,
            *(f"poke drain {path.rpartition('/')[2]} {path}" for path in walks),
            "poke write caches /proc/sys/vm/drop_caches 3",
            "poke write compact /proc/sys/vm/compact_memory 1",
            "poke write refresh /proc/sys/vm/stat_refresh 1",
            f"poke show remaining {DEFERRED}remaining_kb",
            *(f"poke drain {path.rpartition('/')[2]}2 {path}" for path in walks),
        )
    )
    assert record.results["write.compact"] == "ok"
    assert record.results["write.caches"] == "ok"
    assert int(record.results["drain.kpagecount"]) > 0
    assert int(record.results["drain.kpageflags"]) == int(record.results["drain.kpagecount"])
    assert int(record.files["remaining"]) > 0
    at_mark = int(record.files[DEFERRED + "remaining_kb"])
    assert at_mark - int(record.files["remaining"]) <= 16 << 10


@pytest.mark.parametrize(("config", "memory", "cpus"), [("users", "1G", 1), ("debug", "512M", 2)])
def test_completing_and_filling_at_the_same_time(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    record = guests(
        ask(
            config,
            memory,
            cpus,
            f"poke later first {DEFERRED}complete 1",
            f"poke later second {DEFERRED}complete 1",
            f"poke later pool {HUGE_2M} 50",
            f"fill 4k {cpus} once",
            f"poke await done {DEFERRED}complete 1",
        )
    )
    assert record.results["fill.bad_words"] == "0"
    assert record.results["await.done"] == "ok"
    assert record.results["write.first"] == record.results["write.second"] == "ok"


@pytest.mark.parametrize("config", ["users", "debug"])
def test_filling_while_threads_work_in_the_background(guests: Guests, config: str) -> None:
    programs = ("fill thp 2 once",)
    record = guests(asked("flatboot", "1G", programs, "background", cpus=2, nodes=2, config=config))
    assert record.results["fill.bad_words"] == "0"
    assert record.results["fill.still_deferred"] == "0"
