"""The kernel builds and boots without NUMA, without memory hotplug, and with our features out."""

from __future__ import annotations

import pytest
from guests import DEFERRED, Ask, Guests

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("config", ["no-numa", "no-hotplug"])
def test_lazy_without(guests: Guests, config: str) -> None:
    programs = (f"poke write all {DEFERRED}complete 1", f"poke show left {DEFERRED}remaining_kb")
    record = guests(Ask("flatboot", "4G", programs, "lazy", config=config))
    assert record.meminfo["Deferred"] > 0
    assert record.results["write.all"] == "ok"
    assert record.files["left"].strip() == "0"


def test_features_configured_out(guests: Guests) -> None:
    ours = guests(Ask("flatboot", "2G", mode="lazy", config="features-off"))
    stock = guests(Ask("stock", "2G"))
    assert "Deferred" not in ours.meminfo
    assert ours.to_init == pytest.approx(stock.to_init, rel=0.001)
