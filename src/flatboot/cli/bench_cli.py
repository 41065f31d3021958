"""``flatboot bench``: the tables and plots of README and docs, made anew, and which changed."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flatboot.campaign.kept import Kept
from flatboot.cli import published
from flatboot.cli.published import Place
from flatboot.common import disk, paths, screen, typed
from flatboot.common.errors import FlatbootError, check_known
from flatboot.show.plain_table import plain


@dataclass(frozen=True)
class Entry:
    """A table, plot or file of figures of bench/tables.toml.

    Attributes:
        makes: the function in bench/ that makes it, as FEATURE/MODULE:FUNCTION, or MODULE:FUNCTION.
        file: where the plot or the figures lie in the checkout; "" for a table.
        name: as in the marks.
    """

    makes: str
    file: str = ""
    name: str = ""

    @property
    def shown(self) -> bool:
        """Whether README, docs or a cover letter show it."""
        return not self.file.endswith(".toml")


@disk.full_is_an_error()
def bench(
    kept: Annotated[
        bool, typer.Option("--kept", help="Take the records in bench/results; boot what has none.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if anything differs.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("-k", help="Only this one of bench/tables.toml.")
    ] = None,
) -> None:
    """Remake the tables and plots of README, docs and cover letters, and say which changed."""
    root = paths.repo()
    entries = _entries(root / "bench" / "tables.toml")
    if name is not None:
        check_known("table", name, entries)
    places = _places(root, entries)
    records = Kept(root / "bench" / "results", again=not kept, save=not check)
    console = screen.console()
    summary = _summary()
    changed = []
    for entry in entries.values():
        if name in (None, entry.name):
            text = _made(entry, root, records, console)
            for place in places[entry.name]:
                differing = published.differences(place, text)
                if differing:
                    changed.append((place, text))
                where = str(place.path.relative_to(root))
                verdict = "changed" if differing else "same"
                summary.add_row(entry.name, where, verdict, Text("\n".join(differing)))
    if not check:
        for place, text in changed:
            published.write(place, text)
    console.print(summary)
    if check and changed:
        raise typer.Exit(1)


def _summary() -> Table:
    """Return an empty table of what became of each place."""
    summary = Table(title="Published figures", title_justify="left", show_lines=True)
    for heading in ("name", "where", "", "old → new"):
        summary.add_column(heading)
    return summary


def _entries(path: Path) -> dict[str, Entry]:
    table = typed.load(path, dict[str, Entry])
    return {name: dataclasses.replace(entry, name=name) for name, entry in table.items()}


def _places(root: Path, entries: dict[str, Entry]) -> dict[str, list[Place]]:
    """Return where each entry stands.

    Raises:
        FlatbootError: it stands nowhere, or a mark names none.
    """
    found: dict[str, list[Place]] = {name: [] for name in entries}
    letters = sorted((root / "kernel").glob("*/COVER.md"))
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md")), *letters):
        for place in published.places(path):
            if place.name not in found:
                raise FlatbootError(
                    f"{path} shows {place.name!r}, which bench/tables.toml does not name: add it"
                )
            found[place.name].append(place)
    for name, places in found.items():
        if not places and entries[name].shown:
            raise FlatbootError(
                f"{name} of bench/tables.toml stands nowhere: mark its place in README.md or docs/"
                f" with <!-- bench: {name} --> and <!-- end -->"
            )
    for entry in entries.values():
        if entry.file:
            found[entry.name] = [published.whole(root / entry.file, entry.name)]
    return found


def _made(entry: Entry, root: Path, records: Kept, console: Console) -> str:
    """Make *entry*: a table, which is shown too, as Markdown; a plot as SVG; figures as TOML."""
    function = _function(entry.makes, root / "bench")
    if entry.file:
        with tempfile.TemporaryDirectory(prefix="flatboot-bench-") as scratch:
            path = Path(scratch) / Path(entry.file).name
            function(records, path)
            return path.read_text()
    table = function(records)
    console.print(table)
    return f"\n{plain(table).markdown()}\n"


def _function(makes: str, folder: Path) -> Any:
    """Return the function FEATURE/MODULE:FUNCTION of the Python files in *folder*."""
    module, _, function = makes.partition(":")
    # Tables of one feature may use the boots of another's.
    for place in (folder, *filter(Path.is_dir, folder.iterdir())):
        if str(place) not in sys.path:
            sys.path.append(str(place))
    return getattr(importlib.import_module(Path(module).name), function)
