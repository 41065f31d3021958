"""``flatboot report``: records as one web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flatboot.common import disk, progress, screen
from flatboot.record import results
from flatboot.show import report


def run_report(
    files: Annotated[
        list[Path], typer.Argument(help="Record files, folders of them, and results files.")
    ],
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write records as one HTML page that needs no network: curves, phases, comparison, tables."""
    records = results.read(files)
    with progress.step(f"report on {len(records)} boots"), disk.writing(output):
        report.write(records, output)
    console = screen.console()
    console.print(f"report: {output.resolve()}", soft_wrap=True, markup=False)
