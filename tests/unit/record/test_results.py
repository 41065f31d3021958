"""The results file: what it keeps, what SQL sees, and what it refuses."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import boots
import pytest

from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import excerpts, results
from flatboot.record.excerpts import NOTHING
from flatboot.record.record import Record
from flatboot.record.results import Results


def without_texts(record: Record) -> Record:
    return dataclasses.replace(record, console="", log="")


def test_keeps_records_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.sqlite"
    first = boots.record("stock", "2G", 300)
    second = boots.record("flatboot", "1T", 200, "deferred_init=lazy")
    with Results.open(path, create=True) as kept:
        kept.add("b", first)
        kept.add("a", second)
    with Results.open(path) as kept:
        assert kept.keys() == {"a", "b"}
        assert (kept.find("b"), kept.find("a"), kept.find("c")) == (first, second, None)
        assert kept.records() == [without_texts(first), without_texts(second)]
        assert kept.by_key() == {"b": without_texts(first), "a": without_texts(second)}
        assert kept.by_key({"a", "c"}) == {"a": without_texts(second)}


def test_a_key_has_one_record(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Results.open(path, create=True) as kept:
        kept.add("a", boots.record("stock", "2G", 300))
        kept.add("a", boots.record("stock", "2G", 301))
        assert [record.to_init for record in kept.records()] == [301]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM phases").fetchone() == (5,)
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (2,)


def test_columns_and_tables_for_sql(tmp_path: Path) -> None:
    made = boots.record("stock", "2G", 1000, "nosmp")
    path = tmp_path / "results.sqlite"
    with Results.open(path, create=True) as kept:
        kept.add("a", made)
    with sqlite3.connect(path) as connection:
        assert connection.execute(
            "SELECT base, version, flavour, config, config_hash, arch, memory_bytes FROM boots"
        ).fetchall() == [("7.3", "7.3.4", "stock", "bench", "abc", "x86_64", 2 << 30)]
        assert connection.execute(
            "SELECT cpus, nodes, cmdline, clock, to_init, host_peak_bytes, created FROM boots"
        ).fetchall() == [
            (1, 1, "console=ttyS0 quiet nosmp", "exact", 1000, 160_000_000, made.created)
        ]
        assert connection.execute(
            "SELECT name, sum(length) FROM boots JOIN phases USING (boot) WHERE key = 'a'"
            " GROUP BY name ORDER BY min(start)"
        ).fetchall() == [
            ("firmware", 100),
            ("unattributed", 150),
            ("initcalls", 700),
            ("user space", 50),
        ]
        assert connection.execute("SELECT function, start, length FROM calls").fetchall() == [
            ("acpi_init", 200, 100),
            ("pty_init", 500, 200),
        ]


def test_a_failure_lasts_until_the_boot_succeeds(tmp_path: Path) -> None:
    with Results.open(tmp_path / "results.sqlite", create=True) as kept:
        kept.fail("a", "the guest panicked")
        kept.fail("a", "the guest hung")
        kept.fail("b", "QEMU died")
        assert kept.failures() == {"a": "the guest hung", "b": "QEMU died"}
        kept.add("a", boots.record("stock", "2G", 300))
        assert kept.failures() == {"b": "QEMU died"}
        assert kept.keys() == {"a"}


def test_what_was_added_outlives_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    kept = Results.open(path, create=True)
    kept.add("a", boots.record("stock", "2G", 300))
    with Results.open(path) as other:
        assert other.keys() == {"a"}
    kept.__exit__(None, None, None)


def test_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with pytest.raises(FlatbootError, match=r"there is no .*results.sqlite: make it"):
        Results.open(path)
    path.write_text("memory,cost\n" * 100)
    with pytest.raises(FlatbootError, match=r"cannot use .*: file is not a database"):
        Results.open(path, create=True)
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE boots (name)")
    with pytest.raises(FlatbootError, match="is not a results file of flatboot"):
        Results.open(path, create=True)


@pytest.mark.parametrize(
    ("version", "error", "told"),
    [
        (99, FlatbootError, "has schema 99 and this flatboot knows 2: update"),
        (1, results.Damaged, "has schema 1 and this flatboot knows 2: name"),
    ],
)
def test_refuses_another_version(
    tmp_path: Path, version: int, error: type[FlatbootError], told: str
) -> None:
    path = tmp_path / "results.sqlite"
    Results.open(path, create=True).__exit__(None, None, None)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(error, match=told):
        Results.open(path, create=True)


def test_an_empty_file_becomes_a_results_file_on_demand_only(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.touch()
    with pytest.raises(FlatbootError, match="not a results file"):
        Results.open(path)
    with Results.open(path, create=True) as kept:
        assert kept.records() == []


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Results.open(path, create=True) as kept:
        kept.add("a", boots.record("stock", "2G", 300))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE boots SET record = x'00'")
    with Results.open(path) as kept, pytest.raises(FlatbootError, match="cannot use"):
        kept.records()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FlatbootError, match=r"cannot use .*malformed"):
        results.read([path])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FlatbootError, match="cannot write"):
        Results.open(tmp_path / "file" / "results.sqlite", create=True)
    with pytest.raises(FlatbootError, match=r"cannot use .*unable to open"):
        Results.open(tmp_path, create=True)


def test_read_takes_files_folders_and_results(tmp_path: Path) -> None:
    made = [boots.record("stock", "2G", cost) for cost in (1, 2, 3, 4)]
    folder = tmp_path / "folder"
    made[1].save(folder / "b.json")
    made[0].save(folder / "a.json")
    (folder / "plot.svg").touch()
    made[3].save(tmp_path / "one.json")
    with Results.open(tmp_path / "other-name.db", create=True) as kept:
        kept.add("a", made[2])
    excerpts.add(tmp_path / "some.json", "b", excerpts.excerpt(made[1], NOTHING))
    excerpts.add(tmp_path / "some.json", "a", excerpts.excerpt(made[0], NOTHING))
    paths = [folder, tmp_path / "other-name.db", tmp_path / "one.json"]
    assert results.read(paths) == [*made[:2], without_texts(made[2]), made[3]]
    some = results.read([tmp_path / "some.json"])
    assert [(one.to_init, one.console) for one in some] == [(1, ""), (2, "")]


def test_read_refuses_nothing_and_no_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no record in"):
        results.read([tmp_path])
    with pytest.raises(FlatbootError, match="cannot read"):
        results.read([tmp_path / "missing.json"])
    with pytest.raises(FlatbootError, match=r"there is no .*missing"):
        results.read([tmp_path / "missing.sqlite"])
    (tmp_path / "table.txt").write_text("2G 300\n")
    with pytest.raises(FlatbootError, match="is not a record"):
        results.read([tmp_path / "table.txt"])
