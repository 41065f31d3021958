"""What deferred_init= and the files beside it do."""

from __future__ import annotations

import re

import pytest
from guests import DEFERRED, Guests, asked, meminfo, vmstat, zones

pytestmark = pytest.mark.groups("memory-map")

MODES = ["wait", "background", "lazy"]
SUITES = ("deferred_init", "deferred_init_param")
#: What an idle guest may take between two looks at it, in kB: one block of 4 MiB and one more.
BLOCKS_KB = 8192
#: What writing the file complete makes of the programs in between.
COMPLETE = (
    f"poke show before {DEFERRED}remaining_kb",
    f"poke write zero {DEFERRED}complete 0",
    f"poke write junk {DEFERRED}complete soon",
    f"poke show unchanged {DEFERRED}complete",
    f"poke write one {DEFERRED}complete 1",
    f"poke show remaining {DEFERRED}remaining_kb",
    f"poke show complete {DEFERRED}complete",
    "poke show meminfo /proc/meminfo",
    "poke show vmstat /proc/vmstat",
    "poke show zoneinfo /proc/zoneinfo",
    f"poke write again {DEFERRED}complete 1",
)
CONFIGS = [("users", "2G", 1, 1), ("debug", "768M", 2, 2)]


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_boots_and_tells_itself(guests: Guests, mode: str) -> None:
    record = guests(asked("flatboot", "2G", mode=mode))
    assert record.files[DEFERRED + "mode"].strip() == mode


def test_without_the_parameter_boot_waits(guests: Guests) -> None:
    record = guests(asked("flatboot", "2G"))
    assert record.files[DEFERRED + "mode"].strip() == "wait"
    assert record.meminfo["Deferred"] == 0


def test_waiting_leaves_nothing_deferred(guests: Guests) -> None:
    record = guests(asked("flatboot", "2G", mode="wait"))
    assert record.meminfo["Deferred"] == 0
    assert record.files[DEFERRED + "remaining_kb"].strip() == "0"
    assert vmstat(record.files["/proc/vmstat"])["deferred_init_demand"] == 0


@pytest.mark.parametrize("mode", ["background", "lazy"])
def test_boot_does_not_wait_and_all_counters_agree(guests: Guests, mode: str) -> None:
    record = guests(asked("flatboot", "4G", mode=mode))
    shown = record.meminfo["Deferred"]
    assert shown > 0
    in_zones = sum(zone.deferred for zone in zones(record.files["/proc/zoneinfo"]).values()) * 4
    in_vmstat = vmstat(record.files["/proc/vmstat"])["nr_deferred"] * 4
    in_sysfs = int(record.files[DEFERRED + "remaining_kb"])
    seen = [shown, in_zones, in_vmstat, in_sysfs]
    if mode == "lazy":
        assert max(seen) - min(seen) <= BLOCKS_KB
        # Deferred memory is free memory.
        assert record.meminfo["MemFree"] > shown
        assert record.meminfo["MemAvailable"] > shown
    else:
        assert max(seen) <= record.meminfo["MemTotal"]


@pytest.mark.parametrize(("config", "memory", "cpus", "nodes"), CONFIGS)
@pytest.mark.parametrize("mode", ["background", "lazy"])
def test_complete_finishes_the_rest(
    guests: Guests, mode: str, config: str, memory: str, cpus: int, nodes: int
) -> None:
    ask = asked("flatboot", memory, COMPLETE, mode, cpus=cpus, nodes=nodes, config=config)
    record = guests(ask)
    results, files = record.results, record.files
    assert results["write.zero"] == "EINVAL"
    assert results["write.junk"] == "EINVAL"
    assert results["write.one"] == "ok"
    assert results["write.again"] == "ok"
    assert files["remaining"].strip() == "0"
    assert files["complete"].strip() == "1"
    assert meminfo(files["meminfo"])["Deferred"] == 0
    assert all(zone.deferred == 0 for zone in zones(files["zoneinfo"]).values())
    assert vmstat(files["vmstat"])["nr_deferred"] == 0
    assert "deferred pages initialised" in record.log
    if mode == "lazy":
        assert int(files["before"]) > 0
        assert files["unchanged"].strip() == "0"


def test_every_deferred_page_is_initialised_once(guests: Guests) -> None:
    record = guests(asked("flatboot", "2G", COMPLETE, "lazy"))
    said = next(line for line in record.log.splitlines() if "deferred pages initialised" in line)
    pages = int(said.split(" all ")[1].split()[0])
    events = vmstat(record.files["vmstat"])
    assert events["deferred_init_demand"] + events["deferred_init_background"] == pages


def test_complete_loses_no_memory(guests: Guests) -> None:
    record = guests(asked("flatboot", "2G", COMPLETE, "lazy"))
    after = meminfo(record.files["meminfo"])
    assert after["MemTotal"] == record.meminfo["MemTotal"]
    assert abs(after["MemFree"] - record.meminfo["MemFree"]) <= BLOCKS_KB / 4
    before = zones(record.files["/proc/zoneinfo"])
    for key, zone in zones(record.files["zoneinfo"]).items():
        assert zone.managed == before[key].managed
        assert (zone.min, zone.low, zone.high) == (
            before[key].min,
            before[key].low,
            before[key].high,
        )
        assert zone.protection == before[key].protection


@pytest.mark.parametrize(("config", "memory", "cpus", "nodes"), CONFIGS)
def test_background_finishes_by_itself(
    guests: Guests, config: str, memory: str, cpus: int, nodes: int
) -> None:
    programs = (f"poke await done {DEFERRED}complete 1", "poke show vmstat /proc/vmstat")
    record = guests(
        asked("flatboot", memory, programs, "background", cpus=cpus, nodes=nodes, config=config)
    )
    assert record.results["await.done"] == "ok"
    assert vmstat(record.files["vmstat"])["nr_deferred"] == 0
    assert "deferred pages initialised" in record.log


def test_lazy_leaves_an_idle_machine_alone(guests: Guests) -> None:
    programs = (
        f"poke await never {DEFERRED}complete 1",
        f"poke show later {DEFERRED}remaining_kb",
    )
    record = guests(asked("flatboot", "4G", programs, "lazy"))
    assert record.results["await.never"] == "late"
    at_mark, later = int(record.files[DEFERRED + "remaining_kb"]), int(record.files["later"])
    assert 0 <= at_mark - later <= BLOCKS_KB


def test_an_unknown_mode_is_named_and_boot_waits(guests: Guests) -> None:
    words = "deferred_init=sometimes deferred_init= deferred_init"
    record = guests(asked("flatboot", "2G", cmdline=words))
    assert record.files[DEFERRED + "mode"].strip() == "wait"
    assert record.meminfo["Deferred"] == 0
    named = re.findall(r"deferred_init: unknown mode '(.*?)'", record.log)
    assert named == ["sometimes", "", ""]


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_boots_on_the_debug_config(guests: Guests, mode: str) -> None:
    record = guests(asked("flatboot", "768M", COMPLETE, mode, cpus=2, nodes=2, config="debug"))
    assert record.files[DEFERRED + "mode"].strip() == mode
    for suite in SUITES:
        assert re.search(rf"ok \d+ {suite}\n", record.log), f"KUnit tests did not run: {suite}"


@pytest.mark.groups("memory-map-reserved")
def test_zeroing_on_demand_tests_itself(guests: Guests) -> None:
    record = guests(asked("flatboot", "768M", COMPLETE, "lazy", cpus=2, nodes=2, config="debug"))
    assert re.search(r"ok \d+ deferred_zero\n", record.log), "KUnit tests did not run"


@pytest.mark.groups("memory-behind-boot")
@pytest.mark.parametrize("mode", MODES)
def test_memory_behind_boot_tests_itself_in_each_mode(guests: Guests, mode: str) -> None:
    record = guests(asked("flatboot", "768M", COMPLETE, mode, cpus=2, nodes=2, config="debug"))
    assert re.search(r"ok \d+ deferred_mem\n", record.log)


def test_nothing_is_missing_once_all_is_initialised(guests: Guests) -> None:
    suite = "/sys/kernel/debug/kunit/deferred_init_complete"
    programs = (
        f"poke write again {suite}/run 1",
        f"poke show results {suite}/results",
        f"poke show remaining {DEFERRED}remaining_kb",
    )
    record = guests(asked("flatboot", "512M", programs, "lazy", cpus=2, config="debug"))
    assert re.search(r"^ +ok 1 deferred_complete_test$", record.files["results"], re.M)
    assert int(record.files[DEFERRED + "remaining_kb"]) > 0
    assert int(record.files["remaining"]) == 0
