"""A lazy kernel hands its memory over to another, and takes over from another.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from guests import DEFERRED, Guests, kernel_of, meminfo
from readers import PENDING, answer, lazy

from flatboot.common import arches
from flatboot.guest import borrowed, initramfs

#: KASAN's shadow must fit into what is kept for the second kernel: low memory, any, each node.
MEMORY = "4G"
HANDOVER = "kho=on kho_scratch=64M,256M,512M"
#: What the second kernel boots with, and tells of itself. KASAN takes interrupts for wild accesses
#: while identify_cpu() has cleared the CPU's features, on which its shadow's place hangs with five
#: levels of page tables; what the first kernel left to interrupt comes early enough.
CMDLINE = f"console=ttyS0 quiet panic=-1 tsc=reliable reboot=t no5lvl {HANDOVER} deferred_init=lazy"
TELLS = (f"poke show mode_after {DEFERRED}mode", "poke drain flags /proc/kpageflags")

pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.long, pytest.mark.timeout(3600)]


def test_handing_over(guests: Guests) -> None:
    """The areas for the next kernel are reserved, and the map is as lazy as without them."""
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            "poke drain scratch /sys/kernel/debug/kho/out/scratch_phys",
            "poke drain flags /proc/kpageflags",
            f"poke write all {DEFERRED}complete 1",
            "poke show after /proc/meminfo",
            memory=MEMORY,
            cmdline=HANDOVER,
        )
    )
    assert record.files[f"{DEFERRED}mode"].strip() == "lazy"
    assert answer(record, "raw.before") == "poison"
    assert int(record.results["drain.scratch"]) > 0
    assert meminfo(record.files["after"])["MemTotal"] == record.meminfo["MemTotal"]


def test_taking_over(guests: Guests, tmp_path: Path) -> None:
    """The second kernel waits for its map, and says why."""
    initrd = tmp_path / "initrd"
    initrd.write_bytes(initramfs.make(arches.load("x86_64"), TELLS, "wall"))
    files = {
        **borrowed.files("kexec"),
        "next/kernel": kernel_of("flatboot", "debug").image().image,
        "next/initrd": initrd,
    }
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            f"kexec -s -l /next/kernel --initrd=/next/initrd '--command-line={CMDLINE}'",
            "kexec -e -x",
            memory=MEMORY,
            cmdline=HANDOVER,
            files=tuple(files.items()),
        )
    )
    assert answer(record, "raw.before") == "poison"
    assert record.files["mode_after"].strip() == "wait"
    assert "kexec handover: boot waits for the memory map" in record.log
    assert record.meminfo["Deferred"] == 0
    assert int(record.results["drain.flags"]) > 0
