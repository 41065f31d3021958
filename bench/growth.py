"""What still grows with memory: instructions by kernel function, in a small and a large boot.

    .venv/bin/python bench/growth.py                  boot what has no record yet, print the table
    .venv/bin/python bench/growth.py --memory 16T     another large size than 1T
    .venv/bin/python bench/growth.py --flavour stock  without the patches, 64G if not told otherwise
    .venv/bin/python bench/growth.py --again          boot everything anew

The kernel runs with deferred_init=lazy, stock as it is: at 1T it needs 17 GB of host memory.
Records are kept in bench/results/growth; the table is made from them alone. Both records must be of
the same kernel: boot anew when it has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flatboot import boot, build, functions, progress, record, units
from flatboot.functions import Difference
from flatboot.machine import machine
from flatboot.record import Record

RESULTS = Path(__file__).parent / "results" / "growth"
SMALL = "2G"
LARGE = {"flatboot": "1T", "stock": "64G"}
CMDLINE = {"flatboot": "deferred_init=lazy", "stock": ""}
#: Rows make up this share of all growth, and are no more than so many.
SHARE, MOST = 0.95, 25


def measured(flavour: str, memory: str, again: bool) -> Record:
    """Return the record of one boot, kept or made now."""
    path = RESULTS / f"{flavour}-{memory}.json"
    if again or not path.exists():
        with progress.step(f"{flavour}, {memory}"):
            image = build.kernel("7.3", flavour, "bench")
            wanted = machine(memory=memory)
            cmdline = CMDLINE[flavour]
            boot.boot(image, wanted, cmdline=cmdline, functions=True, timeout_s=3600).save(path)
    return record.load(path)


def table(small: Record, large: Record) -> Table:
    """Return the functions that grew most from *small* to *large*, the rest, and the total."""
    rows = functions.differences(small.functions, large.functions)
    listed = functions.most_grown(rows, SHARE, MOST)
    rest = functions.together("everything else", rows[len(listed) :])
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


def cells(row: Difference) -> tuple[str, str, str, str]:
    """Return *row* as it is shown."""
    return row.name, f"{row.small:,}", f"{row.large:,}", f"{row.grown:+,}"


def main() -> None:
    """Boot what is to be booted and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--flavour", choices=LARGE, default="flatboot")
    parser.add_argument("--memory", help="the large size; 1T, or 64G of stock, if not given")
    parser.add_argument("--again", action="store_true", help="boot everything anew")
    asked = parser.parse_args()
    sizes = (SMALL, asked.memory or LARGE[asked.flavour])
    small, large = (measured(asked.flavour, memory, asked.again) for memory in sizes)
    Console().print(table(small, large))


if __name__ == "__main__":
    main()
