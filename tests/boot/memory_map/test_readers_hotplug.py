"""Memory that comes, goes and is lent while the memory beside it is not initialised.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from guests import BLOCKS, DEFERRED, Guests, meminfo, vmstat, zones
from monitors import monitor
from readers import answer, lazy

from flatboot.guest import borrowed

#: Half of it lies below 4 GiB; the rest ends at 6 GiB, where added memory begins.
MEMORY = "4G"
DIMM_KB = 1 << 20
#: A block of 128 MiB of the first DIMM.
FIRST_BLOCK = 6 << 3
BLOCK_PAGES = 1 << 15
ROOM = ("-m", "slots=4,maxmem=32G")

pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.long, pytest.mark.timeout(3600)]


def dimm(index: int, node: int) -> tuple[str, ...]:
    """Return the arguments for a DIMM of 1 GiB."""
    return (
        "-object",
        f"memory-backend-ram,id=d{index},size={DIMM_KB}K,reserve=off",
        "-device",
        f"pc-dimm,id=dimm{index},memdev=d{index},node={node}",
    )


EJECT = "poke write eject /sys/bus/acpi/devices/PNP0C80:00/eject 1"
REMOVAL = (
    *(f"poke write off{n} {BLOCKS}memory{FIRST_BLOCK + n}/state offline" for n in range(8)),
    EJECT,
)
#: How added memory gets online, what is done to the first DIMM then, and in which zone it is.
ADDED: dict[str, tuple[tuple[str, ...], str]] = {
    "online_kernel": ((), "Normal"),
    "online_movable": (REMOVAL, "Movable"),
}


@pytest.mark.parametrize("online", ADDED)
def test_memory_added_beside_a_lazy_zone(guests: Guests, online: str) -> None:
    removal, zone = ADDED[online]
    programs = (
        "poke show before /proc/meminfo",
        f"poke show zone {BLOCKS}memory{FIRST_BLOCK}/valid_zones",
        f"poke show remaining {DEFERRED}remaining_kb",
        "poke drain flags /proc/kpageflags",
        "poke write compact /proc/sys/vm/compact_memory 1",
        *removal,
        "poke drain flags_after /proc/kpageflags",
        f"poke write all {DEFERRED}complete 1",
        "poke show after /proc/meminfo",
        "poke show zones /proc/zoneinfo",
        "mapped move 64",
    )
    record = guests(
        lazy(
            *programs,
            memory=MEMORY,
            cmdline=f"memhp_default_state={online}",
            arguments=(*ROOM, *dimm(0, 1), *dimm(1, 1)),
        )
    )
    before, after = (meminfo(record.files[name])["MemTotal"] for name in ("before", "after"))
    assert record.files["zone"].strip() == zone
    assert int(record.files["remaining"]) > 0
    assert before - after == (DIMM_KB if removal else 0)
    kept = zones(record.files["zones"])
    assert sum(zone.managed for zone in kept.values()) * 4 == after
    assert all(zone.deferred == 0 for zone in kept.values())
    assert record.results["move.bad"] == "0"


def test_memory_is_taken_from_a_lazy_zone(guests: Guests) -> None:
    """The zone then ends where its pending blocks do.

    Only the last block gets online: KASAN would keep its shadow of a second one in the first.
    """
    block = f"{BLOCKS}memory{FIRST_BLOCK + 7}/"
    record = guests(
        lazy(
            "poke show before /proc/zoneinfo",
            f"poke write on {block}state online_kernel",
            "poke show during /proc/zoneinfo",
            f"poke write off {block}state offline",
            EJECT,
            "poke show after /proc/zoneinfo",
            "poke drain flags /proc/kpageflags",
            f"poke write all {DEFERRED}complete 1",
            "mapped move 64",
            memory=MEMORY,
            cmdline="memhp_default_state=offline",
            arguments=(*ROOM, *dimm(0, 1)),
        )
    )
    before, during, after = (
        zones(record.files[when])[1, "Normal"] for when in ("before", "during", "after")
    )
    assert {answer(record, f"write.{done}") for done in ("on", "off", "eject")} == {"ok"}
    assert during.present - before.present == BLOCK_PAGES
    assert after.present == before.present
    assert after.deferred > 0
    assert record.results["write.all"] == "ok"
    assert record.results["move.bad"] == "0"


def test_virtio_mem(guests: Guests) -> None:
    device = (
        "-object",
        "memory-backend-ram,id=vm,size=2G,reserve=off",
        "-device",
        "virtio-mem-pci,id=vmem,memdev=vm,node=1,requested-size=1G",
    )
    record = guests(
        lazy(
            "poke show before /proc/meminfo",
            "poke show zones /proc/zoneinfo",
            "poke drain flags /proc/kpageflags",
            f"poke write all {DEFERRED}complete 1",
            "poke show after /proc/meminfo",
            "mapped move 64",
            memory=MEMORY,
            cmdline="memhp_default_state=online",
            arguments=(*ROOM, *device),
        )
    )
    plain = guests(lazy("poke show before /proc/meminfo", memory=MEMORY))
    grown = record.meminfo["MemTotal"] - plain.meminfo["MemTotal"]
    assert (1 << 20) - (64 << 10) < grown <= 1 << 20
    assert meminfo(record.files["after"])["MemTotal"] == record.meminfo["MemTotal"]
    assert record.results["move.bad"] == "0"


def test_balloon(guests: Guests, tmp_path: Path) -> None:
    """QEMU is told to take half of memory before the guest starts."""
    with monitor(tmp_path, "balloon 1024\n") as told:
        record = guests(
            lazy(
                "poke drain flags /proc/kpageflags",
                "poke show vmstat /proc/vmstat",
                f"poke write all {DEFERRED}complete 1",
                arguments=("-device", "virtio-balloon-pci", *told),
            )
        )
    # It goes on taking in the background.
    assert 0 < vmstat(record.files["vmstat"])["balloon_inflate"] <= (1 << 30) // 4096
    assert answer(record, "write.all") == "ok"


def test_free_page_reporting(guests: Guests) -> None:
    record = guests(
        lazy(
            f"poke show before {DEFERRED}remaining_kb",
            "mapped move 64",
            "pages kcore all",
            f"poke show after {DEFERRED}remaining_kb",
            "fill 4k 2",
            arguments=("-device", "virtio-balloon-pci,free-page-reporting=on"),
        )
    )
    assert "Free page reporting enabled" in record.log
    taken = int(record.files["before"]) - int(record.files["after"])
    assert 0 <= taken <= 256 << 10
    assert record.results["fill.bad_words"] == "0"
    assert record.results["fill.short_deferred"] == "0"


def test_hints_of_free_pages(guests: Guests, tmp_path: Path) -> None:
    """Memory that nobody has used is not set up when the guest is migrated, here to nowhere."""
    with monitor(tmp_path, "migrate -d exec:cat>/dev/null\ncont\n", 2) as told:
        record = guests(
            lazy(
                f"poke show before {DEFERRED}remaining_kb",
                "poke show was /proc/vmstat",
                "busybox sleep 10",
                "poke show now /proc/vmstat",
                f"poke show after {DEFERRED}remaining_kb",
                "fill 4k 2",
                arguments=(
                    *("-object", "iothread,id=hints", "-device"),
                    *("virtio-balloon-pci,free-page-hint=on,iothread=hints", *told),
                ),
                files=tuple(borrowed.files("busybox").items()),
            )
        )
    was, now = (
        sum(count for name, count in vmstat(record.files[when]).items() if "pgalloc" in name)
        for when in ("was", "now")
    )
    assert now - was > 16 << 10, "nothing was hinted"
    taken = int(record.files["before"]) - int(record.files["after"])
    assert 0 <= taken <= 256 << 10
    assert record.results["fill.bad_words"] == "0"
