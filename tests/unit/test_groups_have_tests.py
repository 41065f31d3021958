"""Each group of the kernel part has boot tests of its own that ask for no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from flatboot.common import paths
from flatboot.kernel import bases, groups

#: What it holds is seen in the tests of those that need it.
_WITHOUT = {"resched-lazy", "memcg-room"}
#: Writes which groups there are in marks, each mark's as one list.
_MARKS = """
import json, pytest, sys
class Marks:
    def pytest_collection_finish(self, session):
        items = [item for item in session.items if item.path.name != "test_each_group.py"]
        marks = [item.get_closest_marker("groups") for item in items]
        with open(sys.argv[1], "w") as file:
            json.dump(sorted({mark.args for mark in marks if mark}), file)
sys.exit(pytest.main(["tests/boot", "--collect-only", "-q", "-n0"], plugins=[Marks()]))
"""


def test_each_group_has_boot_tests_of_its_own(tmp_path: Path) -> None:
    marks = tmp_path / "marks.json"
    command = [sys.executable, "-c", _MARKS, str(marks)]
    subprocess.run(command, cwd=paths.repo(), check=True, capture_output=True)
    needed = [set(names) for names in json.loads(marks.read_text())]
    there = {group.name for group in groups.every()}
    assert set().union(*needed) <= there
    for name in there - _WITHOUT:
        taken = {group.name for group in groups.chosen(bases.default(), [name])}
        assert any(name in names and names <= taken for names in needed), name
