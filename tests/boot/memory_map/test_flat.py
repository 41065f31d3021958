"""What boot costs hardly grows with memory, and what it left behind is there when it is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from guests import (
    BLOCKS,
    DEFERRED,
    HUGE_2M,
    LAST_BLOCK,
    Guests,
    asked,
    free_pages,
    meminfo,
    results,
)

from flatboot.guest import borrowed
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map-reserved")

#: What a kernel may use more at one time than at another.
NOISE_PAGES = 1024
CONFIGS = [("users", "4G", 1), ("debug", "4G", 2)]


def test_a_terabyte_costs_hardly_more_than_two_gigabytes(guests: Guests) -> None:
    small = guests(asked("flatboot", "2G", mode="lazy"))
    large = guests(asked("flatboot", "1T", mode="lazy"))
    assert large.to_init - small.to_init <= 2500 * (1 << 10), "2,500 instructions a GiB"
    # The rest of what QEMU takes more are its own bitmaps.
    assert large.ram_bytes - small.ram_bytes <= 0.04e9
    assert large.host_peak_bytes - small.host_peak_bytes <= 0.2e9
    assert large.meminfo["MemFree"] > 1000 << 20


def test_sixteen_terabytes_boot_on_a_small_host(guests: Guests) -> None:
    """Firmware breaks the ACPI tables at this size, so both go without."""
    small = guests(asked("flatboot", "2G", mode="lazy", cmdline="acpi=off"))
    large = guests(asked("flatboot", "16T", mode="lazy", cmdline="acpi=off"))
    assert large.to_init - small.to_init <= 1600 * (16 << 10), "1,600 instructions a GiB"
    assert large.host_peak_bytes < 24e9
    assert large.meminfo["MemFree"] > 15000 << 20


@pytest.mark.parametrize(
    ("linear_map", "most"), [("rodata=noalias", 1.05), ("linear_map=pages", 3)]
)
def test_64_gigabytes_on_arm64(guests: Guests, linear_map: str, most: float) -> None:
    """With rodata=noalias the linear map is made of blocks, else the CPU forces it into 4 KiB.

    That it need not be in boot is tested where the group linear-map is.
    """
    small, large = (
        guests(asked("flatboot", memory, mode="lazy", cmdline=linear_map, arch="arm64"))
        for memory in ("2G", "64G")
    )
    assert large.to_init <= most * small.to_init


def test_background_starts_user_space_as_early(guests: Guests) -> None:
    lazy = guests(asked("flatboot", "16G", mode="lazy"))
    background = guests(asked("flatboot", "16G", mode="background"))
    assert background.to_init <= 1.05 * lazy.to_init


def test_background_leaves_the_first_process_its_cpu(guests: Guests) -> None:
    """A loop makes nearly as many turns beside it as after a boot that waited."""
    loop = ("share 2000",)
    waited, beside = (
        results(guests(asked("flatboot", "64G", loop, mode)), "share.")
        for mode in ("wait", "background")
    )
    assert beside["deferred"] > 0
    assert beside["turns"] / beside["ticks"] >= 0.95 * waited["turns"] / waited["ticks"]


def ready_at(record: Record) -> int:
    """Return the instructions from reset to the kernel's message that its map is ready."""
    return int(record.results["ready.ticks"]) - 1000 * int(record.results["ready.age_us"])


def at_init(record: Record) -> int:
    return record.to_init


#: How struct pages come to be: mode, programs, and when they are there.
WAYS: dict[str, tuple[str | None, tuple[str, ...], Callable[[Record], int]]] = {
    "wait": ("wait", (), at_init),
    "by default": (None, (), at_init),
    "background": ("background", ("ready",), ready_at),
    "lazy, completed": ("lazy", (f"poke write all {DEFERRED}complete 1", "ready"), ready_at),
}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("by default", marks=pytest.mark.groups("struct-pages-once")),
        "wait",
        "background",
        "lazy, completed",
    ],
)
def test_a_page_costs_at_most_twenty_instructions(guests: Guests, way: str) -> None:
    """Small maps are ready before /init, so that there is nothing behind boot to measure."""
    mode, programs, until = WAYS[way]
    small, large = (guests(asked("flatboot", memory, programs, mode)) for memory in ("32G", "64G"))
    pages = (large.machine.memory_bytes - small.machine.memory_bytes) // 4096
    assert (until(large) - until(small)) / pages <= 20


def test_what_boot_keeps_for_itself_is_itemised(guests: Guests) -> None:
    """Bitmaps tell which part of the hash tables is zeroed: a bit for each 1 KiB."""
    waited = guests(asked("flatboot", "16G", mode="wait"))
    lazy = guests(asked("flatboot", "16G", mode="lazy"))
    tables_kb = 2 * (16 << 20) // 1024 + (64 << 10)
    assert 0 <= waited.meminfo["MemTotal"] - lazy.meminfo["MemTotal"] <= tables_kb // 8192 + 16


@pytest.mark.parametrize(("config", "memory", "cpus"), CONFIGS)
def test_memory_blocks_are_registered_behind_boot(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    # The zone is asked for at once: a block must not be seen before it has one.
    programs = (
        f"poke await listed {BLOCKS}{LAST_BLOCK}/state online",
        f"poke show zones {BLOCKS}{LAST_BLOCK}/valid_zones",
        f"poke show state {BLOCKS}{LAST_BLOCK}/state",
    )
    ours = guests(asked("flatboot", memory, programs, "lazy", cpus=cpus, nodes=cpus, config=config))
    stock = guests(asked("stock", memory, programs, cpus=cpus, nodes=cpus))
    assert ours.results["await.listed"] == "ok"
    assert ours.files["zones"] == stock.files["zones"]
    assert ours.files["state"].strip() == "online"


#: Lists the memory blocks as programs do: they ask for the size of a block first.
LIST = f"""
cat {BLOCKS}block_size_bytes
for block in {BLOCKS}memory*; do
	echo block ${{block##*/}} $(cat $block/state $block/valid_zones) $(cd $block; echo node*)
done
for node in /sys/devices/system/node/node*; do
	echo ${{node##*/}} $(cd $node; echo memory*)
done
"""


def test_who_lists_memory_blocks_finds_all(guests: Guests, tmp_path: Path) -> None:
    """Also right after boot, and those where nodes meet inside a block."""
    script = tmp_path / "list"
    script.write_text(LIST)
    files = (*borrowed.files("busybox").items(), ("list", script))
    programs = ("busybox sh /list",)
    listed = []
    for flavour, mode in (("stock", None), ("flatboot", "lazy")):
        record = guests(asked(flavour, "4098M", programs, mode, cpus=2, nodes=2, files=files))
        listed.append(re.findall(r"^(?:block|node\d) .*$", record.console, re.MULTILINE))
    assert listed[0] == listed[1]
    assert "block memory32 online none node0 node1" in listed[1]
    assert len(listed[1]) == 33 + 2


@pytest.mark.parametrize("config", ["users", pytest.param("debug", marks=pytest.mark.long)])
def test_bad_pages_of_a_block_that_is_not_registered_are_counted(
    guests: Guests, config: str
) -> None:
    """A block with a bad page does not get online again: so it is on stock."""
    block = f"{BLOCKS}memory40/state"
    programs = (
        f"poke write broken {BLOCKS}hard_offline_page {40 * (128 << 20) + (64 << 20):#x}",
        f"poke write offline {block} offline",
        f"poke write online {block} online",
    )
    record = guests(asked("flatboot", "4G", programs, "lazy", config=config))
    assert record.results["write.broken"] == record.results["write.offline"] == "ok"
    assert record.results["write.online"] == "EHWPOISON"


def test_memory_in_many_ranges_is_registered(guests: Guests) -> None:
    """More ranges than memblock has room for at first: their array is freed, and cleared, early."""
    holes = ",".join(f"4K${5000 + 16 * number}M" for number in range(140))
    blocks = {0: (*range(16), *range(32, 48)), 1: tuple(range(48, 80))}
    programs = [f"poke await listed {BLOCKS}memory79/state online"]
    for node, numbers in blocks.items():
        folder = f"/sys/devices/system/node/node{node}"
        programs += [f"poke show {number} {folder}/memory{number}/state" for number in numbers]
    cmdline = f"init_on_free=1 memmap={holes}"
    record = guests(
        asked("flatboot", "8G", tuple(programs), "lazy", cpus=2, nodes=2, cmdline=cmdline)
    )
    assert record.results["await.listed"] == "ok"
    for numbers in blocks.values():
        assert {record.files[str(number)].strip() for number in numbers} == {"online"}


@pytest.mark.parametrize(("config", "memory", "cpus"), CONFIGS)
def test_hugetlb_gives_back_memory_map_that_was_not_initialised(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    """A huge page gives back 7 of the 8 pages of its struct pages: their own must be there."""
    programs = (
        f"poke write some {HUGE_2M} 500",
        f"poke show some {HUGE_2M}",
        "poke show vmstat /proc/vmstat",
        f"poke write none {HUGE_2M} 0",
        f"poke show none {HUGE_2M}",
        f"poke write all {DEFERRED}complete 1",
        "poke show after /proc/meminfo",
        "poke show zones /proc/zoneinfo",
    )
    record = guests(
        asked(
            "flatboot",
            memory,
            programs,
            "lazy",
            cpus=cpus,
            nodes=cpus,
            config=config,
            cmdline="hugetlb_free_vmemmap=on",
        )
    )
    assert record.files["some"].strip() == "500"
    assert record.files["none"].strip() == "0"
    assert record.results["write.all"] == "ok"
    assert meminfo(record.files["after"])["Deferred"] == 0
    if config == "users":  # KASAN keeps what is freed for a while.
        before, after = (free_pages(record.files[name]) for name in ("/proc/zoneinfo", "zones"))
        # 500 pages gave back 7 pages of memory map each, and got others for them.
        assert before - after <= NOISE_PAGES


@pytest.mark.parametrize(("config", "memory", "cpus"), CONFIGS)
def test_reading_all_page_flags_finds_the_memory_map_reserved(
    guests: Guests, config: str, memory: str, cpus: int
) -> None:
    programs = (
        "poke drain flags /proc/kpageflags",
        "poke drain counts /proc/kpagecount",
        f"poke write all {DEFERRED}complete 1",
        "poke drain flags_again /proc/kpageflags",
    )
    record = guests(
        asked("flatboot", memory, programs, "lazy", cpus=cpus, nodes=cpus, config=config)
    )
    assert record.results["drain.flags"] == record.results["drain.flags_again"]
    assert record.results["write.all"] == "ok"
