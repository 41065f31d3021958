"""Each room of the laboratory imports only from those before it."""

from __future__ import annotations

import ast
from pathlib import Path

from fakes import write

from flatboot.common import paths

#: The rooms in the order in which data flows; the package of each says what it is for.
ROOMS = (
    "common",
    "kernel",
    "record",
    "guest",
    "distro",
    "bootlog",
    "analysis",
    "show",
    "campaign",
    "cli",
)


def imported(file: Path) -> set[str]:
    """Return the modules of flatboot that *file* imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("flatboot.")}


def back_edges(package: Path) -> list[str]:
    """Return what the modules of *package* import from a room behind their own, or from none."""
    found = []
    for file in sorted(package.rglob("*.py")):
        room = file.relative_to(package).parts[0]
        if room == "__init__.py":
            continue
        allowed = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ()
        found += [
            f"{file.relative_to(package)} imports {name}"
            for name in sorted(imported(file))
            if name.split(".")[1] not in allowed
        ]
    return found


def cycles(package: Path) -> list[str]:
    """Return the modules of *package* that import each other, over however many steps."""
    edges = {}
    for file in package.rglob("*.py"):
        name = ".".join([package.name, *file.relative_to(package).with_suffix("").parts])
        edges[name] = imported(file)
    reached = {
        name: {other for other in edges if any(f"{to}.".startswith(f"{other}.") for to in to_all)}
        for name, to_all in edges.items()
    }
    for middle in reached:
        for start in reached:
            if middle in reached[start]:
                reached[start] |= reached[middle]
    return sorted(name for name in reached if name in reached[name])


def test_no_room_imports_from_one_behind_it() -> None:
    package = paths.repo() / "src" / "flatboot"
    assert {path.name for path in package.iterdir() if (path / "__init__.py").is_file()} == {*ROOMS}
    assert back_edges(package) == []


def test_no_module_imports_itself_over_others() -> None:
    assert cycles(paths.repo() / "src" / "flatboot") == []


def test_a_back_edge_is_found(tmp_path: Path) -> None:
    package = tmp_path / "flatboot"
    write(
        package,
        {
            "__init__.py": "",
            "common/units.py": "def size():\n    from flatboot.cli import cli\n",
            "record/record.py": "from flatboot.common import units\n",
            "guest/boot.py": "import flatboot.show.plot\nfrom flatboot.record.record import x\n",
            "attic/old.py": "from flatboot.common import units\n",
        },
    )
    assert back_edges(package) == [
        "attic/old.py imports flatboot.common.units",
        "common/units.py imports flatboot.cli.cli",
        "guest/boot.py imports flatboot.show.plot",
    ]


def test_a_cycle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "flatboot"
    write(
        package,
        {
            "guest/boot.py": "from flatboot.guest import run\n",
            "guest/run.py": "from flatboot.guest.wait import until\n",
            "guest/wait.py": "from flatboot.guest import boot\n",
            "guest/leaf.py": "from flatboot.guest import boot\n",
        },
    )
    assert cycles(package) == ["flatboot.guest.boot", "flatboot.guest.run", "flatboot.guest.wait"]
