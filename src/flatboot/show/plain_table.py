"""Terminal tables as rows of plain text, for Markdown and web pages: one source of figures."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class PlainTable:
    """A table as text.

    Attributes:
        title: what it shows; "" for none.
        headings: the heading of each column.
        numbers: of each column, whether it holds numbers and stands to the right.
        rows: the cells of each row, the footer's row last where the table has one.
        caption: what stands beneath; "" for none.
    """

    title: str
    headings: list[str]
    numbers: list[bool]
    rows: list[list[str]]
    caption: str

    def markdown(self) -> str:
        """Return the table as GitHub's Markdown has it, between its title and its caption."""
        rule = ["---:" if number else "---" for number in self.numbers]
        rows = [[cell.replace("|", "\\|") for cell in row] for row in [self.headings, *self.rows]]
        table = "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])
        parts = (_sentence(self.title), table, _sentence(self.caption))
        return "\n\n".join(part for part in parts if part) + "\n"


def plain(table: Table) -> PlainTable:
    """Return *table* as text; columns without a heading, which hold bars, are left out."""
    columns = [column for column in table.columns if column.header]
    cells = [list(column.cells) for column in columns]
    rows = [[_text(cell) for cell in row] for row in zip(*cells, strict=True)]
    if table.show_footer:
        rows.append([_text(column.footer) for column in columns])
    return PlainTable(
        title=_text(table.title or ""),
        headings=[_text(column.header) for column in columns],
        numbers=[column.justify == "right" for column in columns],
        rows=rows,
        caption=_text(table.caption or ""),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _text(cell: object) -> str:
    """Return what a cell of a terminal table says, its markup left out."""
    if isinstance(cell, Text):
        return cell.plain
    if isinstance(cell, str):
        return Text.from_markup(cell).plain
    raise TypeError(f"{cell!r} is no text")
