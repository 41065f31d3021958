"""Excerpts of records: what they hold, their file, and who reads what they do not hold."""

from __future__ import annotations

import dataclasses
import difflib
import json
import threading
from pathlib import Path

import boots
import pytest

from flatboot.common.errors import FlatbootError
from flatboot.record import excerpts
from flatboot.record.excerpts import NOTHING, Excerpt, Reads
from flatboot.record.record import Record, Span

SPANS = [
    Span("do_one_initcall", "msr_init", 1, 0, 900, 0, 900, 0),
    Span("cpuhp_invoke_callback", "sched_cpu_activate", 3, 0, 800, 100, 700, 5, step=233),
    Span("do_one_initcall", "msr_init", 1, 1, 0, 0, 20, 0),
]
LOG = "[    0.1] smp: Brought up 2 CPUs\n[    0.2] initcall a returned 0\n"
ALL = Reads(
    results=("pool.*",),
    files=(("/proc/meminfo", ("MemFree:*", "MemTotal:*")),),
    log=("*initcall *",),
    phases=True,
    functions=True,
    spans=True,
)


def whole(to_init: int = 1000) -> Record:
    """Return a record that has something of everything."""
    return dataclasses.replace(
        boots.record("stock", "2G", to_init),
        results={"pool.ticks": "7", "pool.^2": "8", "mark": "9"},
        files={"/proc/meminfo": "MemTotal: 4 kB\nMemFree: 3 kB\nSlab: 1 kB\n", "/x": "y\n"},
        log=LOG,
        functions={"start_kernel": 5, "b": 2, "a": 2},
        spans=SPANS,
    )


def write(path: Path, **kept: Excerpt) -> None:
    for name, one in kept.items():
        excerpts.add(path, name, one)


def test_what_is_read_is_kept_to_the_last_digit(tmp_path: Path) -> None:
    made = whole()
    write(tmp_path / "a.json", b=excerpts.excerpt(made, ALL))
    (kept,) = excerpts.load(tmp_path / "a.json").values()
    assert kept.reads == ALL
    record = kept.record
    for name in ("kernel", "machine", "cmdline", "clock", "created", "to_init", "host_peak_bytes"):
        assert getattr(record, name) == getattr(made, name)
    assert record.phases == made.phases
    assert record.spans == SPANS
    assert list(record.functions.items()) == [("start_kernel", 5), ("a", 2), ("b", 2)]
    assert record.results == {"pool.ticks": "7", "pool.^2": "8"}
    assert record.files == {"/proc/meminfo": "MemTotal: 4 kB\nMemFree: 3 kB\n"}
    assert record.log == "[    0.2] initcall a returned 0\n"


def test_nothing_else_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a.json", b=excerpts.excerpt(whole(), NOTHING))
    record = excerpts.load(tmp_path / "a.json")["b"].record
    assert not any((record.phases, record.calls, record.results, record.files, record.functions))
    assert not any((record.spans, record.log, record.console, record.notes))
    text = (tmp_path / "a.json").read_text()
    assert not any(word in text for word in ("complete", "acpi_init", "pool", "initcall", "Mem"))


def test_another_figure_is_another_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write(path, b=excerpts.excerpt(whole(), ALL), c=excerpts.excerpt(whole(2000), ALL))
    before = path.read_text().splitlines()
    changed = dataclasses.replace(whole(), results={**whole().results, "pool.ticks": "6"})
    write(path, b=excerpts.excerpt(changed, ALL))
    lines = list(difflib.unified_diff(before, path.read_text().splitlines(), n=0))[3:]
    assert [line.strip() for line in lines] == ['-    "pool.ticks": "7"', '+    "pool.ticks": "6"']


def test_another_span_phase_or_count_is_another_line() -> None:
    base = whole()
    spans = [dataclasses.replace(SPANS[0], working=901), *SPANS[1:]]
    phases = [dataclasses.replace(base.phases[0], length=99), *base.phases[1:]]
    counts = {**base.functions, "a": 3}
    first = excerpts.text({"b": excerpts.excerpt(base, ALL)}).splitlines()
    for other in (
        dataclasses.replace(base, spans=spans),
        dataclasses.replace(base, phases=phases),
        dataclasses.replace(base, functions=counts),
    ):
        second = excerpts.text({"b": excerpts.excerpt(other, ALL)}).splitlines()
        assert sum(one != two for one, two in zip(first, second, strict=True)) == 1


def test_the_file_is_the_same_in_whatever_order_it_was_made(tmp_path: Path) -> None:
    one, two = excerpts.excerpt(whole(), ALL), excerpts.excerpt(whole(2000), NOTHING)
    write(tmp_path / "a.json", one=one, two=two)
    write(tmp_path / "b.json", two=two, one=one)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        (NOTHING, "phases"),
        (NOTHING, "results"),
        (NOTHING, "files"),
        (NOTHING, "log"),
        (NOTHING, "spans"),
        (NOTHING, "functions"),
        (ALL, "console"),
        (ALL, "calls"),
        (ALL, "notes"),
    ],
)
def test_a_part_that_is_not_named_cannot_be_read(reads: Reads, name: str) -> None:
    record = excerpts.guarded(excerpts.excerpt(whole(), reads), reads, "a/stock-2G")
    assert record.to_init == 1000
    with pytest.raises(FlatbootError, match=rf"^a table reads {name} of a/stock-2G and .* Wanted"):
        getattr(record, name)


def test_a_file_or_result_that_is_not_named_cannot_be_read() -> None:
    record = excerpts.guarded(excerpts.excerpt(whole(), ALL), ALL, "a/stock-2G")
    assert record.meminfo == {"MemTotal": 4, "MemFree": 3}
    assert "pool.pages" not in record.results
    assert record.results.get("pool.pages", "0") == "0"
    with pytest.raises(KeyError):
        print(record.results["pool.pages"])
    with pytest.raises(FlatbootError, match="reads /proc/vmstat of"):
        record.files.get("/proc/vmstat", "")
    with pytest.raises(FlatbootError, match="reads mark of"):
        print(record.results["mark"])
    with pytest.raises(FlatbootError, match="reads mark of"):
        print("mark" in record.results)
    some = dataclasses.replace(ALL, files=())
    with pytest.raises(FlatbootError, match="reads files of"):
        print(excerpts.guarded(excerpts.excerpt(whole(), some), some, "a").meminfo)


def test_what_an_excerpt_lacks_for_a_reading() -> None:
    assert ALL.lacks(ALL) == ALL.lacks(NOTHING) == []
    assert NOTHING.lacks(ALL) == ["results", "files", "log", "phases", "functions", "spans"]
    other = Reads(results=("pool.*", "mark"), files=(("/proc/meminfo", ("Slab:*",)),))
    assert ALL.lacks(other) == ["results", "files"]


def test_writers_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path, start = tmp_path / "a.json", threading.Barrier(4)

    def writer(number: int) -> None:
        start.wait()
        for boot in range(5):
            excerpts.add(path, f"{number}-{boot}", excerpts.excerpt(whole(boot + 1), ALL))

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = excerpts.load(path)
    assert {name: one.record.to_init for name, one in kept.items()} == {
        f"{number}-{boot}": boot + 1 for number in range(4) for boot in range(5)
    }


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ('"to_init": 1000', '"to_init": "much"', r"boots\.b\.to_init: Input should be .*integer"),
        ('"clock"', '"clocks"', "clock"),
        ('"kernel": "stock', '"kernel": "stack', "it lacks stack-bench-"),
        ("{", "", "Invalid JSON"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, was: str, now: str, why: str) -> None:
    path = tmp_path / "a.json"
    write(path, b=excerpts.excerpt(whole(), NOTHING))
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, now, 1))
    with pytest.raises(FlatbootError, match=rf"a\.json is not a whole file .*\(.*{why}") as raised:
        excerpts.load(path)
    assert "\n" not in str(raised.value)
    damaged = path.read_bytes()
    with pytest.raises(FlatbootError, match="is not a whole file"):
        excerpts.add(path, "c", excerpts.excerpt(whole(), NOTHING))
    assert path.read_bytes() == damaged


def test_a_file_of_a_newer_flatboot(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write(path, b=excerpts.excerpt(whole(), NOTHING))
    data = json.loads(path.read_text())
    newer = excerpts.SCHEMA + 1
    path.write_text(json.dumps({**data, "schema": newer, "more": 1}))
    with pytest.raises(FlatbootError, match=rf"a.json has schema {newer} .* update flatboot"):
        excerpts.load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match="cannot read"):
        excerpts.load(tmp_path / "a.json")
