"""Who calls a function of a kernel tree: found by reading, not by compiling, so in every config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import processes, typed
from flatboot.kernel.groups import Group
from flatboot.kernel.layer import Layer

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MACRO = re.compile(r"#\s*define\s+(\w+)")


@dataclass(frozen=True)
class Kind:
    """Callers that are alike.

    Attributes:
        why: a sentence on what they do, and what becomes of it.
        callers: the names of functions and macros by the file that they stand in.
    """

    why: str
    callers: dict[str, list[str]]


@dataclass(frozen=True)
class Known:
    """All callers of some functions in some folders of a kernel tree, by kinds."""

    functions: list[str]
    folders: list[str]
    kinds: dict[str, Kind]


def known(group: Group) -> Known:
    """Return what callers.toml of *group* says; that is of the default base."""
    return typed.load(group.folder / "callers.toml", Known)


def only(group: Group, base: str) -> dict[str, dict[str, list[str]]]:
    """Return the callers of each kind that *base* has besides, by file."""
    path = group.hooks(base) / "callers.toml"
    return typed.load(path, dict[str, dict[str, list[str]]]) if path.is_file() else {}


def find(directory: Path, layer: Layer, wanted: Known) -> dict[str, list[str]]:
    """Return the functions and macros that call one of those of *wanted*, by file.

    Args:
        directory: a kernel tree.
        layer: the files in which the tree to be searched differs from it.
        wanted: which calls to look for, in which folders; its kinds do not matter.
    """
    pattern = rf"\b({'|'.join(wanted.functions)})\b"
    command = ["grep", "-rlE", "--include=*.[ch]", pattern, *wanted.folders]
    unchanged = set(processes.run(command, what="grep", cwd=directory).splitlines())
    texts = {
        **{
            name: (directory / name).read_text(errors="replace")
            for name in unchanged - layer.files.keys()
        },
        **{
            name: file.content.decode()
            for name, file in layer.files.items()
            if file
            and name.endswith((".c", ".h"))
            and any(Path(name).is_relative_to(folder) for folder in wanted.folders)
        },
    }
    found = {}
    for name, text in sorted(texts.items()):
        if callers := sorted(set(_callers(text, re.compile(pattern)))):
            found[name] = callers
    return found


def _callers(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the name of what stands around each match; not for what declares the name itself."""
    lines = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text).splitlines()
    around = ""
    for number, line in enumerate(lines):
        continued = number > 0 and lines[number - 1].endswith("\\")
        if macro := _MACRO.match(line):
            around = macro[1]
            line = line[macro.end() :]
        elif re.match(r"[A-Za-z_]", line) and not continued:
            named = re.search(r"(\w+)\s*\(", line)
            if named and not line.endswith(";"):
                around = named[1]
            continue
        if around and pattern.search(line):
            yield around
