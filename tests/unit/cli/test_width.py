"""Every table that a command prints fits a terminal of 80 columns, and nothing of it is cut."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boots
import compared
import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from flatboot.analysis import cpu_work, projection, projection_rules, verdict
from flatboot.analysis.compare import compare
from flatboot.analysis.projection import MachineSize, Projection
from flatboot.bootlog import bootlog_advice, bootlog_input
from flatboot.campaign import bisect_tables, fuzz_draw
from flatboot.campaign.bisect import Trial
from flatboot.campaign.fuzz import FAILED, Outcome
from flatboot.campaign.git_bisect import BAD, Commit
from flatboot.cli import bench_cli, fuzz_cli, lint
from flatboot.common import paths, screen
from flatboot.record import results
from flatboot.record.callbacks import Callback
from flatboot.record.record import Call, Record
from flatboot.show import bootlog_tables, cpu_work_tables, projection_tables, sweep_tables, tables
from flatboot.show.plain_table import plain

WIDTH = 80
DATA = Path(__file__).parents[2] / "data" / "bootlog"
#: All but one that holds no boot.
LOGS = [path for path in sorted(DATA.glob("*.log")) if path.name != "later.log"]
KEPT = paths.repo() / "bench" / "results" / "cpu_bring_up.json"
LONG = "x" * 50 + " " + "word " * 30
Parts = list[RenderableType]


def printed(parts: Sequence[RenderableType], width: int = WIDTH) -> str:
    """Return what a command prints of *parts* in so many columns."""
    file = io.StringIO()
    console = screen.console(file=file)
    console.width = width
    for part in parts:
        console.print(part)
    return file.getvalue()


def large(flavour: str, memory: str, cost: int, **fields: Any) -> Record:
    """Return a boot whose figures are as long as they get."""
    made = boots.record(flavour, memory, cost, "deferred_init=background")
    calls = [Call("a_driver_whose_init_function_has_a_long_name_init", 0, cost // 7)]
    notes = ["what a boot notes of itself may be long, and is not cut " * 3]
    return dataclasses.replace(
        made, calls=calls, notes=notes, host_peak_bytes=17_880_000_000, **fields
    )


def of_a_boot() -> Parts:
    record = large("flatboot", "1007G", 8_153_999_999_999)
    return [tables.phase_table(record), tables.initcall_table(record), tables.summary(record)]


def of_the_demo() -> Parts:
    sizes = ("2G", "16G", "128G", "1T")
    return [tables.growth_table([large("flatboot", size, 8_153_999_999) for size in sizes])]


def of_a_sweep() -> Parts:
    records = [
        dataclasses.replace(
            large(flavour, size, 8_153_999_999),
            machine=dataclasses.replace(boots.record(flavour, size, 1).machine, cpus=cpus),
            clock=clock,
        )
        for flavour in ("stock", "flatboot")
        for size in ("2G", "1T")
        for cpus in (1, 240)
        for clock in ("exact", "wall")
    ]
    return [*sweep_tables.tables(records)]


def of_a_traced_sweep() -> Parts:
    counted = cpu_work.boots(results.read([KEPT]))
    return [cpu_work_tables.work_table(counted)]


def of_a_comparison() -> Parts:
    def slower(cost: float, gib: float, cpus: int) -> float:
        return 12.5 * cost

    sizes = [
        compared.boot(size, cpus, **change)
        for change in ({}, {"initcalls": slower, "waiting": slower})
        for size in ("2G", "64G", "2T")
        for cpus in (1, 240)
    ]
    exact = compare(sizes[:6], sizes[6:])
    walls = [
        compared.wall([{"initcalls": 12**9 + run * step} for run in range(12)], "64G", since)
        for step, since in ((10**6, 0), (10**8, 1))
    ]
    return [*verdict.tables(exact), *verdict.tables(compare(*walls))]


def of_a_bisection() -> Parts:
    sizes = ("2G", "64G")
    changed = compare(
        compared.sizes(*sizes), compared.sizes(*sizes, waiting=lambda cost, *_: 30 * cost)
    )
    step = Trial(Commit("0123456789ab" * 3, "A", "today", LONG), BAD, 8_153_999_999, 12345)
    return [
        bisect_tables.change_table("The two ends, instructions", changed.phases, "good", "bad"),
        bisect_tables.step_table([step, dataclasses.replace(step, cost=None)]),
    ]


def of_fuzzing() -> Parts:
    drawn = [fuzz_draw.draw(seed) for seed in range(1, 200)]
    return [fuzz_cli.table([Outcome(case, FAILED, [], {}, {}, 1234) for case in drawn])]


def of_lint_and_bench() -> Parts:
    checks, figures = lint._table(), bench_cli._summary()
    checks.add_row("sparse and W=1, 7.3, x86_64", "123", "[red]failed[/]")
    figures.add_row(
        "memory-behind-boot-adding", "docs/memory-map-on-demand.md", "changed", Text(LONG)
    )
    return [checks, figures]


def of_logs() -> Iterator[RenderableType]:
    for path in LOGS:
        analysis = bootlog_input.analyze(str(path), None)
        yield from bootlog_tables.report(analysis, bootlog_advice.advise(analysis))
    calls = [Callback(1, 186, "a_callback_with_quite_a_long_name_indeed", 0.0, 8_153_999_999.0)]
    yield bootlog_tables.callback_table(calls, "ns")


def of_a_projection() -> Parts:
    rules, published = projection_rules.rules(), projection_rules.published()
    kernels = projection.kernels(results.read([KEPT]), rules.ways)
    found, machine = Projection(kernels, rules, published), MachineSize(1780, 16)
    return [
        projection_tables.answer(found, machine),
        projection_tables.ways(found, machine),
        projection_tables.verdicts(found, machine),
        projection_tables.dearest(found, machine),
        projection_tables.terms(found),
        projection_tables.assumed(found),
        projection_tables.parts(found),
        projection_tables.check(found),
        projection_tables.published(found, published),
    ]


@pytest.mark.parametrize(
    "made",
    [
        of_a_boot,
        of_the_demo,
        of_a_sweep,
        of_a_traced_sweep,
        of_a_comparison,
        of_a_bisection,
        of_fuzzing,
        of_lint_and_bench,
        of_logs,
        of_a_projection,
    ],
)
def test_tables_fit_and_are_whole(made: Any) -> None:
    parts = list(made())
    text = printed(parts)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "…" not in text
    for part in parts:
        if isinstance(part, Table):
            assert letters("".join(said(part))) <= letters(printed([part]))


def said(table: Table) -> list[str]:
    """Return all that *table* says."""
    whole = plain(table)
    return [
        whole.title,
        whole.caption,
        *whole.headings,
        *(cell for row in whole.rows for cell in row),
    ]


def letters(text: str) -> Counter[str]:
    """Return how often each character but space comes in *text*, whatever was folded."""
    return Counter("".join(text.split()))


def table(columns: int) -> Table:
    made = Table("kernel", title="Costs")
    for number in range(columns):
        made.add_column(f"c{number}", justify="right")
    made.add_row("stock", *(f"{10**8 + number:,}" for number in range(columns)))
    return made


def test_a_table_that_fits_is_printed_as_it_is() -> None:
    text = printed([table(3)])
    assert "│ stock  │ 100,000,000 │ 100,000,001 │ 100,000,002 │" in text
    assert "part" not in text


def test_a_table_with_many_numbers_is_printed_in_parts() -> None:
    made = table(12)
    text = printed([made])
    assert "Costs, part 1 of 2" in text and "Costs, part 2 of 2" in text
    assert text.count("stock") == 2
    assert all(f"{10**8 + number:,}" in text for number in range(12))
    assert len(made.columns) == 13 and made.title == "Costs"


def test_the_width_is_that_of_columns_then_the_terminal_then_80(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert screen.console(file=io.StringIO()).width == 80
    monkeypatch.setenv("COLUMNS", "132")
    assert screen.console(file=io.StringIO()).width == 132
    monkeypatch.setenv("COLUMNS", "wide")
    assert screen.console(file=io.StringIO()).width == 80
