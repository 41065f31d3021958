"""Pools of huge pages grow with several threads, and their pages are zeroed on request."""

from __future__ import annotations

import re

import pytest
from guests import (
    COMPARED,
    HUGE_2M,
    NODE_POOL,
    POOL_1G,
    POOL_2M,
    Guests,
    asked,
    meminfo,
    results,
)

from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import Node
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("huge-page-pools")

THREADS = "/proc/sys/vm/hugepage_alloc_threads"
POOL = "hugepages-2048kB/nr_hugepages"
UNZEROED, UNZEROED_1G = f"{POOL_2M}unzeroed_hugepages", f"{POOL_1G}unzeroed_hugepages"


def shown(record: Record, label: str) -> str:
    """Return what `poke show` printed of a file under *label*."""
    return record.files[label].strip()


def show(label: str, path: str) -> str:
    return f"poke show {label} {path}"


def grown(flavour: str, cmdline: str = "", config: str = "debug") -> BootSpec:
    """Return a boot that grows a pool in each way, and tells its pages by node.

    All memory of both nodes is not asked for: nothing is left for others then, on stock as well.
    """
    programs = [
        f"grow all {POOL} 301",
        *(show(f"all{node}", NODE_POOL.format(node=node) + "nr_hugepages") for node in (0, 1)),
        f"poke write node {NODE_POOL.format(node=1)}nr_hugepages 250",
        *(show(f"node{node}", NODE_POOL.format(node=node) + "nr_hugepages") for node in (0, 1)),
        "poke write sysctl /proc/sys/vm/nr_hugepages 420",
        *(show(f"sysctl{node}", NODE_POOL.format(node=node) + "nr_hugepages") for node in (0, 1)),
        "zeroed touch used huge-2m 840",
        f"poke write full {NODE_POOL.format(node=1)}nr_hugepages 100000",
        show("full1", NODE_POOL.format(node=1) + "nr_hugepages"),
        show("progress", f"{POOL_2M}alloc_progress"),
        f"grow none {POOL} 0",
        "poke show meminfo /proc/meminfo",
    ]
    return asked(
        flavour,
        "4G",
        tuple(programs),
        cpus=2,
        nodes=2,
        config=config,
        clock="wall",
        cmdline=cmdline,
    )


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("cmdline", ["", "hugepage_alloc_threads=3 hugetlb_free_vmemmap=on"])
def test_nodes_get_what_they_get_on_stock(guests: Guests, cmdline: str, config: str) -> None:
    stock, ours = (guests(grown(flavour, cmdline, config)) for flavour in ("stock", "flatboot"))
    for label in ("all", "node", "sysctl"):
        for node in "01":
            assert shown(ours, label + node) == shown(stock, label + node), label
    assert results(ours, "used.")["bad_words"] == 0
    full = [int(shown(record, "full1")) for record in (stock, ours)]
    assert full[1] == pytest.approx(full[0], rel=0.03)
    assert results(ours, "none.")["pages"] == 0
    free = [meminfo(shown(record, "meminfo"))["MemFree"] for record in (stock, ours)]
    assert free[1] == pytest.approx(free[0], rel=0.03)


def test_progress_says_how_far_it_got(guests: Guests) -> None:
    record = guests(grown("flatboot"))
    found = results(record, "all.")
    assert (found["done"], found["wanted"]) == (301, 301)
    done, wanted = map(int, shown(record, "progress").split())
    before = int(shown(record, "sysctl1"))
    assert (done, wanted) == (int(shown(record, "full1")) - before, 100000 - before)


def test_a_signal_ends_it_and_leaves_what_was_done(guests: Guests) -> None:
    record = guests(
        asked("flatboot", "64G", (f"grow stop pool {POOL} 30000 64",), cpus=2, clock="wall")
    )
    found = results(record, "pool.")
    assert 64 <= found["pages"] < 30000
    assert (found["done"], found["wanted"]) == (found["pages"], 30000)
    assert found["stop_ticks"] < results(record, "counter_")["hz"]


def test_the_number_of_threads_can_be_set(guests: Guests) -> None:
    values = ("5", "auto", "0", "many", "-1", "5000000000")
    programs = (
        show("boot", THREADS),
        *(
            step
            for value in values
            for step in (f"poke write {value} {THREADS} {value}", show(f"is{value}", THREADS))
        ),
    )
    record = guests(asked("flatboot", "1G", programs, cmdline="hugepage_alloc_threads=7"))
    assert shown(record, "boot") == "7"
    assert [record.results[f"write.{value}"] for value in values] == [
        "ok",
        "ok",
        "EINVAL",
        "EINVAL",
        "EINVAL",
        "EINVAL",
    ]
    assert [shown(record, f"is{value}") for value in values] == ["5", *["auto"] * 5]


def test_a_bad_number_at_boot_is_named_and_left_out(guests: Guests) -> None:
    values = ["0", "many", "", "-3"]
    cmdline = " ".join(["hugepages=100", *(f"hugepage_alloc_threads={value}" for value in values)])
    record = guests(
        asked("flatboot", "1G", (show("is", THREADS), show("nr", HUGE_2M)), cmdline=cmdline)
    )
    named = re.findall(r"hugepage_alloc_threads=(\S*) is neither auto nor a number", record.log)
    assert named == values
    assert (shown(record, "is"), shown(record, "nr")) == ("auto", "100")


def test_a_pool_of_boot_can_name_nodes(guests: Guests) -> None:
    nodes = [show(str(node), NODE_POOL.format(node=node) + "nr_hugepages") for node in (0, 1)]
    record = guests(
        asked(
            "flatboot",
            "4G",
            tuple(nodes),
            cpus=2,
            nodes=2,
            clock="wall",
            config="debug",
            cmdline="hugepages=0:100,1:333",
        )
    )
    assert [shown(record, node) for node in "01"] == ["100", "333"]
    assert re.search(
        r"allocation took \d+ms with hugepage_allocation_threads=\d \(auto\)", record.console
    )


#: A node without memory, and one without CPUs.
ODD_NODES = (Node(2 << 30, 1), Node(0, 1), Node(2 << 30, 0))


@pytest.mark.parametrize("config", COMPARED)
@pytest.mark.parametrize("mode", ["", "deferred_init=lazy hugetlb_deferred=on"])
@pytest.mark.parametrize("pools", ["0:50,1:20,2:60", "1:100", "80"])
def test_nodes_without_memory_or_cpus(guests: Guests, pools: str, mode: str, config: str) -> None:
    """A node that has no memory gets no pages, and no other gets them for it."""
    nodes = [show(str(node), NODE_POOL.format(node=node) + "nr_hugepages") for node in (0, 2)]
    programs = (
        show("boot", HUGE_2M),
        *nodes,
        f"grow more {POOL} 200",
        f"poke write node {NODE_POOL.format(node=2)}nr_hugepages 90",
        show("later", HUGE_2M),
    )
    records = [
        guests(
            asked(
                flavour,
                "4G",
                programs,
                cpus=2,
                nodes=ODD_NODES,
                clock="wall",
                config=config,
                cmdline=f"hugepages={pools} {parameters}".strip(),
            )
        )
        for flavour, parameters in (("stock", ""), ("flatboot", mode))
    ]
    for label in ("boot", "0", "2", "later"):
        found = [shown(record, label) for record in records]
        assert found[0] == found[1], label
    if pools == "1:100":
        assert shown(records[1], "boot") == "0"


def zeroing(cmdline: str) -> BootSpec:
    programs = (
        show("before", UNZEROED),
        f"poke write some {UNZEROED} 200",
        show("some", UNZEROED),
        f"poke write all {UNZEROED} 0",
        "zeroed touch taken huge-2m 600",
        f"poke write node {NODE_POOL.format(node=1)}unzeroed_hugepages 0",
        show("node", NODE_POOL.format(node=1) + "unzeroed_hugepages"),
        show("gigantic", UNZEROED_1G),
        f"poke write gigantic {UNZEROED_1G} 0",
        "zeroed touch big huge-1g 1024",
    )
    return asked(
        "flatboot",
        "4G",
        programs,
        "lazy",
        cpus=2,
        nodes=2,
        config="debug",
        clock="wall",
        cmdline=f"hugepages=300 hugepagesz=1G hugepages=1 prezero.verify=1 {cmdline}",
    )


@pytest.mark.groups("zeroed-pages")
@pytest.mark.parametrize("cmdline", ["", "hugetlb_deferred=on"])
def test_pages_are_zeroed_on_request(guests: Guests, cmdline: str) -> None:
    record = guests(zeroing(cmdline))
    assert [shown(record, label) for label in ("before", "some", "node", "gigantic")] == [
        "300",
        "200",
        "0",
        "1",
    ]
    for key in ("taken", "big"):
        found = results(record, f"{key}.")
        assert (found["bad_words"], found["taken"]) == (0, found["pages"]), key


@pytest.mark.groups("zeroed-pages")
def test_zeroing_is_refused_where_frees_clear(guests: Guests) -> None:
    programs = (f"poke write all {UNZEROED} 0", "zeroed touch used huge-2m 64")
    record = guests(asked("flatboot", "1G", programs, cmdline="hugepages=100 init_on_free=1"))
    assert record.results["write.all"] == "EOPNOTSUPP"
    assert results(record, "used.")["bad_words"] == 0
