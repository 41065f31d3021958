"""Memory that is not initialised yet counts as what it is, free memory, and none of it is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from guests import Guests, asked, free_pages, meminfo, zones

from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

MODES = ["wait", "background", "lazy"]
#: The smaller with one node and the larger with two; the others of these run with the long tests.
SIZES = [
    ("512M", 1),
    # Two zones on one node.
    ("6G", 1),
    pytest.param("768M", 2, marks=pytest.mark.long),
    pytest.param("4G", 1, marks=pytest.mark.long),
    ("4G", 2),
]
#: The parts of the kernel image are rounded up to pages, and percpu memory to chunks, in kB.
ROUNDING_KB = 128
#: A watermark is a share of the managed pages: what the image's growth moves it by, in pages.
ROUNDING_PAGES = 8
#: Memory in use at one moment and not at another: a few stacks, slabs and CPUs' lists, in kB.
NOISE_KB = 2048
LOOK = (
    "poke show meminfo /proc/meminfo",
    "poke sysinfo now",
    "poke show meminfo2 /proc/meminfo",
)


@dataclass(frozen=True)
class Said:
    """What the kernel log says of memory, in kB.

    Attributes:
        present: all memory that firmware gives.
        reserved: what was not free when memory was handed to the page allocator.
        image: code, data and the rest of the kernel image.
        freed: what was freed after that.
    """

    present: int
    reserved: int
    image: int
    freed: int


def said(record: Record) -> Said:
    memory = re.search(
        r"Memory: \d+K/(\d+)K available \((\d+)K kernel code, (\d+)K rwdata, (\d+)K rodata,"
        r" (\d+)K init, (\d+)K bss, (\d+)K reserved",
        record.log,
    )
    assert memory, record.log
    present, *image, reserved = map(int, memory.groups())
    after = record.log[memory.end() :]
    freed = [int(kb) for kb in re.findall(r"Freeing .*: (\d+)K$", after, re.MULTILINE)]
    return Said(present, reserved, sum(image), sum(freed))


def image_growth(ours: Record, stock: Record) -> int:
    """Return what the kernel image of ours takes more, in kB, as both logs itemise it."""
    mine, theirs = said(ours), said(stock)
    growth = (mine.reserved - mine.freed) - (theirs.reserved - theirs.freed)
    assert abs(growth - (mine.image - theirs.image)) <= ROUNDING_KB
    return growth


def node_growth(ours: Record, stock: Record) -> tuple[int, int]:
    """Return what a node may have less with ours, and more, in kB.

    What is reserved may be more on one node, and what is freed again on another: the image, which
    lies on one, holds more that boot alone needs, and is smaller for that where sections begin on
    a page; and boot allocates more elsewhere.
    """
    mine, theirs = said(ours), said(stock)
    fewer, more = mine.reserved - theirs.reserved, mine.freed - theirs.freed
    if (growth := image_growth(ours, stock)) > 0:
        return max(growth, fewer), max(more, 0)
    return fewer, more


def pair(guests: Guests, memory: str, nodes: int, mode: str) -> tuple[Record, Record]:
    ours = guests(asked("flatboot", memory, LOOK, mode, cpus=nodes, nodes=nodes))
    stock = guests(asked("stock", memory, LOOK, cpus=nodes, nodes=nodes))
    return ours, stock


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_no_memory_is_lost(guests: Guests, mode: str, memory: str, nodes: int) -> None:
    ours, stock = pair(guests, memory, nodes, mode)
    for record in (ours, stock):
        log = said(record)
        assert record.meminfo["MemTotal"] == log.present - log.reserved + log.freed
    lost = stock.meminfo["MemTotal"] - ours.meminfo["MemTotal"]
    assert lost == image_growth(ours, stock)


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_every_node_has_its_share(guests: Guests, mode: str, memory: str, nodes: int) -> None:
    ours, stock = pair(guests, memory, nodes, mode)
    less, _ = node_growth(ours, stock)
    shares = []
    for node in range(nodes):
        path = f"/sys/devices/system/node/node{node}/meminfo"
        mine, theirs = meminfo(ours.files[path]), meminfo(stock.files[path])
        assert mine["MemTotal"] >= theirs["MemTotal"] - less
        shares.append(mine["MemTotal"])
    assert sum(shares) == ours.meminfo["MemTotal"]


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_zones_are_as_stock_makes_them(guests: Guests, mode: str, memory: str, nodes: int) -> None:
    ours, stock = pair(guests, memory, nodes, mode)
    fewer, more = (kb / 4 for kb in node_growth(ours, stock))
    mine, theirs = zones(ours.files["/proc/zoneinfo"]), zones(stock.files["/proc/zoneinfo"])
    assert set(mine) == set(theirs)
    # What boot allocated may lie on another node, such as the hash tables, 6 MiB at 4 GiB.
    elsewhere = sum(max(mine[key].free - zone.free, 0) for key, zone in theirs.items())
    for key, zone in theirs.items():
        assert mine[key].present == zone.present
        assert zone.managed - fewer <= mine[key].managed <= zone.managed + more
        for mark in ("min", "low", "high"):
            assert abs(getattr(mine[key], mark) - getattr(zone, mark)) <= ROUNDING_PAGES, mark
        for stock_pages, our_pages in zip(zone.protection, mine[key].protection, strict=True):
            assert abs(stock_pages - our_pages) <= ROUNDING_PAGES
        assert mine[key].free >= zone.free - elsewhere - fewer - 2 * NOISE_KB / 4


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_free_memory_is_what_stock_shows(
    guests: Guests, mode: str, memory: str, nodes: int
) -> None:
    ours, stock = pair(guests, memory, nodes, mode)
    allowed = image_growth(ours, stock) + NOISE_KB
    mine, theirs = (free_pages(record.files["/proc/zoneinfo"]) * 4 for record in (ours, stock))
    assert mine >= theirs - allowed
    for record, free in ((ours, mine), (stock, theirs)):
        assert record.meminfo["MemFree"] <= free + NOISE_KB
    lists = (theirs - stock.meminfo["MemFree"]) - (mine - ours.meminfo["MemFree"])
    shown = ours.meminfo["MemAvailable"]
    assert shown >= stock.meminfo["MemAvailable"] - allowed + min(lists, 0)


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_sysinfo_agrees(guests: Guests, mode: str, memory: str, nodes: int) -> None:
    ours, _ = pair(guests, memory, nodes, mode)
    before, after = meminfo(ours.files["meminfo"]), meminfo(ours.files["meminfo2"])
    assert int(ours.results["sysinfo.now.total"]) == before["MemTotal"] == after["MemTotal"]
    free = int(ours.results["sysinfo.now.free"])
    low, high = sorted((before["MemFree"], after["MemFree"]))
    assert low - NOISE_KB <= free <= high + NOISE_KB


@pytest.mark.parametrize(("memory", "nodes"), SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_memory_of_boot_is_freed(guests: Guests, mode: str, memory: str, nodes: int) -> None:
    ours, _ = pair(guests, memory, nodes, mode)
    for what in ("initrd memory", r"unused kernel image \(initmem\) memory"):
        freed = re.findall(rf"Freeing {what}: (\d+)K", ours.log)
        assert len(freed) == 1
        assert int(freed[0]) > 100


def test_it_is_available_to_cpus_that_come_up(guests: Guests) -> None:
    """On stock half of these find no memory for their ring buffer before all is initialised."""
    size = "poke show size /sys/kernel/tracing/per_cpu/cpu15/buffer_size_kb"
    record = guests(
        asked(
            "flatboot",
            "2G",
            (size,),
            cpus=16,
            clock="wall",
            cmdline="lpj=4000000 trace_event=sched:sched_switch trace_buf_size=16M",
        )
    )
    assert "failed to allocate ring buffer" not in record.log
    assert int(record.files["size"]) >= 16 << 10
