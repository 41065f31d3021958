"""Memory that is told to be broken, at any address, on a guest that has hardly any initialised.

The tests are named after the rows of docs/struct-page-readers.md. The reference is the same guest
with its map complete.
"""

from __future__ import annotations

import pytest
from guests import DEFERRED, Guests
from readers import BEYOND, BLOCK, PENDING, PENDING_OF_NODE_1, answer, lazy

from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

HARD = "/sys/devices/system/memory/hard_offline_page"
SOFT = "/sys/devices/system/memory/soft_offline_page"
HWPOISON = "/sys/kernel/debug/hwpoison/"
INJECT = f"{HWPOISON}corrupt-pfn"
UNPOISON = f"{HWPOISON}unpoison-pfn"
FILTER = f"{HWPOISON}corrupt-filter-enable"
#: A hole of two pages in the middle of what is free. /proc/kcore ends its memory map there.
HOLE = 0x5F001000
#: Which block of free memory meets which way to tell of it.
FREE = {
    "hard": (HARD, PENDING, 1),
    "hard_of_node_1": (HARD, PENDING_OF_NODE_1, 1),
    "soft": (SOFT, PENDING + BLOCK, 1),
    "inject": (INJECT, PENDING + 2 * BLOCK, 4096),
    "filtered": (INJECT, PENDING + 4 * BLOCK, 4096),
}
#: What nobody said is broken.
SOUND = PENDING + 3 * BLOCK
#: The same of memory that is not there, or not free.
OTHER = {
    "hard_beyond": (HARD, BEYOND, 1),
    "soft_beyond": (SOFT, BEYOND, 1),
    "inject_beyond": (INJECT, BEYOND, 4096),
    "hard_hole": (HARD, HOLE, 1),
    "soft_hole": (SOFT, HOLE + 4096, 1),
}
CMDLINE = f"memmap=8K${HOLE:#x}"


def told(label: str, path: str, address: int, unit: int) -> str:
    """Return the program that tells *path*, which counts in *unit* bytes, of an address."""
    return f"poke write {label} {path} {address // unit:#x}"


def breaking(mode: str) -> BootSpec:
    """Return the ask for a guest in which free memory breaks in several ways."""
    programs = []
    for label, (path, address, unit) in {**FREE, **OTHER}.items():
        if label == "filtered":
            programs.append(f"poke write filter_on {FILTER} 1")
        programs += [f"pages raw {label} {address}", told(label, path, address, unit)]
        if label == "filtered":
            programs.append(f"poke write filter_off {FILTER} 0")
    programs += [told("unpoison", UNPOISON, SOUND, 4096), f"pages raw unpoison {SOUND}"]
    if mode == "lazy":
        programs.append("fill 4k 2")
    return lazy(*programs, mode=mode, cmdline=CMDLINE)


@pytest.fixture(scope="module")
def pair(guests: Guests) -> tuple[Record, Record]:
    """Return the records of the lazy guest and of the one that waited."""
    return guests(breaking("lazy")), guests(breaking("wait"))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("label", FREE)
def test_memory_failure_of_free_memory(pair: tuple[Record, Record], label: str) -> None:
    lazily, waited = pair
    assert answer(lazily, f"raw.{label}") == "poison"
    assert answer(lazily, f"write.{label}") == answer(waited, f"write.{label}") == "ok"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("label", OTHER)
def test_memory_failure_of_holes(pair: tuple[Record, Record], label: str) -> None:
    lazily, waited = pair
    assert answer(lazily, f"write.{label}") == answer(waited, f"write.{label}") != "ok"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_unpoisoning_free_memory(pair: tuple[Record, Record]) -> None:
    lazily, waited = pair
    assert answer(lazily, "raw.unpoison") == "poison"
    assert answer(lazily, "write.unpoison") == "EIO"
    assert answer(waited, "write.unpoison") == "EBUSY"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_broken_free_memory_is_never_handed_out(pair: tuple[Record, Record]) -> None:
    assert pair[0].results["fill.bad_words"] == "0"
    broken = [record.log.count("Memory failure") for record in pair]
    assert broken[0] == broken[1] > 0


@pytest.fixture(scope="module")
def reserved(guests: Guests) -> Record:
    """Return the record of a guest that looked at its reserved memory."""
    return guests(lazy("pages reserved all"))


def addresses(record: Record) -> list[int]:
    """Return the blocks of reserved memory that were initialised when they were looked at."""
    return [
        int(value, 16) for key, value in record.results.items() if key.startswith("reserved.all.")
    ]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_reserved_memory_is_initialised_when_it_is_looked_at(reserved: Record) -> None:
    found = addresses(reserved)
    assert any(address < 1 << 30 for address in found)
    assert any(address > 1 << 30 for address in found)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_memory_failure_of_reserved_memory(guests: Guests, reserved: Record) -> None:
    first, last = addresses(reserved)[0], addresses(reserved)[-1]
    assert first != last
    programs = (
        f"pages raw hard {first}",
        told("hard", HARD, first, 1),
        f"pages raw hard_after {first}",
        f"pages raw soft {last}",
        told("soft", SOFT, last, 1),
        f"poke write all {DEFERRED}complete 1",
    )
    lazily, waited = (guests(lazy(*programs, mode=mode)) for mode in ("lazy", "wait"))
    assert answer(lazily, "raw.hard") == answer(lazily, "raw.soft") == "poison"
    assert answer(lazily, "raw.hard_after") == "written"
    for label in ("hard", "soft"):
        assert answer(lazily, f"write.{label}") == answer(waited, f"write.{label}")
    assert answer(lazily, "write.all") == "ok"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_memory_failure_of_memory_in_use(guests: Guests) -> None:
    record = guests(
        lazy(
            f"mapped broken soft {SOFT} bytes",
            f"mapped broken hard {HARD} bytes",
            f"mapped broken inject {INJECT} pages",
        )
    )
    for label in ("soft", "hard", "inject"):
        assert answer(record, f"broken.{label}.write") == "ok"
    assert answer(record, "broken.soft.moved") == "1"
    assert answer(record, "broken.soft.bad") == answer(record, "broken.soft.killed") == "0"
    assert answer(record, "broken.hard.killed") == answer(record, "broken.inject.killed") == "1"
