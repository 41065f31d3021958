"""Instructions to fill memory, a page: stock and what its boot spent on the page, against lazy."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads
from flatboot.record.record import Record

MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
#: Boots of stock from which the cost of a page's initialisation is taken.
SLOPE = ("2G", "64G")
#: More memory takes hours; tests/boot/memory_map/test_cost.py checks 4 and 16 GiB.
MEMORY = "512M"
MACHINES = [(nodes, cpus) for nodes in (1, 2) for cpus in (1, 2)]
PAGE = 4096
READS = Reads(results=("fill.touch_ticks", "fill.pages"))


def page_init(kept: Kept) -> float:
    """Return the instructions that a page of memory costs stock during boot."""
    small, large = (kept(Wanted("fill", "stock", memory)) for memory in SLOPE)
    pages = (large.machine.memory_bytes - small.machine.memory_bytes) // PAGE
    return (large.to_init - small.to_init) / pages


def touch(done: Record) -> float:
    """Return the instructions of a page's first write in the guest's fill."""
    return int(done.results["fill.touch_ticks"]) / int(done.results["fill.pages"])


def table(kept: Kept) -> Table:
    """Return what a page costs on each machine, by pages of 4 KiB and huge ones."""
    init = page_init(kept)
    made = Table(
        title=f"Instructions a page, 512 MiB; boot costs stock {init:.1f} a page",
    )
    for column in ("nodes", "CPUs", "pages", "stock", "stock + init", "lazy", "ratio"):
        made.add_column(column, justify="right")
    for nodes, cpus in MACHINES:
        for size in ("4k", "thp"):
            programs = (f"fill {size} {cpus}",)
            stock, lazy = (
                touch(
                    kept(Wanted("fill", flavour, MEMORY, mode, cpus, nodes, programs, reads=READS))
                )
                for flavour, mode in MODES.items()
            )
            whole = stock + init
            numbers = (f"{value:,.1f}" for value in (stock, whole, lazy))
            made.add_row(str(nodes), str(cpus), size, *numbers, f"{lazy / whole:.3f}")
    return made
