"""The kernel builds and boots without NUMA, without memory hotplug, and with our features out."""

from __future__ import annotations

import pytest
from guests import DEFERRED, Ask, Guests, meminfo

#: Bitmaps of the tables that are zeroed on demand, and of the blocks, in kB.
BITMAPS_KB = 128

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("config", ["no-numa", "no-hotplug"])
def test_lazy_without(guests: Guests, config: str) -> None:
    programs = (f"poke write all {DEFERRED}complete 1", f"poke show left {DEFERRED}remaining_kb")
    record = guests(Ask("flatboot", "4G", programs, "lazy", config=config))
    assert record.meminfo["Deferred"] > 0
    assert record.results["write.all"] == "ok"
    assert record.files["left"].strip() == "0"


@pytest.mark.parametrize("cmdline", ["", "init_on_free=1"])
@pytest.mark.parametrize(("config", "memory"), [("bench", "4G"), ("pages-64k", "8G")])
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
        guests(Ask("flatboot", memory, programs, mode, 2, 1, config, cmdline, arch="arm64"))
        for mode in ("lazy", "wait")
    )
    assert lazy.meminfo["Deferred"] > 0
    assert lazy.results["write.all"] == "ok"
    assert lazy.results["drain.flags"] == lazy.results["drain.again"]
    after = meminfo(lazy.files["after"])
    assert after["Deferred"] == 0
    assert abs(after["MemTotal"] - waited.meminfo["MemTotal"]) <= BITMAPS_KB


def test_features_configured_out(guests: Guests) -> None:
    ours = guests(Ask("flatboot", "2G", mode="lazy", config="features-off"))
    stock = guests(Ask("stock", "2G"))
    assert "Deferred" not in ours.meminfo
    assert ours.to_init == pytest.approx(stock.to_init, rel=0.001)
