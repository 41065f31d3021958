"""The table of ``kernel check``, and what it says of what it finds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from flatboot.cli import kernel_check_cli
from flatboot.cli.kernel_check_cli import Tried
from flatboot.common import paths, screen
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import make
from flatboot.kernel.check import Compilation, Robot
from flatboot.kernel.compiling import Attempt, Judgement
from flatboot.kernel.layer import Layer
from flatboot.kernel.sources import Source


def tried(row: str, files: int, *objections: str, base_fails: bool = False) -> Tried:
    return Tried(row, files, objections, base_fails, 1, "7.3.4", "abc")


def rows(output: str) -> dict[str, list[str]]:
    """Return the cells of a table by the first of each row."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines()]
    return {row[0]: row[1:] for row in cells if row}


def test_what_the_base_does_not_compile_is_not_clean(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {
        "one": tried("mips, gcc", 40),
        "two": tried("mips, gcc", 50, base_fails=True),
        "three": tried("mips, gcc", 60, "a.c: error: e"),
        "four": tried("s390x, gcc", 70, "a.c: error: e", base_fails=True),
    }
    screen.console().print(kernel_check_cli.table(outcomes))
    assert rows(capsys.readouterr().out) == {
        "mips, gcc": ["1 of 2", "1", "100", "7.3.4 abc"],
        "s390x, gcc": ["0 of 1", "0", "70", "7.3.4 abc"],
    }


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Judgement]:
    """Let two trials find what the returned table says."""
    found = {"one": Judgement(3, (), False), "two": Judgement(4, ("mm/a.c: error: e",), False)}
    attempt = Attempt(None, "gcc", "o", lambda maker: None)  # type: ignore[arg-type]
    made = [Compilation("row", title, "lane", Layer, attempt) for title in found]
    monkeypatch.setattr(Robot, "__post_init__", lambda self: None)
    monkeypatch.setattr(Robot, "trials", lambda self: iter(made))
    monkeypatch.setattr(Compilation, "judge", lambda self, source: found[self.title])
    monkeypatch.setattr(make, "compiler_version", lambda target, cc: cc)
    monkeypatch.setattr(Source, "version", lambda self: "7.3.4")
    monkeypatch.setattr(kernel_check_cli, "_OUTCOMES", tmp_path / "kernel-check.json")
    return found


def check(only: str | None, seeds: int | None = None) -> None:
    kernel_check_cli.check(None, None, only, seeds, 1, False)


def test_one_that_is_clean(
    trials: dict[str, Judgement], capsys: pytest.CaptureFixture[str]
) -> None:
    check("one")
    assert "1 of 1" in capsys.readouterr().out


def test_what_is_found_is_told_and_how_to_repeat_it(
    trials: dict[str, Judgement], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FlatbootError, match=r"1 of 2 .* --only 'two'"):
        check(None)
    assert "mm/a.c: error: e" in capsys.readouterr().err
    outcomes = kernel_check_cli.kept(paths.repo())
    assert [outcomes[title].objections for title in ("one", "two")] == [(), ("mm/a.c: error: e",)]
    trials["two"] = Judgement(4, (), False)
    check("two", seeds=3)
    assert kernel_check_cli.kept(paths.repo()) == outcomes
    check("two")
    outcomes = kernel_check_cli.kept(paths.repo())
    assert [outcomes[title].objections for title in ("one", "two")] == [(), ()]


def test_nothing_is_kept_of_what_is_tried_no_more(
    trials: dict[str, Judgement], tmp_path: Path
) -> None:
    path = tmp_path / "kernel-check.json"
    gone = {"gone": dataclasses.asdict(tried("row", 5))}
    path.write_text(json.dumps(gone))
    check("one")
    assert kernel_check_cli.kept(paths.repo()).keys() == {"one"}


def test_an_unknown_title(trials: dict[str, Judgement]) -> None:
    with pytest.raises(UsageError, match="'three'"):
        check("three")
