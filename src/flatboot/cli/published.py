"""What README.md and docs/ show, between marks in the text that a reader does not see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic
from flatboot.common.errors import FlatbootError

# At the beginning of a line: what is indented is an example.
_BEGIN = re.compile(r"^<!-- bench: ([\w-]+) -->\n", re.MULTILINE)
_END = "<!-- end -->"
_MARKDOWN = ".md"
_PLOT = ".svg"


@dataclass(frozen=True)
class Place:
    """Where a table or plot stands.

    Attributes:
        path: a Markdown file; or a plot or other file, of which the place is the whole.
        name: the name in the marks.
        text: what is between the marks; or the whole of the file, "" if there is none yet.
    """

    path: Path
    name: str
    text: str


def places(path: Path) -> list[Place]:
    """Return all places in the Markdown file *path*, in order.

    Raises:
        FlatbootError: a place has no end.
    """
    text = path.read_text()
    begins = list(_BEGIN.finditer(text))
    limits = [*(match.start() for match in begins[1:]), len(text)]
    found = []
    for match, limit in zip(begins, limits, strict=False):
        end = text.find(_END, match.end(), limit)
        if end < 0:
            raise FlatbootError(f"{path}: {match[0].strip()} has no {_END} behind it: add it")
        found.append(Place(path, match[1], text[match.end() : end]))
    return found


def whole(path: Path, name: str) -> Place:
    """Return the place that is the whole of *path*, which may not be there yet."""
    return Place(path, name, path.read_text() if path.exists() else "")


def write(old: Place, text: str) -> None:
    """Put *text* into the place of *old*, which is still as it was read."""
    whole = text
    if old.path.suffix == _MARKDOWN:
        begin = f"<!-- bench: {old.name} -->\n"
        before = old.path.read_text()
        whole = before.replace(f"{begin}{old.text}{_END}", f"{begin}{text}{_END}")
    with atomic.new_file(old.path) as temporary:
        temporary.write_text(whole)


def differences(old: Place, text: str) -> list[str]:
    """Return what differs between *old* and *text*, a line for each cell; nothing if none does."""
    if old.text == text:
        return []
    if old.path.suffix == _PLOT:
        return ["the plot differs"]
    before, after = _rows(old.text), _rows(text)
    if [len(row) for row in before] != [len(row) for row in after]:
        return [f"other rows or columns: {len(before)} lines → {len(after)}"]
    headings: Sequence[str] = next((row for row in after if len(row) > 1), ())
    return [
        f"{_where(row, headings, index)}{was} → {now}"
        for was_row, row in zip(before, after, strict=True)
        for index, (was, now) in enumerate(zip(was_row, row, strict=True))
        if was != now
    ]


def _rows(text: str) -> list[list[str]]:
    """Return the cells of each line of a Markdown table; another line is one cell."""
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.strip()
    ]


def _where(row: Sequence[str], headings: Sequence[str], index: int) -> str:
    return f"{row[0]}, {headings[index]}: " if len(row) == len(headings) else ""
