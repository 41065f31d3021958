"""TOML and JSON as typed values, and the sentences on what does not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flatboot.common import typed
from flatboot.common.errors import FlatbootError, UsageError


@dataclass(frozen=True)
class Inner:
    pattern: re.Pattern[str]
    weight: float = 1.0


@dataclass(frozen=True)
class Outer:
    rows: tuple[Inner, ...]
    named: dict[str, Inner]


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("rows = [{pattern = 'a+', weight = 2}]\n[named]\n")
    assert typed.load(tmp_path / "a.toml", Outer) == Outer((Inner(re.compile("a+"), 2.0),), {})
    (tmp_path / "a.json").write_text('{"a": [1, 2]}')
    assert typed.load(tmp_path / "a.json", dict[str, tuple[int, ...]]) == {"a": (1, 2)}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "rows is missing"),
        ({"row": []}, "unknown key 'row': there are rows, named"),
        (
            {"rows": [{"pattern": "("}], "named": {}},
            r"rows\[0\].pattern = '\(': it should be a val",
        ),
        ({"rows": [{"patern": "x"}]}, r"unknown key 'rows\[0\].patern': there are pattern, weight"),
        ({"rows": [7], "named": {}}, "rows = 7: write a table"),
        ({"rows": [], "named": {"x": {"a": 1}}}, "unknown key 'named.x.a': there are pattern"),
        ({"rows": [], "named": "x" * 99}, "named = 'x{59}: write a table"),
    ],
)
def test_what_does_not_fit(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FlatbootError, match=f"^a.toml: {sentence}"):
        typed.check(data, Outer, "a.toml")


def test_no_toml_and_no_json(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = [\n2G]")
    with pytest.raises(UsageError, match=r"a\.toml is not TOML: .*line 2"):
        typed.load(tmp_path / "a.toml", dict[str, int])
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(FlatbootError, match=r"a\.json: it holds no JSON: EOF"):
        typed.load(tmp_path / "a.json", dict[str, int])
    with pytest.raises(FlatbootError, match=r"cannot read .*none\.json"):
        typed.load(tmp_path / "none.json", dict[str, int])
