"""Records, and what is made of them: timeline, tables, plot."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from boots import record
from rich.console import Console

from flatboot.common.errors import FlatbootError
from flatboot.record import timeline
from flatboot.record.record import SCHEMA, Record, load
from flatboot.show import plot, tables


def test_round_trip(tmp_path: Path) -> None:
    before = record("stock", "2G", 1000)
    before.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json") == before
    assert before.meminfo == {"MemTotal": 2051220, "MemFree": 2039672, "HugePages_Total": 3}
    assert before.unit == "instructions"
    assert before.phase("unattributed") == 150


def damaged(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "a.json"
    record("stock", "2G", 1000).save(path)
    data = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schema": SCHEMA + 1}, r"has schema 5 and this flatboot knows 4: update flatboot"),
        ({"schema": None}, "is not a record: it has no schema number"),
        ({"to_init": None}, "is not a whole record: to_init is missing"),
        ({"to_init": "many"}, "to_init = 'many': write a whole number"),
        ({"extra": 1}, "unknown key 'extra': there are kernel, machine"),
        ({"results": []}, "is not a whole record"),
        ({"machine": 7}, "machine = 7: write a table"),
        ({"phases": [{"name": "x"}]}, r"is not a whole record: phases\[0\].start is missing"),
    ],
)
def test_damaged_records(tmp_path: Path, changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(FlatbootError, match=sentence):
        load(damaged(tmp_path, **changes))


def test_no_record_at_all(tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match="No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(FlatbootError, match="holds no JSON"):
        load(tmp_path / "text.json")


def test_timeline_is_a_trace_event_file(tmp_path: Path) -> None:
    source = record("stock", "2G", 1_000_000)
    timeline.write(source, tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    events = document["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    spans = [event for event in events if event["ph"] == "X"]
    for span in spans:
        assert set(span) == {"ph", "name", "pid", "tid", "ts", "dur", "args"}
        assert span["dur"] >= 0
    track = [span for span in spans if span["tid"] == 1]
    assert sum(span["dur"] for span in track) == pytest.approx(1000.0)
    for one, next_one in itertools.pairwise(track):
        assert one["ts"] + one["dur"] == pytest.approx(next_one["ts"])
    calls = [span["name"] for span in spans if span["tid"] == 2]
    assert calls == ["acpi_init", "pty_init"]


def shown(item: object) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(item)
    return console.export_text()


def test_phase_table_adds_up() -> None:
    text = shown(tables.phase_table(record("stock", "2G", 1000)))
    assert "firmware" in text
    assert "1,000" in text
    assert text.count("unattributed") == 1


def test_initcalls_are_sorted_by_cost() -> None:
    text = shown(tables.initcall_table(record("stock", "2G", 1000)))
    assert text.index("pty_init") < text.index("acpi_init")


def test_growth_is_against_the_same_kernels_smallest() -> None:
    boots = [
        record("stock", "1T", 16_000_000_000),
        record("stock", "2G", 400_000_000),
        record("flatboot", "2G", 400_000_000, "deferred_init=lazy"),
        record("flatboot", "1T", 440_000_000, "deferred_init=lazy"),
    ]
    text = shown(tables.growth_table(boots))
    assert "40.00x" in text
    assert "1.10x" in text
    assert "flatboot lazy" in text
    assert text.index("stock") < text.index("flatboot")


def test_tables_of_a_boot_without_phases_or_meminfo() -> None:
    bare = dataclasses.replace(record("stock", "2G", 1000), phases=[], calls=[], files={})
    assert "MemTotal unknown" in shown(tables.summary(bare))
    assert "not measured" in shown(tables.growth_table([bare]))


def boots_over_sizes() -> list[Record]:
    sizes = {"2G": 4e8, "16G": 6e8, "128G": 2e9, "1T": 16e9}
    return [record("stock", size, int(cost)) for size, cost in sizes.items()]


def test_plot_is_svg_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot.cost_against_memory(boots_over_sizes(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


def test_plot_of_boots_by_phase(tmp_path: Path) -> None:
    shown = {
        "stock": record("stock", "1T", 9_000_000_000),
        "flatboot": record("flatboot", "1T", 400_000_000, "deferred_init=lazy"),
    }
    for name in ("a.svg", "b.svg"):
        plot.boots(shown, tmp_path / name, title="1 TiB", largest=2)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    bars = re.findall(r'id="PolyCollection_\d+"', text)
    assert len(bars) == sum(len(boot.phases) for boot in shown.values())
    # Two colours of the longest phases, and one of all others.
    assert len(set(re.findall("fill: (#[0-9a-f]{6})", text)) - {"#ffffff"}) == 3
