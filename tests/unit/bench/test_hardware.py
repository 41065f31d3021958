"""bench/hardware.py: what is booted on which machine, and what its table says."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from boots import record

from flatboot.common import paths
from flatboot.common.errors import FlatbootError
from flatboot.show.plain_table import plain


@pytest.fixture(scope="module")
def hardware() -> ModuleType:
    path = paths.repo() / "bench" / "hardware.py"
    spec = importlib.util.spec_from_file_location("hardware", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hardware"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("cores", "wide", "several"),
    [(1, [1], [2]), (2, [1, 2], [2, 4]), (16, [1, 4, 16], [4, 16, 32]), (6, [1, 4, 6], [4, 6, 12])],
)
def test_the_cpus_go_up_to_those_of_the_machine(
    hardware: ModuleType, cores: int, wide: list[int], several: list[int]
) -> None:
    assert hardware.cpus(hardware.TRIALS["map"], cores) == wide
    assert hardware.cpus(hardware.TRIALS["bring-up"], cores) == several


def test_what_takes_more_memory_than_there_is_is_left_out(hardware: ModuleType) -> None:
    names = list(hardware.TRIALS)
    assert {cell.trial for cell in hardware.cells(names, 2, 1e12)} == set(names)
    assert "adding" not in {cell.trial for cell in hardware.cells(names, 2, 8e9)}


def test_each_time_is_compared_with_the_first_way_on_the_fewest_cpus(hardware: ModuleType) -> None:
    seconds = {"pool/stock/1": [2.0, 4.0, 3.0], "pool/hugepage_alloc_threads=auto/2": [1.5]}
    found = {"some": hardware.Measured(2, "tcg", "7.2", seconds)}
    rows = {row[2]: row[3:] for row in plain(hardware.table(found)).rows}
    assert rows["stock"] == ["1.00 (0.67 to 1.33)", "", ""]
    assert rows["hugepage_alloc_threads=auto"] == ["", "0.50 (0.50 to 0.50)", ""]


def test_bring_up_is_read_from_the_log(hardware: ModuleType) -> None:
    log = (
        "[    0.100000] smp: Bringing up secondary CPUs ...\n"
        "[    0.250000] smp: Brought up 1 node, 4 CPUs\n"
    )
    read = hardware.TRIALS["bring-up"].seconds
    assert read(dataclasses.replace(record("stock", "2G", 1), log=log)) == pytest.approx(0.15)
    with pytest.raises(FlatbootError, match="does not say"):
        read(dataclasses.replace(record("stock", "2G", 1), log=""))


def test_a_machine_on_which_nothing_boots_is_an_error(
    hardware: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(spec: object) -> None:
        raise FlatbootError("no QEMU")

    monkeypatch.setattr(hardware.boot, "boot", fails)
    written: list[object] = []
    images = dict.fromkeys(("stock", "flatboot"))
    with pytest.raises(FlatbootError, match="nothing could be booted: map/stock/1: no QEMU"):
        hardware.measure(["map"], images, 1, written.append)
    assert not written


def test_the_page_says_what_the_guests_ran_on(hardware: ModuleType) -> None:
    found = hardware.Measured(
        2, "tcg", "7.2", {"adding/one thread/1": [1.0]}, ["map/stock/1: hung"]
    )
    page = hardware.page("Some processor, 2 cores", found)
    for text in ("Some processor, 2 cores", "KVM boots no kernel here", "14 GiB added", "hung"):
        assert text in page
