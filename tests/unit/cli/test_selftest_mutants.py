"""Mutants: each in a checkout of its own, and what caught it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from fakes import BASES, GROUP, git, write

from flatboot.cli import selftest_mutants
from flatboot.cli.selftest_mutants import Caught
from flatboot.common import paths
from flatboot.common.errors import FlatbootError, UsageError

TABLE = """
[lost-line]
feature = "memory_map"
mistake = "The line is not there."
tests = ["easy", "careful::test_lines"]

[same-thing]
feature = "cpus"
mistake = "Nobody can tell."
tests = ["careful"]
"""
PATCH = """\
diff --git a/mm/new.c b/mm/new.c
--- a/mm/new.c
+++ b/mm/new.c
@@ -1,2 +1 @@
 first
-{line}
"""
#: Fails where the kernel lost a line; the other would fail on any.
CAREFUL = """
from flatboot.kernel import groups, layer

def test_lines(tmp_path):
    made = layer.of(tmp_path, groups.every(), "7.3")
    assert b"second" in made.files["mm/new.c"].content
"""
EASY = "def test_never():\n    assert False\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two mutants of one file of the overlay."""
    root = tmp_path / "checkout"
    source = paths.repo() / "src"
    write(
        root,
        {
            "pytest.ini": "[pytest]\nmarkers = long: slow\n",
            "kernel/first/overlay/mm/new.c": "first\nsecond\nthird\n",
            "kernel/bases.toml": BASES,
            "kernel/groups.toml": 'groups = ["first"]\n',
            "kernel/first/group.toml": GROUP.format("what is first", ""),
            "kernel/first/hooks/7.3/series": "",
            "tests/mutants/mutants.toml": TABLE,
            "tests/mutants/lost-line.patch": PATCH.format(line="second").replace(
                "1,2 +1 @@\n first\n-second\n", "1,3 +1,2 @@\n first\n-second\n third\n"
            ),
            "tests/mutants/same-thing.patch": PATCH.format(line="third").replace(
                "1,2 +1 @@\n first\n-third\n", "2,2 +2 @@\n second\n-third\n"
            ),
            "tests/boot/memory_map/test_careful.py": CAREFUL,
            "tests/boot/memory_map/test_easy.py": EASY,
        },
    )
    subprocess.run(["cp", "-r", str(source), str(root / "src")], check=True)
    git(root, "init", "-q")
    monkeypatch.setattr(paths, "repo", lambda: root)
    return root


def test_each_mutant_is_caught_or_told(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FlatbootError, match="nobody catches same-thing: write a test"):
        selftest_mutants.run(root, None)
    kept = json.loads((root / "bench/mutants.json").read_text())
    assert kept["lost-line"]["caught_by"].endswith("test_careful.py::test_lines")
    assert kept["same-thing"]["caught_by"] == "nobody"
    assert "second" in (root / "kernel/first/overlay/mm/new.c").read_text()
    assert "lost-line" in capsys.readouterr().out


def test_one_by_name_leaves_the_others_outcomes(root: Path) -> None:
    other = {"same-thing": {"caught_by": "someone", "seconds": 1}}
    write(root, {"bench/mutants.json": json.dumps(other)})
    selftest_mutants.run(root, "lost")
    assert json.loads((root / "bench/mutants.json").read_text()).keys() == {*other, "lost-line"}
    with pytest.raises(UsageError, match="no mutant is called 'never'"):
        selftest_mutants.run(root, "never")


def test_all_mutants_apply_to_what_there_is() -> None:
    root = paths.repo()
    named = selftest_mutants.mutants(root, None)
    assert len(named) == 48
    files = {path.stem for path in (root / "tests/mutants").glob("*.patch")}
    assert {mutant.name for mutant in named} == files
    for mutant in named:
        assert mutant.tests
        for name in mutant.tests:
            assert selftest_mutants._named(root, name)


def test_a_table_of_outcomes() -> None:
    named = selftest_mutants.mutants(paths.repo(), "crash-head")
    made = selftest_mutants.table(named, {named[0].name: Caught("nobody", 1)})
    assert made.row_count == 1
