"""Pools of huge pages that boot asks for are there at once, and their pages are built later."""

from __future__ import annotations

import dataclasses
import re

import pytest
from guests import (
    BLOCKS,
    COMPARED,
    HUGE_1G,
    HUGE_2M,
    NODE_POOL,
    POOL_1G,
    POOL_2M,
    QUIET,
    Guests,
    asked,
    results,
)

from flatboot.guest import borrowed
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import Node
from flatboot.kernel.build import KernelName
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("huge-page-pools")

HVO = "hugetlb_free_vmemmap=on"
#: Memory map that a huge page gives back by that, in kB.
SAVED_2M, SAVED_1G = 28, 16380
#: Free memory at one moment and not at another, and what the kernel image is larger by, in kB.
NOISE_KB = 8192
#: Pages of 2 MiB that are built together, and so are released together.
UNIT = 2
#: Of what boot cannot have altogether, pages of 2 MiB that it may get more or fewer of than stock.
FEW = 4
_OURS = ("hugetlb_deferred=", "deferred_init=")
DONE = "HugeTLB: all pages of boot are built"


def deferred(
    memory: str,
    cmdline: str,
    *programs: str,
    mode: str = "lazy",
    cpus: int = 2,
    nodes: int | tuple[Node, ...] = 2,
    config: str = "debug",
) -> BootSpec:
    """Return the ask for a guest, each CPU on a node of its own, that builds pools later."""
    return asked(
        "flatboot",
        memory,
        programs,
        mode,
        cpus=cpus,
        nodes=nodes,
        config=config,
        cmdline=f"hugetlb_deferred=on {cmdline}",
        clock="wall",
    )


def on_stock(ask: BootSpec) -> BootSpec:
    """Return the same on the stock kernel, which builds them at boot."""
    assert isinstance(ask.kernel, KernelName)
    words = [word for word in ask.cmdline.split() if not word.startswith(_OURS)]
    kernel = dataclasses.replace(ask.kernel, flavour="stock", groups=())
    return dataclasses.replace(ask, kernel=kernel, cmdline=" ".join(words))


def unbuilt(record: Record, label: str) -> dict[str, int]:
    """Return the pages that were not built, as in {"2m": 4, "2m.node0": 4}, where there were."""
    found = results(record, f"{label}.")
    counts = {key.removesuffix(".unbuilt"): found[key] for key in found if key.endswith(".unbuilt")}
    assert counts
    for pool in ("2m", "1g"):
        assert sum(counts[key] for key in counts if key.startswith(f"{pool}.")) == counts[pool]
    return {key: count for key, count in counts.items() if count}


def assert_counts_alike(record: Record, stock: Record, labels: str, by_node: bool = True) -> None:
    """Fail unless all pools count the same, and all went as well."""
    for label in labels.split():
        mine, theirs = (results(each, f"{label}.") for each in (record, stock))
        assert theirs, label
        for key, count in theirs.items():
            if key != "memory" and (by_node or "node" not in key):
                assert mine[key] == count, f"{label}.{key}"


def assert_used(record: Record, stock: Record | None = None) -> None:
    """Fail if a page did not read as zero, or did not keep what was written, or none was had."""
    had = {key: value for key, value in record.results.items() if key.endswith(".had")}
    assert any(int(value) for value in had.values())
    if stock is not None:
        assert had == {key: stock.results[key] for key in had}
    for key in had:
        assert record.results[key.replace(".had", ".bad_words")] == "0", key


def assert_answers_alike(record: Record, stock: Record) -> None:
    """Fail unless all writes, and all mappings, went as they do on stock."""
    told = re.compile(r"write\.|map\.")
    mine, theirs = (
        {key: value for key, value in each.results.items() if told.match(key)}
        for each in (record, stock)
    )
    assert mine == theirs


def assert_free_alike(record: Record, stock: Record, label: str, owed_kb: int = 0) -> None:
    """Fail unless as much memory is free, but for what is owed to pages that are not built."""
    mine, theirs = (results(each, f"{label}.")["memory"] for each in (record, stock))
    assert abs(theirs - mine - owed_kb) <= NOISE_KB


TAKEN = (
    "pool first 2m map:100 count:first touch:1 count:some punch:10 count:punched unmap count:back",
    "pool bound 2m bind:1 map:20 touch:1 count:bound",
    "pool gigantic 1g bind:1 map:1 touch:1 count:gigantic",
    f"poke write over {POOL_2M}nr_overcommit_hugepages 20",
    "pool over 2m map:310 count:reserved touch:2 count:over unmap count:under",
    "pool none 2m noreserve:330 touch:1 count:all",
    "pool rest 1g map:2 touch:2 count:rest",
    "pool again 2m map:300 touch:2 count:again",
    "pool last 2m count:last",
)
COUNTED = "first some punched back bound gigantic reserved over under all rest again last"


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("hvo", ["", HVO])
def test_a_pool_is_counted_at_once_and_built_when_it_is_taken(
    guests: Guests, hvo: str, config: str
) -> None:
    # The same of each node, also where four threads share them out, each from the first node on.
    boot = "hugepagesz=2M hugepages=304 hugepagesz=1G hugepages=1:2"
    ask = deferred("8G", boot, *TAKEN, config=config)
    stock = guests(on_stock(ask))
    record = guests(dataclasses.replace(ask, cmdline=f"{ask.cmdline} {hvo}".strip()))
    first = results(record, "first.")
    assert (first["2m.nr"], first["2m.free"], first["2m.resv"]) == (304, 304, 100)
    assert (first["1g.nr"], first["1g.free"], first["total"]) == (2, 2, 304)
    pools = {"2m": 304, "2m.node0": 152, "2m.node1": 152, "1g": 2, "1g.node1": 2}
    assert unbuilt(record, "first") == pools
    assert 0 < unbuilt(record, "some")["2m.node0"] <= 52
    assert unbuilt(record, "some")["2m.node1"] == 152
    assert unbuilt(record, "gigantic")["1g"] == 1
    assert unbuilt(record, "last") == {}
    assert DONE in record.log
    assert_counts_alike(record, stock, COUNTED)
    assert_answers_alike(record, stock)
    assert_used(record, stock)
    saved_kb = 304 * SAVED_2M + 2 * SAVED_1G if hvo else 0
    assert_free_alike(record, stock, "first")
    assert_free_alike(record, stock, "last", -saved_kb)


RESIZED = (
    "pool a 2m count:first",
    f"poke write fewer {HUGE_2M} 300",
    "pool b 2m count:fewer",
    f"poke write more {HUGE_2M} 350",
    "pool c 2m count:more",
    f"poke write odd {HUGE_2M} 251",
    "pool d 2m count:odd",
    f"poke write node {NODE_POOL.format(node=1)}nr_hugepages 101",
    "pool e 2m count:node",
    f"pool held 2m map:60 run poke write held {HUGE_2M} 10 then"
    " count:kept touch:1 unmap count:left",
    f"poke write demote {POOL_1G}demote 1",
    "pool demoted 2m count:demoted bind:1 map:512 touch:2",
    f"poke write gigantic {HUGE_1G} 0",
    "pool f 2m count:gone",
    f"poke write back {HUGE_2M} 400",
    "pool back 2m count:back map:400 touch:2",
    f"poke write none {HUGE_2M} 0",
    "pool g 2m count:none",
)


@pytest.mark.parametrize("config", COMPARED)
def test_a_pool_that_is_not_built_is_made_smaller_and_larger(guests: Guests, config: str) -> None:
    boot = "hugepagesz=2M hugepages=400 hugepagesz=1G hugepages=1:2"
    ask = deferred("8G", boot, *RESIZED, config=config)
    record, stock = guests(ask), guests(on_stock(ask))
    assert_counts_alike(record, stock, "first fewer more demoted gone back none")
    assert_counts_alike(record, stock, "odd kept left", by_node=False)
    for pool in ("2m.node0.nr", "2m.node1.nr"):
        for label in ("odd", "node"):
            mine, theirs = (results(each, f"{label}.")[pool] for each in (record, stock))
            assert abs(mine - theirs) <= UNIT
    assert results(record, "node.")["2m.node1.nr"] == 101
    assert_answers_alike(record, stock)
    assert_used(record, stock)
    for label in ("first", "fewer", "more", "gone", "none"):
        assert_free_alike(record, stock, label)
    # What was given back had not been built.
    assert unbuilt(record, "fewer")["2m"] == unbuilt(record, "more")["2m"] == 300
    assert unbuilt(record, "demoted") == {"1g": 1, "1g.node1": 1}
    assert unbuilt(record, "none") == {}


def test_demotion_builds_nothing_that_is_reserved(guests: Guests) -> None:
    """What it may not have is left as it is."""
    programs = (
        f"poke show size {POOL_1G}demote_size",
        f"pool held 1g map:2 run poke write all {POOL_1G}demote 2 then count:held",
        f"pool free 1g map:1 run poke write one {POOL_1G}demote 1 then count:free",
    )
    ask = deferred("8G", "hugepagesz=1G hugepages=2", *programs, cpus=1, nodes=1, config="users")
    record, stock = guests(ask), guests(on_stock(ask))
    assert_counts_alike(record, stock, "held free")
    assert_answers_alike(record, stock)
    assert unbuilt(record, "held") == {"1g": 2, "1g.node0": 2}
    assert unbuilt(record, "free") == {"1g": 1, "1g.node0": 1}


# 6.12 makes the map before any pool, so that neither kernel gets more pages than fit beside it.
@pytest.mark.default_base
def test_gigantic_pages_leave_room_for_the_memory_map(guests: Guests) -> None:
    """They leave 4 GiB, and the map of all memory takes 8: boot shares it, as it does on stock."""
    pool = f"{HVO} hugepagesz=1G hugepages=508"
    ask = deferred("512G", pool, "pool boot 1g count:boot", cpus=1, nodes=1, config="users")
    record, stock = guests(ask), guests(on_stock(ask))
    assert results(record, "boot.")["1g.nr"] == 508
    assert_counts_alike(record, stock, "boot")
    assert unbuilt(record, "boot") == {}


def test_what_a_pool_gives_back_is_had_by_others(guests: Guests) -> None:
    """Whoever fills memory beside the pool has looked at all blocks, and must look at these again.

    The results are those of the second fill.
    """
    programs = (*QUIET, "fill 4k 1 once", f"poke write none {HUGE_2M} 0", "fill 4k 1 once")
    cmdline = "hugetlb_deferred=on hugepages=200"
    record = guests(asked("flatboot", "1G", programs, "lazy", cmdline=cmdline))
    fill = results(record, "fill.")
    assert fill["pages"] > 200 * 512
    assert fill["still_deferred"] == fill["bad_words"] == 0


#: Node 1 begins at 6 GiB. Most of the pool lies behind it, and the gigantic page in the middle.
NODE_START = 6 << 30
BLOCK = 128 << 20
GIGANTIC = NODE_START + (18 << 27)
BROKEN = {
    "gigantic": f"{BLOCKS}hard_offline_page {GIGANTIC:#x}",
    "hard": f"{BLOCKS}hard_offline_page {NODE_START + (5 << 27) + 4096:#x}",
    "soft": f"{BLOCKS}soft_offline_page {NODE_START + (5 << 27) + (16 << 20):#x}",
    "pfn": f"/sys/kernel/debug/hwpoison/corrupt-pfn {(NODE_START + (6 << 27)) // 4096 + 1:#x}",
}
STATE = f"{BLOCKS}memory{NODE_START // BLOCK + 8}/state"


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("hvo", ["", pytest.param(HVO, marks=pytest.mark.long)])
def test_pages_that_are_not_built_break_and_go_offline(
    guests: Guests, hvo: str, config: str
) -> None:
    programs = []
    for number, (label, what) in enumerate(BROKEN.items()):
        programs += [f"poke write {label} {what}", f"pool b{number} 2m count:{label}"]
    pools = f"hugepagesz=2M hugepages=0:0,1:900 hugepagesz=1G hugepages=1:1 {hvo}".strip()
    ask = deferred(
        "8G",
        pools,
        "pool a 2m count:first",
        *programs,
        f"poke await listed {STATE} online",
        f"poke write offline {STATE} offline",
        "pool c 2m count:offline",
        f"poke write online {STATE} online",
        "pool d 2m count:online",
        "pool left 2m bind:1 noreserve:900 touch:2 count:taken",
        config=config,
    )
    record, stock = guests(ask), guests(on_stock(ask))
    labels = " ".join(BROKEN)
    assert_counts_alike(record, stock, f"first {labels} offline online taken")
    assert_answers_alike(record, stock)
    assert_used(record, stock)
    assert {record.results[f"write.{label}"] for label in (*BROKEN, "offline", "online")} == {"ok"}
    assert unbuilt(record, "first")["1g"] == 1
    assert unbuilt(record, "gigantic") == {"2m": 900, "2m.node1": 900}
    # With the memory map given back, as much as takes flushing TLBs once is built together.
    left = [unbuilt(record, label)["2m"] for label in ("gigantic", "hard", "offline")]
    assert left[0] > left[1] > left[2]
    if not hvo:
        for label, left_now in (("hard", 1), ("soft", 2), ("pfn", 3)):
            assert unbuilt(record, label)["2m"] == 900 - UNIT * left_now
    assert results(record, "offline.")["2m.nr"] < results(record, "pfn.")["2m.nr"]
    assert unbuilt(record, "taken") == {}


@pytest.mark.parametrize("hvo", ["", HVO])
def test_pools_test_themselves(guests: Guests, hvo: str) -> None:
    """At boot what changes no pool; when debugfs asks, the rest too."""
    suite = "/sys/kernel/debug/kunit/hugetlb_deferred"
    pools = f"hugepagesz=2M hugepages=0:60,1:400 hugepagesz=1G hugepages=1:1 {hvo}".strip()
    shown = [f"{POOL_2M}{file}" for file in ("nr_hugepages", "unbuilt_hugepages")]
    programs = (
        *(f"poke show before{number} {path}" for number, path in enumerate(shown)),
        f"poke write again {suite}/run 1",
        f"poke show results {suite}/results",
        *(f"poke show after{number} {path}" for number, path in enumerate(shown)),
    )
    record = guests(deferred("8G", pools, *programs, config="debug"))
    assert re.search(r"ok \d+ hugetlb_deferred\n", record.log), "KUnit tests did not run"
    found = re.findall(r"^ +ok \d+ hugetlb_(\w+)_test(.*)$", record.files["results"], re.M)
    assert found == [(name, "") for name in ("claim", "counts", "build", "shrink", "poison")]
    before, after = (
        [int(record.files[f"{when}{number}"]) for number in range(len(shown))]
        for when in ("before", "after")
    )
    assert before == [460, 460]
    # Shrinking takes a unit, and poison a page; each of the three builds or takes a unit.
    assert after[0] == before[0] - UNIT - 1
    assert after[1] <= before[1] - 3 * UNIT


BAD = {
    "hugepagesz=2M hugepages=0:4000,1:20 hugepagesz=1G hugepages=7:10 hugepagesz=3M hugepages=4": (
        r"hugetlb_deferred=junk is neither on nor off, ignoring",
        r"HugeTLB: allocating 4000 of page size 2\.00 MiB failed node0\. +Only allocated \d+ ",
        r"HugeTLB: Invalid hugepages parameter 7:10",
        r"HugeTLB: unsupported hugepagesz=3M",
    ),
    "hugepagesz=2M hugepages=1:4000,0:60 hugepagesz=1G hugepages=9": (
        r"HugeTLB: allocating 9 of page size 1\.00 GiB failed\. +Only allocated 0 hugepages",
        r"HugeTLB: allocating 4000 of page size 2\.00 MiB failed node1\. +Only allocated \d+ ",
    ),
}


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("pools", BAD)
def test_what_cannot_be_had_is_told(guests: Guests, pools: str, config: str) -> None:
    """The first value of hugetlb_deferred= stays in force.

    With two CPUs the boots of either kernel differ by 20 pages: 40 MiB come from one node or the
    other.
    """
    pool = "pool some 2m count:first map:50 touch:1"
    ask = deferred("2G", pools, pool, cpus=1, config=config)
    stock = guests(on_stock(ask))
    junk = dataclasses.replace(ask, cmdline=f"{ask.cmdline} hugetlb_deferred=junk")
    record = guests(junk)
    for message in BAD[pools]:
        assert re.search(message, record.log), message
    first, theirs = results(record, "first."), results(stock, "first.")
    assert abs(first["2m.nr"] - theirs["2m.nr"]) <= FEW
    assert first["2m.free"] == first["2m.nr"] == first["total"]
    allocated = sum(map(int, re.findall(r"2\.00 MiB failed.*Only allocated (\d+)", record.log)))
    assert allocated == first["2m.nr"] - (20 if "1:20" in pools else 60)
    assert unbuilt(record, "first")["2m"] > first["2m.nr"] // 2
    assert_used(record, stock)


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("pages", ["5", "0:3,1:2"])
def test_gigantic_pages_that_a_node_has_not(guests: Guests, pages: str, config: str) -> None:
    """They come from another, or are not had, as on stock; and each is counted where it lies."""
    nodes = (Node(2 << 30, 1), Node(6 << 30, 1))
    pools = f"hugepagesz=1G hugepages={pages}"
    pool = "pool some 1g count:first map:2 touch:2"
    ask = deferred("8G", pools, pool, nodes=nodes, config=config)
    record, stock = guests(ask), guests(on_stock(ask))
    assert_counts_alike(record, stock, "first")
    assert unbuilt(record, "first")["1g"]
    assert_used(record, stock)


def test_pools_are_built_at_boot_where_the_memory_map_is(guests: Guests) -> None:
    record = guests(
        deferred("2G", "hugepages=64", "pool all 2m count:first map:64 touch:1", mode="wait")
    )
    assert "hugetlb_deferred=on needs deferred_init=lazy or background" in record.log
    assert results(record, "first.")["2m.nr"] == 64
    assert unbuilt(record, "first") == {}
    assert_used(record)


@pytest.mark.parametrize("hvo", ["", HVO])
@pytest.mark.parametrize(
    ("size", "pool", "pages"),
    [("2m", "hugepagesz=2M hugepages=28672", 28672), ("1g", "hugepagesz=1G hugepages=56", 56)],
)
def test_a_pool_costs_boot_hardly_anything(
    guests: Guests, size: str, pool: str, pages: int, hvo: str
) -> None:
    plain = guests(asked("flatboot", "64G", mode="lazy"))
    cmdline = f"hugetlb_deferred=on {pool} {hvo}".strip()
    count = ("pool all 2m count:first",)
    record = guests(asked("flatboot", "64G", count, "lazy", cmdline=cmdline))
    assert record.to_init <= 1.10 * plain.to_init
    assert results(record, "first.")[f"{size}.free"] == pages
    assert unbuilt(record, "first")[size] == pages


#: 9 GiB of 12: KASAN takes an eighth of memory, and boot its share.
LARGE = "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=2560"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("hvo", ["", HVO])
def test_all_of_a_large_pool_is_taken(guests: Guests, hvo: str, nodes: int) -> None:
    """The rest of memory is filled beside it: no page is in both."""
    record = guests(
        deferred(
            "12G",
            f"{LARGE} {hvo}".strip(),
            "pool gigantic 1g count:first map:4 touch:2",
            "pool all 2m map:2560 touch:2 count:taken run fill 4k 2 once then check",
            "pool last 2m count:last",
            "fill 4k 2 once",
            nodes=nodes,
        )
    )
    first, taken, last = (results(record, f"{label}.") for label in ("first", "taken", "last"))
    assert (first["1g.nr"], first["1g.free"]) == (last["1g.nr"], last["1g.free"]) == (4, 4)
    assert (first["2m.nr"], first["2m.free"]) == (last["2m.nr"], last["2m.free"]) == (2560, 2560)
    assert unbuilt(record, "first")["2m"] == 2560
    assert unbuilt(record, "last") == {}
    assert taken["2m.free"] == 0
    assert (record.results["gigantic.had"], record.results["all.had"]) == ("4", "2560")
    assert_used(record)
    assert record.results["fill.bad_words"] == "0"
    assert DONE in record.log


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hvo", ["", HVO])
def test_pools_are_built_behind_boot(guests: Guests, hvo: str) -> None:
    record = guests(
        deferred(
            "12G",
            f"{LARGE} {hvo}".strip(),
            "pool first 2m count:first map:100 touch:2",
            f"poke await small {POOL_2M}unbuilt_hugepages 0",
            f"poke await gigantic {POOL_1G}unbuilt_hugepages 0",
            "pool last 2m count:last map:2560 touch:2",
            mode="background",
        )
    )
    first, last = (results(record, f"{label}.") for label in ("first", "last"))
    assert record.results["await.small"] == record.results["await.gigantic"] == "ok"
    for key in ("2m.nr", "2m.free", "1g.nr", "1g.free"):
        assert first[key] == last[key]
    assert last["2m.free"] == 2560
    assert_used(record)
    assert DONE in record.log


#: Takes and resizes at the same time, again and again, from a pool that is being built.
RACE = f"""
for round in 1 2 3 4 5 6 7 8; do
	/bin/pool two$round 2m noreserve:200 touch:2 &
	/bin/pool one$round 2m bind:1 noreserve:150 touch:1 &
	/bin/pool big$round 1g noreserve:1 touch:1 &
	for pages in 1501 999 1400 701 1200; do echo $pages > {HUGE_2M}; done
	wait
done
"""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.parametrize("hvo", ["", HVO])
def test_takers_resizers_and_builders_race(guests: Guests, hvo: str, mode: str) -> None:
    commands = "; ".join(line.strip() for line in RACE.strip().splitlines())
    commands = re.sub(r"(do|&);", r"\1", commands)
    ask = deferred(
        "8G",
        f"hugepagesz=2M hugepages=1600 hugepagesz=1G hugepages=1:2 {hvo}".strip(),
        "pool first 2m count:first",
        f"bash -c '{commands}'",
        "pool last 2m count:last map:1200 touch:2 unmap count:freed",
        f"poke write none {HUGE_2M} 0",
        "pool none 2m count:none",
        mode=mode,
    )
    record = guests(dataclasses.replace(ask, files=tuple(borrowed.files("bash").items())))
    for label, pages in (("first", 1600), ("last", 1200), ("freed", 1200), ("none", 0)):
        found = results(record, f"{label}.")
        assert found["2m.nr"] == found["2m.free"] == pages, label
        assert found["2m.resv"] == found["2m.surplus"] == 0
        assert sum(found[f"2m.node{node}.free"] for node in range(2)) == pages
    assert "2m" not in unbuilt(record, "none")
    assert_used(record)
    assert record.results["last.had"] == "1200"
