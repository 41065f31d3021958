"""Single patches that mend something: each test fails without the patch."""

from __future__ import annotations

import re

import pytest
from guests import Guests, asked

from flatboot.record.record import Record

pytestmark = pytest.mark.groups("fixes")

SERVER = "/sys/kernel/debug/sched/fair_server/cpu1/runtime"
ONLINE = "poke write online /sys/devices/system/cpu/cpu1/online 1"
BANDWIDTH = ("poke show sched /sys/kernel/debug/sched/debug",)


def bandwidth(record: Record) -> list[str]:
    """Return how much each CPU's root domain promised to deadline tasks and servers."""
    return re.findall(r"dl_bw->total_bw +: (\d+)", record.files["sched"])


@pytest.mark.parametrize(
    ("cmdline", "comes"),
    [
        ("maxcpus=1", ONLINE),
        pytest.param("cpuhp.defer=1", "cpus wait", marks=pytest.mark.groups("fixes", "cpu-groups")),
    ],
)
def test_a_cpu_that_comes_later_has_a_fair_server(guests: Guests, cmdline: str, comes: str) -> None:
    """A real-time task that never sleeps leaves others some time there."""
    programs = (comes, f"poke show runtime {SERVER}", *BANDWIDTH, "cpus starve 1")
    record = guests(asked("flatboot", "1G", programs, cpus=2, cmdline=cmdline))
    assert int(record.files["runtime"]) == 50_000_000
    assert record.results["cpus.starved"] == "no"
    both = guests(asked("flatboot", "1G", BANDWIDTH, cpus=2))
    assert len(bandwidth(both)) == 2
    assert bandwidth(record) == bandwidth(both)


@pytest.mark.groups("fixes", "cpu-groups")
def test_each_cpu_of_a_group_is_sampled_by_a_tracer(guests: Guests) -> None:
    programs = ("cpus wait", "poke show tasks /sys/kernel/debug/sched/debug")
    cmdline = "cpuhp.defer=2 ftrace=osnoise"
    record = guests(asked("flatboot", "1G", programs, cpus=8, cmdline=cmdline, config="debug"))
    sampled = set(re.findall(r"\bosnoise/(\d)\b", record.files["tasks"]))
    assert sampled == set("01234567")


def test_a_slab_of_one_page_cannot_be_moved(guests: Guests) -> None:
    record = guests(asked("flatboot", "512M", cpus=2, config="debug"))
    assert re.search(r"^.*\bok \d+ page_isolation$", record.log, re.MULTILINE)
    assert re.search(r"\bok 1 page_isolation_slab_test$", record.log, re.MULTILINE)
