"""What code layout alone does to each phase: stock, and the same code at other addresses.

    .venv/bin/python bench/layout_noise.py

boots the configs bench and control on the exact clock, prints what the phases differ by, and writes
them to tests/data/compare/layout.csv, with which the unit tests compare. Boots are kept in
out/layout.sqlite and not done again: remove it when the kernel has changed.
"""

from __future__ import annotations

import csv
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flatboot import atomic, compare_boots, phases, units
from flatboot.compare import Comparison, compare
from flatboot.record import Record

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "compare" / "layout.csv"
MACHINES = {"memory": ["2G", "16G", "64G"], "cpus": [1], "clock": "exact"}


def write(records: list[Record]) -> None:
    """Write a row a boot: its config, its memory and its phases in instructions."""
    rows = [
        {
            "config": record.kernel.config,
            "memory": units.short_size(record.machine.memory_bytes),
            **phases.by_name(record.phases),
        }
        for record in records
    ]
    with atomic.new_file(DATA) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def table(comparison: Comparison) -> Table:
    """Return what each phase moved by on each size."""
    shown = Table(title="Instructions that code layout moves a phase by")
    shown.add_column("phase")
    for size in comparison.phases[0].sizes:
        shown.add_column(units.binary_size(size.memory_bytes), justify="right")
        shown.add_column("share", justify="right")
    for phase in comparison.phases:
        moved = [(size.after - size.before, size.before) for size in phase.sizes]
        cells = [cell for by, of in moved for cell in (f"{by:+,.0f}", f"{by / of:+.4%}")]
        shown.add_row(phase.name, *cells)
    return shown


def main() -> None:
    """Boot what has not been booted, print and write."""
    stock = compare_boots.named("7.3:stock", "x86_64")
    control = compare_boots.control_of(stock)
    assert control is not None
    boots = compare_boots.run([stock, control], MACHINES, ROOT / "out" / "layout.sqlite")
    write([record for side in boots for record in side])
    Console(width=120).print(table(compare(*boots)))


if __name__ == "__main__":
    main()
