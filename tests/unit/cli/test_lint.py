"""Lint: what checkpatch says is read, excepted and counted; a failing check fails the command."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from fakes import write

from flatboot.cli import lint
from flatboot.common.errors import FlatbootError
from flatboot.kernel import checkpatch

#: It leaves a file where it runs, as the real one does, and names files as they were given.
CHECKPATCH = """\
open(my $names, ">", ".checkpatch-camelcase.date.1") or die;
my ($patch, $file) = @ARGV[-2, -1];
print "$patch:3: WARNING:LONG_LINE: line length of 123 exceeds 100 columns\\n";
print "$patch:9: CHECK:SPACING: spaces preferred\\n";
print "$file:1: ERROR:SPACING: no space\\n";
exit 1;
"""
FILES = ("a.patch", "mm/b.c")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / "tree", {"scripts/checkpatch.pl": CHECKPATCH})
    return tmp_path / "tree"


def test_checkpatch_reports(checkout: Path, tree: Path, tmp_path: Path) -> None:
    found = checkpatch.check(tree, tmp_path, FILES)
    assert [(report.file, report.line, report.level, report.kind) for report in found] == [
        ("a.patch", 3, "WARNING", "LONG_LINE"),
        ("a.patch", 9, "CHECK", "SPACING"),
        ("mm/b.c", 1, "ERROR", "SPACING"),
    ]
    assert not list(tmp_path.glob(".checkpatch*"))


def test_exceptions_hold_for_their_kind_and_files(
    checkout: Path, tree: Path, tmp_path: Path
) -> None:
    (checkout / "kernel/checkpatch-exceptions").write_text("# x\nSPACING  *.patch  for a reason\n")
    found = checkpatch.check(tree, tmp_path, FILES)
    assert [(report.file, report.kind) for report in found] == [
        ("a.patch", "LONG_LINE"),
        ("mm/b.c", "SPACING"),
    ]


def test_exception_needs_a_reason(checkout: Path, tree: Path, tmp_path: Path) -> None:
    (checkout / "kernel/checkpatch-exceptions").write_text("SPACING *.patch\n")
    with pytest.raises(FlatbootError, match="exceptions:1 must be KIND PATTERN REASON"):
        checkpatch.check(tree, tmp_path, FILES)


def test_checkpatch_that_breaks_is_not_a_pass(checkout: Path, tree: Path, tmp_path: Path) -> None:
    (tree / "scripts/checkpatch.pl").write_text("die 'broken';\n")
    with pytest.raises(FlatbootError, match="broken"):
        checkpatch.check(tree, tmp_path, FILES)


def test_one_failing_check_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [
        lint.Check("good", ["a", "b"], lambda _: ""),
        lint.Check("bad", ["c"], lambda files: f"{files[0]}: is bad"),
        lint.Check("idle", [], lambda _: "never run"),
    ]
    monkeypatch.setattr(lint, "_checks", lambda: checks)
    with pytest.raises(typer.Exit) as caught:
        lint.lint()
    assert caught.value.exit_code == 1
    output = capsys.readouterr().out
    assert "c: is bad" in output
    assert "never run" not in output
    monkeypatch.setattr(lint, "_checks", lambda: checks[:1])
    lint.lint()


def test_check_that_cannot_run_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> str:
        raise FlatbootError("the tool is not there")

    monkeypatch.setattr(lint, "_checks", lambda: [lint.Check("broken", ["a"], broken)])
    with pytest.raises(typer.Exit):
        lint.lint()
    assert "the tool is not there" in capsys.readouterr().out


def test_shell_scripts_are_known_by_their_first_line() -> None:
    scripts = next(check for check in lint._checks() if check.name == "shellcheck").files
    assert {
        "flatboot",
        "src/flatboot/guest/programs/selftests.sh",
        "agent/dracut/module-setup.sh",
    } <= {*scripts}
