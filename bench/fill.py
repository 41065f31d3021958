"""Instructions to fill memory, a page: stock and what its boot spent on the page, against lazy.

    .venv/bin/python bench/fill.py          boot what has no record yet, then print the table
    .venv/bin/python bench/fill.py --again  boot everything anew

Records are kept in bench/results/fill; the table is made from them alone.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from flatboot import boot, build, units
from flatboot.machine import machine
from flatboot.record import Record
from kept import kept

MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
#: Boots of stock from which the cost of a page's initialisation is taken.
SLOPE = ("2G", "64G")
MACHINES = [
    (memory, nodes, cpus) for memory in ("512M", "4G", "16G") for nodes in (1, 2) for cpus in (1, 2)
]
PAGE = 4096


def measured(
    flavour: str, memory: str, nodes: int, cpus: int, program: str | None, again: bool
) -> Record:
    """Return the record of one boot, kept or made now."""
    what = program.replace(" ", "-") if program else "boot"

    def made() -> Record:
        image = build.kernel("7.3", flavour, "bench")
        wanted = machine(memory=memory, cpus=cpus, nodes=nodes)
        cmdline = MODES[flavour] if program else ""
        programs = (program,) if program else ()
        return boot.boot(image, wanted, cmdline=cmdline, guest=programs, timeout_s=3600)

    name = f"fill/{flavour}-{memory}-{nodes}n{cpus}c-{what}"
    return kept(name, f"{flavour}, {memory}, {nodes} nodes, {cpus} CPUs, {what}", again, made)


def page_init(again: bool) -> float:
    """Return the instructions that a page of memory costs stock during boot."""
    small, large = (measured("stock", memory, 1, 1, None, again) for memory in SLOPE)
    pages = (large.machine.memory_bytes - small.machine.memory_bytes) // PAGE
    return (large.to_init - small.to_init) / pages


def touch(done: Record) -> float:
    """Return the instructions of a page's first write in the guest's fill."""
    return int(done.results["fill.touch_ticks"]) / int(done.results["fill.pages"])


def main() -> None:
    """Boot what is to be booted and print the table."""
    again = "--again" in sys.argv[1:]
    init = page_init(again)
    table = Table(title=f"Instructions a page; its initialisation costs stock {init:.1f}")
    for column in ("memory", "nodes", "CPUs", "pages", "stock", "stock + init", "lazy", "ratio"):
        table.add_column(column, justify="right")
    for memory, nodes, cpus in MACHINES:
        for size in ("4k", "thp"):
            stock, lazy = (
                touch(measured(flavour, memory, nodes, cpus, f"fill {size} {cpus}", again))
                for flavour in MODES
            )
            name = units.binary_size(units.size(memory))
            whole = stock + init
            numbers = (f"{value:,.1f}" for value in (stock, whole, lazy))
            table.add_row(name, str(nodes), str(cpus), size, *numbers, f"{lazy / whole:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
