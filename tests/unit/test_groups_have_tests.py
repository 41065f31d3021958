"""Each group of the kernel part has boot tests of its own that ask for no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flatboot.common import paths
from flatboot.kernel import bases, groups

#: What it holds is seen in the tests of those that need it.
_WITHOUT = {"resched-lazy", "memcg-room", "later-apis"}
#: Writes which groups there are in marks, each mark's as one list.
_MARKS = """
import json, pytest, sys
class Marks:
    def pytest_collection_finish(self, session):
        items = [item for item in session.items if item.path.name != "test_each_group.py"]
        marks = [item.get_closest_marker("groups") for item in items]
        with open(sys.argv[1], "w") as file:
            json.dump(sorted({mark.args for mark in marks if mark}), file)
words = ["tests/boot", "--collect-only", "-q", "-n0", f"--base={sys.argv[2]}"]
sys.exit(pytest.main(words, plugins=[Marks()]))
"""


@pytest.mark.parametrize("base", bases.with_hooks())
def test_each_group_has_boot_tests_of_its_own(tmp_path: Path, base: str) -> None:
    marks = tmp_path / "marks.json"
    command = [sys.executable, "-c", _MARKS, str(marks), base]
    subprocess.run(command, cwd=paths.repo(), check=True, capture_output=True)
    needed = [set(names) for names in json.loads(marks.read_text())]
    there = {group.name for group in groups.chosen(base)}
    assert set().union(*needed) <= there
    for name in there - _WITHOUT:
        taken = {group.name for group in groups.chosen(base, [name])}
        assert any(name in names and names <= taken for names in needed), name
