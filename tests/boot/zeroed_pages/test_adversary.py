"""User space that looks for what others left finds nothing, whichever way it gets its memory."""

from __future__ import annotations

import dataclasses

import pytest
from guests import Guests, asked, vmstat

pytestmark = pytest.mark.groups("zeroed-pages")

#: How long an adversary looks; an hour is in parts, as the kernel changes its own code all the
#: time: a boot in which the emulator runs code that is no more is done again.
SECONDS, PARTS, PART_SECONDS = 50, 30, 120
COUNTS_64K = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/"
SWAP = ("poke write size /sys/block/zram0/disksize 256M", "swap /dev/zram0")
#: The ways that a config leaves out: io_uring is in the one to pin memory alone, which has none of
#: what others have for those who use memory in their own ways.
MISSING = {
    "users": {"io-uring"},
    "debug": {"io-uring"},
    "vfio": {"ksm", "pin", "uffd-copy", "uffd-move", "uffd-zeropage"},
}
#: What the kernel counts if the ways do what their names say, and what it needs swap or KSM for.
EVENTS = (
    *("prezero_zeroed", "prezero_taken", "thp_fault_alloc", "thp_file_alloc", "thp_collapse_alloc"),
    *("thp_split_page", "pgmigrate_success", "compact_isolated", "drop_pagecache", "pglazyfreed"),
)
MORE_EVENTS = ("pswpin", "pswpout", "cow_ksm")


def attack(guests: Guests, seconds: int, seed: int, config: str, mode: str, verify: int) -> None:
    """Boot with an adversary, which has to find nothing, and to go all ways that there are.

    It fails where it finds something, and with it the boot.
    """
    complete = config != "vfio"
    programs = (
        *(SWAP if complete else ()),
        f"adversary {seconds} {seed}",
        "poke show vmstat /proc/vmstat",
        f"poke show anon {COUNTS_64K}anon_fault_alloc",
        f"poke show shmem {COUNTS_64K}shmem_alloc",
    )
    spec = asked(
        "flatboot",
        "1G",
        programs,
        mode,
        cpus=2,
        nodes=2,
        config=config,
        clock="wall",
        cmdline=f"prezero=on prezero.verify={verify} hugepages=32",
    )
    record = guests(dataclasses.replace(spec, timeout_s=spec.timeout_s + 2 * seconds))
    prefix = "adversary.missing."
    missing = {key.removeprefix(prefix) for key in record.results if key.startswith(prefix)}
    assert missing == MISSING[config]
    assert record.results["adversary.bad"] == record.results["adversary.broken"] == "0"
    counts = vmstat(record.files["vmstat"])
    events = EVENTS + MORE_EVENTS if complete else EVENTS
    assert [event for event in events if not counts[event]] == []
    assert int(record.files["anon"]) > 0
    assert int(record.files["shmem"]) > 0


@pytest.mark.parametrize(("mode", "verify"), [("wait", 1), ("lazy", 0)])
def test_an_adversary_finds_nothing(guests: Guests, mode: str, verify: int) -> None:
    """Where the kernel does not look at marks itself, the adversary alone does."""
    attack(guests, SECONDS, 1 + verify, "users", mode, verify)


@pytest.mark.long
def test_an_adversary_that_pins_memory_finds_nothing(guests: Guests) -> None:
    attack(guests, SECONDS, 3, "vfio", "wait", 0)


@pytest.mark.long
@pytest.mark.timeout(6 * PARTS * PART_SECONDS)
@pytest.mark.parametrize(
    ("config", "mode", "verify"), [("users", "wait", 0), ("debug", "lazy", 0), ("debug", "wait", 1)]
)
def test_an_adversary_finds_nothing_in_an_hour(
    guests: Guests, config: str, mode: str, verify: int
) -> None:
    for part in range(PARTS):
        attack(guests, PART_SECONDS, 4 + verify + 2 * part, config, mode, verify)
