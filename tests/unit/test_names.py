"""A class name has one meaning in the laboratory."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from fakes import write

from flatboot.common import paths


def repeated(package: Path) -> dict[str, list[str]]:
    """Return the names that several classes of *package* have, with their modules."""
    found = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(file.relative_to(package)))
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_two_classes_share_a_name() -> None:
    assert repeated(paths.repo() / "src" / "flatboot") == {}


def test_a_repeated_name_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "class Boot: ...\n", "b/c.py": "class Boot: ...\nclass Cost: ...\n"})
    assert repeated(tmp_path) == {"Boot": ["a.py", "b/c.py"]}
