"""The linear map of arm64 on demand: memory is mapped by pages when it is used first."""

from __future__ import annotations

import pytest
from guests import Guests, asked, meminfo

from flatboot.record.record import Record

pytestmark = pytest.mark.groups("linear-map")

LONG = pytest.mark.long
#: Page tables that are set aside for the blocks of the kernel's image, which has its own, in kB:
#: that of the debug kernel has 53 MiB.
KERNELS_KB = {"bench": 32, "debug": 128, "pages-64k": 192}
PAGES = "linear_map=pages"
#: Fills memory by threads on as many CPUs, frees it, and fills it again.
PROGRAMS = ("fill 4k 2", "poke show after /proc/meminfo")


def boot(guests: Guests, config: str, mode: str, cmdline: str = "") -> Record:
    memory = "8G" if config == "pages-64k" else "2G"
    return guests(asked("flatboot", memory, PROGRAMS, mode, 2, 1, config, cmdline, arch="arm64"))


@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.parametrize(
    "config", ["bench", pytest.param("pages-64k", marks=LONG), pytest.param("debug", marks=LONG)]
)
def test_all_memory_can_be_used(guests: Guests, config: str, mode: str) -> None:
    ours, mapped = boot(guests, config, mode), boot(guests, config, mode, PAGES)
    for record in (ours, mapped):
        assert record.results["fill.bad_words"] == record.results["refill.bad_words"] == "0"
    after = meminfo(ours.files["after"])
    assert after["Deferred"] < after["MemTotal"] / 50
    # No page table is made that boot had not set aside.
    assert 0 <= mapped.meminfo["MemTotal"] - ours.meminfo["MemTotal"] <= KERNELS_KB[config]


@LONG
def test_what_is_allocated_is_mapped_by_pages(guests: Guests) -> None:
    """KUnit changes the permissions of single pages."""
    record = guests(asked("flatboot", "2G", mode="lazy", config="debug", arch="arm64"))
    assert "# linear_map_demand: pass:4 fail:0 skip:0 total:4" in record.console


@pytest.mark.groups("linear-map", "memory-map-reserved")
def test_boot_does_not_grow_with_the_linear_map(guests: Guests) -> None:
    small, large = (
        guests(asked("flatboot", memory, mode="lazy", arch="arm64")) for memory in ("2G", "64G")
    )
    assert large.to_init <= 1.06 * small.to_init


@pytest.mark.parametrize("mode", ["wait", "lazy"])
def test_turned_off(guests: Guests, mode: str) -> None:
    """Where boot waits for struct pages, it maps memory by pages as well."""
    mapped = guests(asked("flatboot", "2G", mode=mode, cmdline=PAGES, arch="arm64"))
    ours = guests(asked("flatboot", "2G", mode=mode, arch="arm64"))
    gained = mapped.to_init - ours.to_init
    assert gained > 4_000_000 if mode == "lazy" else abs(gained) < 0.002 * mapped.to_init
