"""The kernel builds and boots on arm64, without NUMA or hotplug, and with our features out."""

from __future__ import annotations

import pytest
from guests import DEFERRED, Guests, asked, meminfo

#: Bitmaps of the tables that are zeroed on demand, and of the blocks, in kB.
BITMAPS_KB = 128

#: The kernels have to be built.
pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.timeout(3600)]
LONG = pytest.mark.long


@LONG
@pytest.mark.parametrize("config", ["no-numa", "no-hotplug"])
def test_lazy_without(guests: Guests, config: str) -> None:
    programs = (f"poke write all {DEFERRED}complete 1", f"poke show left {DEFERRED}remaining_kb")
    record = guests(asked("flatboot", "4G", programs, "lazy", config=config))
    assert record.meminfo["Deferred"] > 0
    assert record.results["write.all"] == "ok"
    assert record.files["left"].strip() == "0"


@pytest.mark.parametrize(
    ("config", "memory", "cmdline"),
    [
        ("bench", "4G", ""),
        pytest.param("bench", "4G", "init_on_free=1", marks=LONG),
        pytest.param("pages-64k", "8G", "", marks=LONG),
        pytest.param("pages-64k", "8G", "init_on_free=1", marks=LONG),
    ],
)
def test_arm64_pages_of_4_and_64_kib(
    guests: Guests, config: str, memory: str, cmdline: str
) -> None:
    """Blocks are of 4 and 512 MiB; with 64 KiB the memory map is not made of huge pages.

    With init_on_free growth asks the thread for help, which must not be before interrupts work.
    """
    programs = (
        "poke drain flags /proc/kpageflags",
        f"poke write all {DEFERRED}complete 1",
        "poke drain again /proc/kpageflags",
        "poke show after /proc/meminfo",
    )
    lazy, waited = (
        guests(asked("flatboot", memory, programs, mode, 2, 1, config, cmdline, arch="arm64"))
        for mode in ("lazy", "wait")
    )
    assert lazy.meminfo["Deferred"] > 0
    assert lazy.results["write.all"] == "ok"
    assert lazy.results["drain.flags"] == lazy.results["drain.again"]
    after = meminfo(lazy.files["after"])
    assert after["Deferred"] == 0
    assert abs(after["MemTotal"] - waited.meminfo["MemTotal"]) <= BITMAPS_KB


@LONG
def test_features_configured_out(guests: Guests) -> None:
    ours = guests(asked("flatboot", "2G", mode="lazy", config="features-off"))
    stock = guests(asked("stock", "2G"))
    assert "Deferred" not in ours.meminfo
    assert ours.to_init <= 1.001 * stock.to_init
