"""The store of records: shared, mended when it is damaged, refused when it is newer."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import boots
import pytest

from flatboot.common.errors import FlatbootError
from flatboot.record import store
from flatboot.record.store import Store

FIRST, SECOND = (boots.record("stock", "2G", cost) for cost in (300, 400))


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    """A store with one record."""
    made = Store(tmp_path / "store.sqlite")
    made.add("first", FIRST)
    return made


def test_what_was_added_is_found(kept: Store) -> None:
    assert Store(kept.path).find("first") == FIRST
    assert kept.find("second") is None
    kept.add("first", SECOND)
    assert kept.find("first") == SECOND


def test_looking_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    assert Store(path).find("first") is None
    assert not path.exists()


def test_the_newest_are_kept(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT", 2)
    for number in range(3):
        kept.add(str(number), SECOND)
    assert [key for key in ("first", "0", "1", "2") if kept.find(key)] == ["1", "2"]


@pytest.mark.parametrize("damage", ["head", "middle", "no database", "record", "older"])
def test_a_damaged_store_is_set_aside(
    kept: Store, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        kept.add(str(number), SECOND)
    statements = {
        "record": "UPDATE boots SET record = x'00'",
        "older": "PRAGMA user_version = 1",
    }
    if damage in statements:
        with sqlite3.connect(kept.path) as connection:
            connection.execute(statements[damage])
    else:
        content = kept.path.read_bytes()
        start = {"head": 16, "middle": 4096, "no database": 0}[damage]
        kept.path.write_bytes(content[:start] + b"\xff" * 8192 + content[start + 8192 :])
    assert kept.find("first") is None
    (aside,) = kept.path.parent.glob("store-damaged-*.sqlite")
    said = " ".join(capsys.readouterr().err.split())
    assert f"set aside as {aside.name}, and a new store begun" in said
    kept.add("first", FIRST)
    assert kept.find("first") == FIRST


def test_a_newer_store_is_left_alone(kept: Store) -> None:
    with sqlite3.connect(kept.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = kept.path.read_bytes()
    with pytest.raises(FlatbootError, match="has schema 99 and this flatboot knows"):
        kept.find("first")
    with pytest.raises(FlatbootError, match="has schema 99 and this flatboot knows"):
        kept.add("second", SECOND)
    assert kept.path.read_bytes() == before


WRITER = """
import sys
sys.path[:0] = [{helpers!r}]
import boots
from pathlib import Path
from flatboot.record.store import Store
for number in range(40):
    Store(Path({path!r})).add(f"{{sys.argv[1]}}-{{number}}", boots.record("stock", "2G", number))
"""


def test_two_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    code = WRITER.format(helpers=str(Path(boots.__file__).parent), path=str(path))
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in ("a", "b")]
    assert [writer.wait() for writer in writers] == [0, 0]
    kept = Store(path)
    assert all(kept.find(f"{name}-{number}") for name in ("a", "b") for number in range(40))


def test_a_full_disk_costs_no_record(kept: Store) -> None:
    with sqlite3.connect(kept.path) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    big = boots.record("stock", "2G", 500, "x" * 10)

    def full(results: object) -> None:
        connection: sqlite3.Connection = results._connection  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        results.add("big", big)  # type: ignore[attr-defined]

    with pytest.raises(FlatbootError, match="database or disk is full"):
        for _ in range(100):
            kept._do(full)
            big = boots.record("stock", "2G", 500, f"{big.cmdline} {hash(big.cmdline)}" * 40)
    assert kept.find("first") == FIRST
