"""Pools of huge pages grow with several threads."""

from __future__ import annotations

import re

import pytest
from guests import (
    COMPARED,
    HUGE_2M,
    NODE_POOL,
    Guests,
    asked,
    meminfo,
    results,
    vmstat,
)

from flatboot.guest import borrowed
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import Node
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("huge-page-pools")

POOL = "hugepages-2048kB/nr_hugepages"


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


def test_a_signal_ends_it_and_leaves_what_was_done(guests: Guests) -> None:
    record = guests(
        asked("flatboot", "64G", (f"grow stop pool {POOL} 30000 64",), cpus=2, clock="wall")
    )
    found = results(record, "pool.")
    assert 64 <= found["pages"] < 30000
    assert found["stop_ticks"] < results(record, "counter_")["hz"]


@pytest.mark.parametrize(
    ("count", "threads"),
    [("", 8), ("hugepage_alloc_threads=3", 3), ("hugepage_alloc_threads=1", 1)],
)
def test_so_many_threads_fill_a_pool_of_boot(guests: Guests, count: str, threads: int) -> None:
    """By default a node has eight, also if it has more CPUs."""
    cmdline = f"hugepages=100 {count}".strip()
    record = guests(asked("flatboot", "2G", (show("nr", HUGE_2M),), cpus=10, cmdline=cmdline))
    assert shown(record, "nr") == "100"
    found = re.findall(r"hugepage_allocation_threads=(\d+)$", record.log, re.M)
    assert found == [str(threads)]


def test_what_is_not_free_is_left_to_who_asks(guests: Guests) -> None:
    """Memory full of dirty page cache: nothing is scanned that is not scanned without threads."""
    disk = (
        "-blockdev",
        "null-co,node-name=disk,size=4294967296",
        "-device",
        "virtio-blk-pci,drive=disk",
    )
    # What is cached of a disk goes when the last one closes it.
    commands = (
        "exec 3</dev/vda",
        "busybox dd if=/dev/zero of=/dev/vda bs=1M count=1600",
        "/bin/poke show before /proc/vmstat",
        f"/bin/grow pool {POOL} 800",
        "/bin/poke show after /proc/vmstat",
    )
    programs = (
        f"grow first {POOL} 1",
        f"poke show first {HUGE_2M}",
        f"bash -c '{'; '.join(commands)}'",
    )
    files = tuple(borrowed.files("bash", "busybox").items())
    pages, scanned = {}, {}
    for flavour in ("stock", "flatboot"):
        ask = asked(
            flavour,
            "2G",
            programs,
            cpus=2,
            config="users",
            clock="wall",
            files=files,
            arguments=disk,
        )
        record = guests(ask)
        before, after = (vmstat(record.files[label]) for label in ("before", "after"))
        pages[flavour] = results(record, "pool.")["pages"]
        scanned[flavour] = sum(
            after[kind] - before[kind] for kind in ("pgscan_direct", "pgscan_kswapd")
        )
    assert scanned["stock"] > 0
    assert scanned["flatboot"] <= 1.1 * scanned["stock"]
    assert pages["flatboot"] >= 0.98 * pages["stock"]


def test_a_bad_number_at_boot_is_named_and_left_out(guests: Guests) -> None:
    values = ["0", "many", "", "-3"]
    cmdline = " ".join(["hugepages=100", *(f"hugepage_alloc_threads={value}" for value in values)])
    record = guests(asked("flatboot", "1G", (show("nr", HUGE_2M),), cmdline=cmdline))
    named = re.findall(r"hugepage_alloc_threads=(\S*) is neither auto nor a number", record.log)
    assert named == values
    assert shown(record, "nr") == "100"


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
    assert re.search(r"allocation took \d+ms with hugepage_allocation_threads=2\b", record.console)


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
