"""What still grows with memory: instructions by kernel function, in a small and a large boot.

    .venv/bin/python bench/memory_map/growth.py     boot what has no record yet, print the table
        --memory 16T     another large size than 1T
        --flavour stock  without the patches
        --again          boot everything anew

The kernel runs with deferred_init=lazy, stock as it is: at 1T it needs 17 GB of host memory.
What was counted is kept in bench/results/growth.json; the table is made from that alone. Both boots
must be of the same kernel: boot anew when it has changed. The groups of ledger.toml are a table of
``flatboot bench``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import paths, typed, units
from flatboot.guest import functions
from flatboot.guest.functions import Difference
from flatboot.record.record import Record

HERE = Path(__file__).parent
SMALL = "2G"
LARGE = "1T"
CMDLINE = {"stock": "", "flatboot": "deferred_init=lazy"}
REST = "everything else"
#: Rows make up this share of all growth, and are no more than so many.
SHARE, MOST = 0.95, 25


def measured(kept: Kept, flavour: str, memory: str) -> Record:
    """Return the record of one boot."""
    return kept(Wanted("growth", flavour, memory, CMDLINE[flavour], functions="instructions"))


def table(small: Record, large: Record) -> Table:
    """Return the functions that grew most from *small* to *large*, the rest, and the total."""
    rows = functions.differences(small.functions, large.functions)
    listed = functions.most_grown(rows, SHARE, MOST)
    rest = functions.together(REST, rows[len(listed) :])
    shown = Table(
        title=f"Instructions by function, {small.kernel.flavour} {CMDLINE[small.kernel.flavour]}",
        caption=f"from reset to /init: {small.to_init:,} and {large.to_init:,}",
    )
    shown.add_column("function")
    for done in (small, large):
        shown.add_column(units.binary_size(done.machine.memory_bytes), justify="right")
    shown.add_column("difference", justify="right")
    for row in listed:
        shown.add_row(*cells(row))
    shown.add_section()
    shown.add_row(*cells(rest))
    shown.add_row(*cells(functions.together("total", rows)))
    return shown


def ledger(kept: Kept) -> Table:
    """Return the growth of both kernels between 2 GiB and 1 TiB, in groups, per GiB."""
    groups = typed.toml(HERE / "ledger.toml")["rows"]
    moves = {**{row["what"]: row["move"] for row in groups}, REST: ""}
    beginnings = {row["what"]: tuple(row["functions"].split()) for row in groups}
    per_gib = {flavour: dict.fromkeys(moves, 0.0) for flavour in CMDLINE}
    for flavour, sums in per_gib.items():
        small, large = (measured(kept, flavour, memory) for memory in (SMALL, LARGE))
        gib = (large.machine.memory_bytes - small.machine.memory_bytes) / 2**30
        for row in functions.differences(small.functions, large.functions):
            sums[group(row.name, beginnings)] += row.grown / gib
    shown = Table(title="Instructions for each GiB of memory, from the growth from 2 GiB to 1 TiB")
    shown.add_column("what grows")
    for flavour, cmdline in CMDLINE.items():
        shown.add_column(f"{flavour} {cmdline}".strip(), justify="right")
    shown.add_column("move")
    for what, move in moves.items():
        shown.add_row(what, *(f"{sums[what]:,.0f}" for sums in per_gib.values()), move)
    shown.add_section()
    shown.add_row("total", *(f"{sum(sums.values()):,.0f}" for sums in per_gib.values()), "")
    return shown


def group(function: str, beginnings: dict[str, tuple[str, ...]]) -> str:
    """Return the row of the ledger that *function* counts for."""
    fits = (what for what, names in beginnings.items() if function.startswith(names))
    return next(fits, REST)


def cells(row: Difference) -> tuple[str, str, str, str]:
    """Return *row* as it is shown."""
    return row.name, f"{row.small:,}", f"{row.large:,}", f"{row.grown:+,}"


def main() -> None:
    """Boot what is to be booted and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--flavour", choices=CMDLINE, default="flatboot")
    parser.add_argument("--memory", default=LARGE, help="the large size; 1T if not given")
    parser.add_argument("--again", action="store_true", help="boot everything anew")
    asked = parser.parse_args()
    kept = Kept(paths.repo() / "bench" / "results", again=asked.again)
    small, large = (measured(kept, asked.flavour, memory) for memory in (SMALL, asked.memory))
    Console().print(table(small, large))


if __name__ == "__main__":
    main()
