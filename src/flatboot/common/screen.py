"""The one place that says how wide output is, and makes tables fit it."""

from __future__ import annotations

import codecs
import dataclasses
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import IO, Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

#: Columns of what is neither a terminal nor told by COLUMNS.
WIDTH = 80
_HANDLER = "flatboot.screen"
#: Characters that bars are made of.
_BLOCKS = frozenset(map(chr, range(0x2580, 0x25A0)))
# Parts of a word that is folded are no narrower, and a bar is not.
_FOLDED, _BAR = 12, 10


def make_encodable() -> None:
    """Let standard output and error take all characters, whatever the locale can write.

    Bars are drawn with #, and a character that it has not is a question mark.
    """
    codecs.register_error(_HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    return "".join("#" if char in _BLOCKS else "?" for char in part), error.end


class Screen(Console):
    """A console that prints tables so that they fit: folded, or in parts; nothing is cut."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print *objects*, as rich does, but for tables."""
        for item in objects or ("",):
            parts = list(fit(item, self.width)) if isinstance(item, Table) else [item]
            for part in parts:
                super().print(part, **options)


def console(*, stderr: bool = False, file: IO[str] | None = None) -> Screen:
    """Return a console for standard output or error; its width is COLUMNS, else the terminal's."""
    made = Screen(stderr=stderr, file=file, highlight=False)
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        made.width = int(told)
    elif not made.is_terminal:
        made.width = WIDTH
    return made


def fit(table: Table, width: int) -> Iterator[Table]:
    """Yield *table* as it fits into *width* columns, in several parts if it must be.

    Text goes on in the next line, at first between words and then within them; numbers are broken
    between words only. If that does not do, each part has the columns of names, which are those
    before the first numbers, and as many of the others as fit. The table itself is not changed.
    """
    spans = [_span(column) for column in table.columns]
    least, padding = _narrowed(spans, width, ((1, attrgetter("whole")), *_TRIED))
    if sum(least) + _frame(len(spans), padding) <= width:
        yield _part(table, range(len(spans)), spans, least, width, padding)
        return
    names = next((i for i, column in enumerate(table.columns) if column.justify == "right"), 1)
    parts = _parts(names, [span.folded for span in spans], width)
    for number, part in enumerate(parts, 1):
        chosen = [spans[index] for index in part]
        # Words stay whole in a part that has room for them.
        least, padding = _narrowed(chosen, width, _TRIED)
        made = _part(table, part, chosen, least, width, padding)
        if len(parts) > 1:
            made.title = Text.assemble(_text(table.title), f", part {number} of {len(parts)}")
        if number < len(parts):
            made.caption = None
        yield made


@dataclass(frozen=True)
class _Span:
    """The widths that a column can have.

    Attributes:
        whole: nothing goes on in the next line.
        words: words stay whole, and numbers with their units.
        broken: words stay whole.
        folded: words of text are folded.
    """

    whole: int
    words: int
    broken: int
    folded: int


_Way = tuple[int, Callable[[_Span], int]]
#: What is tried in turn: padding beside each cell, and how narrow the columns may be.
_TRIED: tuple[_Way, ...] = (
    (1, attrgetter("words")),
    (0, attrgetter("words")),
    (0, attrgetter("broken")),
    (0, attrgetter("folded")),
)


def _narrowed(spans: Sequence[_Span], width: int, ways: Sequence[_Way]) -> tuple[list[int], int]:
    """Return the columns' widths and the padding by the first of *ways* that fits, or the last."""
    for padding, way in ways:
        least = [way(span) for span in spans]
        if sum(least) + _frame(len(spans), padding) <= width:
            break
    return least, padding


def _span(column: Column) -> _Span:
    cells = [cell for cell in column.cells if not isinstance(cell, Bar)]
    texts = [_text(cell) for cell in cells]
    heads = [_text(column.header), _text(column.footer)]
    if len(cells) < len(list(column.cells)):
        return _Span(column.width or _BAR, _BAR, _BAR, _BAR)
    lines = [line for text in (*texts, *heads) for line in text.plain.splitlines()]
    words = [word for line in lines for word in line.split()]
    whole, word = _longest(lines), _longest(words)
    if column.justify == "right":
        cell_lines = [line for text in texts for line in text.plain.splitlines()]
        return _Span(whole, max(word, _longest(cell_lines)), word, word)
    return _Span(whole, word, word, min(word, _FOLDED))


def _longest(texts: Sequence[str]) -> int:
    return max((Text(text).cell_len for text in texts), default=0)


def _frame(columns: int, padding: int) -> int:
    return columns * (2 * padding + 1) + 1


def _parts(names: int, least: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part."""
    first = list(range(names))
    parts: list[list[int]] = []
    for index in range(names, len(least)):
        if parts:
            longer = [*parts[-1], index]
            if sum(least[i] for i in longer) + _frame(len(longer), 0) <= width:
                parts[-1] = longer
                continue
        parts.append([*first, index])
    return parts or [first]


def _part(
    table: Table,
    part: Sequence[int],
    spans: Sequence[_Span],
    least: Sequence[int],
    width: int,
    padding: int,
) -> Table:
    """Return the columns *part* of *table*; each as wide as *least*, and wider where there is room.

    The widest are narrowed first.
    """
    room = max(width - _frame(len(part), padding), sum(least))
    widths = list(least)
    most = max((span.whole for span in spans), default=0)
    for level in range(1, most + 1):
        wider = [min(span.whole, max(now, level)) for span, now in zip(spans, least, strict=True)]
        if sum(wider) > room:
            break
        widths = wider
    made = Table(
        title=table.title,
        caption=table.caption,
        box=table.box,
        padding=(0, padding),
        show_header=table.show_header,
        show_footer=table.show_footer,
        show_lines=table.show_lines,
        title_justify=table.title_justify,
        caption_justify=table.caption_justify,
        row_styles=table.row_styles,
    )
    for number, (index, wide) in enumerate(zip(part, widths, strict=True)):
        made.columns.append(
            dataclasses.replace(
                table.columns[index],
                _index=number,
                width=wide,
                min_width=None,
                max_width=None,
                overflow="fold",
                no_wrap=False,
            )
        )
    made.rows = list(table.rows)
    return made


def _text(cell: Any) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text.from_markup(cell) if isinstance(cell, str) else Text("")
