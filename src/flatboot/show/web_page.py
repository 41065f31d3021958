"""A web page that needs nothing beside itself: sections of plots, sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markupsafe import Markup

from flatboot.common import atomic
from flatboot.show.plain_table import PlainTable

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Block:
    """A part of a section: a plot, if any, and tables beneath it.

    Attributes:
        title: its heading.
        tables: the figures of the plot, and more.
        text: sentences above the plot.
        plot: the plot as SVG; "" for none.
        label: what the plot shows, in a sentence for those who do not see it.
    """

    title: str
    tables: list[PlainTable]
    text: list[str] = field(default_factory=list)
    plot: str = ""
    label: str = ""

    @property
    def svg(self) -> Markup:
        """The plot as a part of the page: our own SVG, in which all text is escaped."""
        return Markup(self.plot)


@dataclass(frozen=True)
class Section:
    """A section of a page: its blocks, or what would fill it if there are none."""

    key: str
    title: str
    blocks: list[Block]
    missing: str


def write(text: str, path: Path) -> None:
    """Write the page *text* to *path*, whole or not at all."""
    with atomic.new_file(path) as temporary:
        temporary.write_text(text)


def html(title: str, summary: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML; the same sections give the same page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("web_page.html.j2").render(
        style=Markup((_HERE / "web_page.css").read_text()),
        title=title,
        summary=summary,
        sections=sections,
    )
