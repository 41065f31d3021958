"""Hibernation has every struct page initialised before it makes its image, or reads it.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from guests import DEFERRED, Guests, assert_no_splat, meminfo
from readers import PENDING, answer, lazy

from flatboot.guest import borrowed
from flatboot.guest.boot import GuestFailed

ZRAM = "/dev/zram0"
#: The first virtio disk: its name, and its number as /sys/power/resume takes it.
DISK, DISK_NUMBER = "/dev/vda", "254:0"

pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_hibernation(guests: Guests, mode: str) -> None:
    record = guests(
        lazy(
            "poke write size /sys/block/zram0/disksize 1G",
            f"swap {ZRAM}",
            f"poke show before {DEFERRED}remaining_kb",
            "poke write kind /sys/power/disk test_resume",
            "poke write hibernate /sys/power/state disk",
            f"poke show after {DEFERRED}remaining_kb",
            "poke show meminfo /proc/meminfo",
            "fill 4k 2",
            memory="1G",
            mode=mode,
        )
    )
    if mode == "lazy":
        assert int(record.files["before"]) > 0
    assert answer(record, "write.hibernate") == "ok"
    assert record.files["after"].strip() == "0"
    assert meminfo(record.files["meminfo"])["Deferred"] == 0
    assert record.results["fill.bad_words"] == "0"


def test_resuming_by_a_lazily_booted_kernel(guests: Guests, tmp_path: Path) -> None:
    """The second guest boots as the first, and completes its map before it gives way to the image.

    The first holds so much that pages of its image lie where the second has no struct pages yet.
    """
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(1 << 30)
    drive = ("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe")
    busybox = tuple(borrowed.files("busybox").items())
    hibernated = lazy(
        "busybox dd if=/dev/zero of=/held bs=1M count=300",
        f"swap {DISK}",
        "poke write kind /sys/power/disk reboot",
        "poke write hibernate /sys/power/state disk",
        f"poke show after {DEFERRED}remaining_kb",
        "poke drain flags /proc/kpageflags",
        "fill 4k 2",
        memory="1G",
        arguments=drive,
        files=busybox,
    )
    with pytest.raises(GuestFailed) as restarted:
        guests(hibernated)
    assert restarted.value.kind == "restart"
    assert "Image saving done" in restarted.value.console
    assert_no_splat(restarted.value.console)
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            f"poke write resume /sys/power/resume {DISK_NUMBER}",
            memory="1G",
            arguments=drive,
            files=busybox,
        )
    )
    assert answer(record, "raw.before") == "poison"
    assert "write.resume" not in record.results
    assert answer(record, "write.hibernate") == "ok"
    assert record.files["after"].strip() == "0"
    assert int(record.results["drain.flags"]) > 0
    assert record.results["fill.bad_words"] == "0"
