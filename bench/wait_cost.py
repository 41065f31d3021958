"""What the flatboot kernel costs with deferred_init=wait: instructions to /init against stock.

    .venv/bin/python bench/wait_cost.py          boot what has no record yet, print the table
    .venv/bin/python bench/wait_cost.py --again  boot everything anew

Records are kept in bench/results/wait_cost; the table is made from them alone.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from flatboot import boot, build
from flatboot.machine import machine
from flatboot.record import Record
from kept import kept

SIZES = ("2G", "64G")
CMDLINE = {"stock": "", "flatboot": "deferred_init=wait"}


def measured(flavour: str, memory: str, again: bool) -> Record:
    """Return the record of one boot, kept or made now."""

    def made() -> Record:
        image = build.kernel("7.3", flavour, "bench")
        return boot.boot(image, machine(memory=memory), cmdline=CMDLINE[flavour])

    return kept(f"wait_cost/{flavour}-{memory}", f"{flavour}, {memory}", again, made)


def main() -> None:
    """Boot what is to be booted and print the table."""
    again = "--again" in sys.argv[1:]
    table = Table(title="Instructions from reset to /init, deferred_init=wait")
    for column in ("memory", "stock", "flatboot", "difference"):
        table.add_column(column, justify="right")
    for memory in SIZES:
        stock, ours = (measured(flavour, memory, again).to_init for flavour in CMDLINE)
        table.add_row(memory, f"{stock:,}", f"{ours:,}", f"{ours / stock - 1:+.3%}")
    Console().print(table)


if __name__ == "__main__":
    main()
