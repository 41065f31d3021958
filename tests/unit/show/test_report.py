"""The report: every section, figures that are right, nothing mixed, nothing that runs."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from boots import record

from flatboot.cli import report_cli
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import cases, kernel_names
from flatboot.record.cases import Case
from flatboot.record.record import TRACE_FILE, EmulatedMachine, Record
from flatboot.show import report
from flatboot.show.web_page import Section

TITLES = [
    "Boot cost against memory",
    "Boot cost against CPUs",
    "Phases",
    "Timeline",
    "CPU callbacks",
    "Comparison",
    "Host memory",
    "What was booted",
]
LAZY = "deferred_init=lazy"
HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)> $x_1$ & \x07 [bold]|'
TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
       swapper/0-1       [000] .....   200: cpuhp_enter: cpu: 0001 target: 238 step: 7 (buffers)
       swapper/0-1       [000] .....   500: cpuhp_exit:  cpu: 0001  state: 7 step: 7 ret: 0
         cpuhp/1-15      [001] .....   600: cpuhp_enter: cpu: 0001 target: 238 step: 8 (timers)
         cpuhp/1-15      [001] .....   700: cpuhp_exit:  cpu: 0001  state: 8 step: 8 ret: 0
"""


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, name: str) -> list[str]:
        """Return the values of all attributes *name*."""
        return [value for found, value in self.attributes if found == name]


def with_cpus(of: Record, cpus: int) -> Record:
    return dataclasses.replace(of, machine=dataclasses.replace(of.machine, cpus=cpus))


def by_wall(of: Record) -> Record:
    return dataclasses.replace(of, clock="wall")


def traced(of: Record, text: str = TRACE) -> Record:
    return dataclasses.replace(of, files={**of.files, TRACE_FILE: text})


def plenty() -> list[Record]:
    """Return records that fill every section."""
    sizes = {"2G": 329_000_000, "16G": 473_000_000, "1T": 8_153_000_000}
    stock = [record("stock", memory, cost) for memory, cost in sizes.items()]
    lazy = [record("flatboot", memory, 316_000_000 + n, LAZY) for n, memory in enumerate(sizes)]
    more = with_cpus(record("stock", "2G", 406_000_000), 2)
    return [*lazy, *stock, traced(more)]


def found(records: Sequence[Record], key: str) -> Section:
    made = report.sections(cases.cases(records))
    return next(section for section in made if section.key == key)


def test_every_section_has_what_the_records_can_fill() -> None:
    made = report.sections(cases.cases(plenty()))
    assert [section.title for section in made] == TITLES
    assert all(section.blocks for section in made)
    assert all(block.tables for section in made for block in section.blocks)
    plots = {section.key for section in made for block in section.blocks if block.plot}
    assert plots == {"memory", "cpus", "phases", "timeline", "host"}


def test_a_section_without_data_says_what_would_fill_it() -> None:
    bare = dataclasses.replace(record("stock", "2G", 1000), phases=[], calls=[])
    made = report.sections(cases.cases([bare]))
    empty = [section for section in made if not section.blocks]
    assert [section.title for section in empty] == TITLES[:6]
    page = report.page([bare])
    for section in empty:
        assert section.missing.count(". ") == 0
        assert section.missing in page


def test_a_line_through_known_points() -> None:
    linear = [record("stock", f"{gib}G", gib * 1_000_000) for gib in (1, 2, 4)]
    grown, measured = found(linear, "memory").blocks[0].tables
    assert grown.rows == [["stock", "1.000", "1,000,000", "0", "0.0%"]]
    assert [row[1:] for row in measured.rows] == [
        ["1 GiB", "1,000,000", "", "1"],
        ["2 GiB", "2,000,000", "2.000", "1"],
        ["4 GiB", "4,000,000", "4.000", "1"],
    ]
    square = [with_cpus(record("stock", "2G", cpus**2 * 1000), cpus) for cpus in (1, 2, 4)]
    assert found(square, "cpus").blocks[0].tables[0].rows[0][:2] == ["stock", "2.000"]


def test_runs_of_one_machine_are_one_case_with_their_median() -> None:
    runs = [by_wall(record("stock", "2G", cost)) for cost in (9_000_000, 1_000_000, 2_000_000)]
    made = cases.cases(runs)
    assert [case.cost for case in made] == [2_000_000]
    more = [*runs, by_wall(record("stock", "4G", 4_000_000))]
    _, measured = found(more, "memory").blocks[0].tables
    assert measured.headings[2:] == ["ms", "ratio", "boots"]
    assert measured.rows[0][2:] == ["2.0", "", "3"]


def test_the_clocks_are_never_in_one_table_or_plot() -> None:
    exact = plenty()
    kvm = dataclasses.replace(exact[0].machine, accelerator="kvm")
    wall = [dataclasses.replace(by_wall(each), to_init=77_700_000) for each in exact]
    by_kvm = [dataclasses.replace(each, machine=kvm) for each in wall[:1]]
    alone = report.sections(cases.cases(exact))
    mixed = report.sections(cases.cases([*exact, *wall, *by_kvm]))
    for section, other in zip(alone[:-1], mixed[:-1], strict=True):
        assert other.blocks[: len(section.blocks)] == section.blocks
    for block in (block for section in mixed[:3] for block in section.blocks):
        units = {word for table in block.tables for word in _units(table.headings, table.title)}
        assert len(units) == 1, block.title
    titles = [block.title for block in found([*exact, *wall, *by_kvm], "host").blocks]
    assert titles == ["Exact clock", "Wall clock, TCG", "Wall clock, KVM"]


def _units(headings: Sequence[str], title: str) -> set[str]:
    return set(re.findall(r"\b(instructions|ms)\b", " ".join([*headings, title])))


def test_phases_add_up_and_small_ones_are_drawn_together() -> None:
    (table,) = found(plenty()[3:4], "phases").blocks[0].tables
    *parts, whole = [int(row[1].replace(",", "")) for row in table.rows]
    assert sum(parts) == whole == 329_000_000
    case = cases.cases(plenty()[3:4])[0]
    drawn = report._parts(case, ["initcalls"])
    assert set(drawn) == {"initcalls", "others"}
    assert sum(drawn.values()) == whole


def test_callbacks_by_step_with_exponent_and_without_the_tracers_own() -> None:
    own = TRACE.replace("(buffers)", "(trace_rb_cpu_prepare)")
    third = own.replace("0001", "0002").replace("700", "900").replace("/1-", "/2-")
    few = traced(with_cpus(record("stock", "2G", 5_000), 2))
    many = traced(with_cpus(record("stock", "2G", 6_000), 3), own + third)
    table = found([few, many], "callbacks").blocks[0].tables[0]
    assert table.headings == [
        "function",
        "step",
        "phase",
        "stock, 3 CPUs: instructions",
        "per CPU",
        "exponent",
    ]
    assert table.rows == [["timers", "#8", "unattributed", "400", "200", "2.00"]]


def test_events_that_a_trace_lost_are_told() -> None:
    (block,) = found([traced(plenty()[0], f"CPU:1 [LOST 7 EVENTS]\n{TRACE}")], "callbacks").blocks
    assert block.text[1:] == ["The traces lost 7 events."]


def test_kernels_are_compared_where_they_share_machines() -> None:
    (block,) = found(plenty(), "comparison").blocks
    assert "flatboot deferred_init=lazy against stock, improvement" in block.title
    sizes = [row[1] for row in block.tables[1].rows if row[0].startswith("total")]
    assert sizes == ["2 GiB", "16 GiB", "1 TiB"]
    apart = [record("stock", "2G", 1000), record("flatboot", "4G", 1000)]
    assert not found(apart, "comparison").blocks


def test_names_tell_kernels_apart_and_no_more() -> None:
    first = record("stock", "2G", 1)
    assert kernel_names.names([first, record("flatboot", "2G", 1, LAZY)]) == [
        "stock",
        f"flatboot {LAZY}",
    ]
    older = dataclasses.replace(first, kernel=dataclasses.replace(first.kernel, version="6.12"))
    assert kernel_names.names([first, older]) == ["stock 7.3.4", "stock 6.12"]
    other = dataclasses.replace(first.kernel, config_hash="d" * 64)
    changed = dataclasses.replace(first, kernel=other)
    assert kernel_names.names([first, changed]) == ["stock abc", "stock dddddddd"]


def hostile(of: Record) -> Record:
    return dataclasses.replace(
        of,
        kernel=dataclasses.replace(
            of.kernel, flavour=HOSTILE, version=HOSTILE, base=HOSTILE, compiler=HOSTILE
        ),
        machine=dataclasses.replace(of.machine, arch=HOSTILE, host=HOSTILE, firmware=HOSTILE),
        cmdline=f"quiet {HOSTILE}",
        phases=[dataclasses.replace(part, name=HOSTILE + part.name) for part in of.phases],
        calls=[dataclasses.replace(call, function=HOSTILE) for call in of.calls],
        notes=[HOSTILE],
        console=HOSTILE,
        created=HOSTILE,
        files={**of.files, TRACE_FILE: TRACE.replace("timers", HOSTILE)},
    )


def test_hostile_strings_come_out_as_text() -> None:
    records = [*plenty(), *(hostile(each) for each in plenty())]
    page = Page(report.page(records))
    assert page.tags["script"] == page.tags["img"] == 0
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert any("<script>alert" in text for text in page.words)
    wall = [by_wall(dataclasses.replace(each, machine=_runner(each))) for each in plenty()]
    assert Page(report.page(wall)).tags["script"] == 0


def _runner(of: Record) -> EmulatedMachine:
    return dataclasses.replace(of.machine, accelerator=HOSTILE)


@pytest.fixture(scope="module")
def text() -> str:
    """The report on plenty."""
    return report.page(plenty())


def test_the_page_needs_nothing_beside_itself(text: str) -> None:
    page = Page(text)
    targets = [*page.all("src"), *page.all("href"), *page.all("xlink:href")]
    assert not [target for target in targets if not target.startswith(("#", "data:"))]
    assert "url(http" not in text and "@import" not in text


def test_ids_are_unique_and_what_refers_to_them_finds_them(text: str) -> None:
    page = Page(text)
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    links = [*page.all("href"), *page.all("xlink:href")]
    named = re.findall(r"url\(#([^)]*)\)", text) + [x[1:] for x in links if x[0] == "#"]
    assert named
    assert set(named) <= set(ids)


def test_the_page_can_be_read_without_seeing_it(text: str) -> None:
    page = Page(text)
    assert page.all("lang") == ["en"]
    assert page.tags["h1"] == 1
    assert page.tags["figure"] == page.all("role").count("img") > 0
    assert page.tags["th"] == len(page.all("scope"))
    assert page.tags["table"] == page.tags["caption"]
    assert all(page.all("aria-label"))


def test_colours_are_the_style_sheets(text: str) -> None:
    body = text[text.index("<body>") :]
    assert "var(--series-1)" in body
    assert not re.findall(r"(?:fill|stroke): ?#", body)


def test_the_same_records_give_the_same_page(text: str) -> None:
    assert report.page(plenty()) == text


def test_the_command_writes_a_page(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, each in enumerate(plenty()):
        each.save(tmp_path / f"{number}.json")
    page = tmp_path / "out" / "report.html"
    report_cli.run_report([tmp_path], page)
    assert page.read_text() == text
    assert str(page) in capsys.readouterr().out


def test_what_cannot_be_reported_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no record"):
        report_cli.run_report([tmp_path], tmp_path / "report.html")
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FlatbootError, match="not a record"):
        report_cli.run_report([tmp_path / "a.json"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
    record("stock", "2G", 1000).save(tmp_path / "a.json")
    with pytest.raises(FlatbootError, match="cannot write"):
        report_cli.run_report([tmp_path / "a.json"], tmp_path / "a.json" / "report.html")


def test_a_long_sweep_is_drawn_in_plots_that_fit_a_page() -> None:
    sizes = [f"{gib}G" for gib in range(1, 26)]
    records = [record(flavour, size, 1000) for size in sizes for flavour in ("stock", "flatboot")]
    blocks = found(records, "phases").blocks
    assert len(blocks) == 5
    assert sum(len(block.tables) for block in blocks) == 25


def test_a_case_knows_its_machine() -> None:
    case = Case("stock", cases.cases(plenty())[0].clock, (with_cpus(plenty()[0], 2),))
    assert case.machine == "x86_64, 2 GiB, 2 CPUs"
