"""The parts of CPU bring-up: what one more CPU costs, and the tables of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import boots as made
import pytest

from flatboot.analysis import cpu_work
from flatboot.analysis.cpu_work import BootParts, Cost, Part
from flatboot.record import spans
from flatboot.record.record import Record, Span
from flatboot.show import cpu_work_tables
from flatboot.show.plain_table import plain

FLAT = Part("smpboot_create_threads", "callback")
GROWS = Part("workqueue_online_cpu", "callback")
ONCE = Part("acpi_init", "initcall")


def boot(cpus: int) -> BootParts:
    """Return a boot in which one part costs each CPU the same and one grows with its square."""
    return BootParts(
        cpus,
        {
            FLAT: Cost(300 * cpus, 200 * cpus, 100 * cpus),
            GROWS: Cost(cpus**2, 0, cpus**2),
            ONCE: Cost(7000, 0, 7000),
        },
        {FLAT: 1, GROWS: 186},
    )


SERIES = [boot(4), boot(16), boot(64), boot(128), boot(240)]


def record(flavour: str, cpus: int) -> Record:
    """Return a boot of *cpus* CPUs with a few spans."""
    of = made.record(flavour, "2G", 1000)
    machine = dataclasses.replace(of.machine, cpus=cpus)
    listed = [
        Span("cpuhp_invoke_callback", "workqueue_online_cpu", cpus, 0, 50, 10, 40, 5, 186),
        Span("cpuhp_invoke_callback", "trace_rb_cpu_prepare", cpus, 0, 500, 0, 500, 0, 100),
        Span("start_secondary", "set_cpu_sibling_map", cpus - 1, 0, 9, 0, 9, 0),
        Span("start_secondary", "cpu_init", cpus - 1, 0, 6, 0, 6, 0),
        Span(spans.NOBODY, spans.FIRMWARE, 1, 1, 0, 0, 1000, 0),
        Span(spans.NOBODY, spans.KERNEL, 1, 1, 0, 0, 3, 0),
    ]
    return dataclasses.replace(of, machine=machine, spans=listed)


def test_one_more_cpu_at_both_ends() -> None:
    found = cpu_work.growth(SERIES, [GROWS])
    assert found is not None
    assert (found.low, found.high) == (20, 368)
    assert found.ratio == pytest.approx(18.4)
    flat = cpu_work.growth(SERIES, [FLAT])
    assert flat is not None
    assert flat.ratio == 1
    once = cpu_work.growth(SERIES, [ONCE])
    assert once is not None
    assert (once.high, once.ratio) == (0, None)
    assert cpu_work.growth(SERIES[:1], [FLAT]) is None


def test_table_has_what_grows_first_and_all_last() -> None:
    shown = plain(cpu_work_tables.work_table({"stock": SERIES}))
    names = [GROWS.function, FLAT.function, "all others", "all that is done for each CPU", "all"]
    assert [row[1] for row in shown.rows] == names
    assert shown.rows[-2][5] == f"{240 * 100 + 240**2:,}"
    assert shown.headings[-3:] == ["one more, 4 to 16", "one more, 128 to 240", "ratio"]
    flat = dict(zip(shown.headings, shown.rows[1], strict=True))
    assert flat["step"] == "#1"
    assert flat["total"] == "72,000"
    assert (flat["working"], flat["waiting"]) == ("24,000", "48,000")
    assert flat["per CPU"] == "100"
    assert flat["ratio"] == "1.00"
    assert shown.rows[-1][5] == f"{240 * 100 + 240**2 + 7000:,}"


def test_kernels_stand_in_one_table() -> None:
    shown = plain(cpu_work_tables.work_table({"stock": SERIES, "flatboot": SERIES[:2]}))
    assert [row[3] for row in shown.rows] == ["stock", "flatboot"] * 5
    assert shown.title.startswith("CPU bring-up on 240, 16 CPUs")
    assert shown.rows[1][-1] == ""


def test_parts_of_records() -> None:
    found = cpu_work.boots([record("stock", 8), made.record("stock", "2G", 7), record("stock", 4)])
    (series,) = found.values()
    assert [boot.cpus for boot in series] == [4, 8]
    assert series[0].steps == {Part("workqueue_online_cpu", "callback"): 186}
    assert series[0].costs == {
        Part("workqueue_online_cpu", "callback"): Cost(50, 10, 40, 4),
        Part("set_cpu_sibling_map", "new CPU"): Cost(9, 0, 9, 3),
        Part("cpu_init", "new CPU"): Cost(6, 0, 6, 3),
        Part(spans.KERNEL, ""): Cost(0, 0, 3, 1),
    }


def test_difference_of_two_boots() -> None:
    shown = plain(cpu_work_tables.difference({"few": boot(4), "many": boot(16)}, "Work", 1))
    assert [row[1] for row in shown.rows] == [FLAT.function, "all others", "all"]
    assert shown.rows[0][3:] == ["400", "1,600", "1,200"]
    assert shown.rows[-1][-1] == "1,440"


def test_plot(tmp_path: Path) -> None:
    path = tmp_path / "work.svg"
    cpu_work_tables.draw({"stock": SERIES}, path, 1)
    assert "<svg" in path.read_text()
