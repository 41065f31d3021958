"""What still grows with memory: instructions by kernel function, in a small and a large boot.

    .venv/bin/python bench/growth.py                  boot what has no record yet, print the table
    .venv/bin/python bench/growth.py --memory 16T     another large size than 1T
    .venv/bin/python bench/growth.py --flavour stock  without the patches, 64G if not told otherwise
    .venv/bin/python bench/growth.py --ledger         stock and flatboot at 1T, in groups, per GiB
    .venv/bin/python bench/growth.py --again          boot everything anew

The kernel runs with deferred_init=lazy, stock as it is: at 1T it needs 17 GB of host memory.
Records are kept in bench/results/growth; the table is made from them alone. Both records must be of
the same kernel: boot anew when it has changed.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from flatboot import boot, build, functions, units
from flatboot.functions import Difference
from flatboot.machine import machine
from flatboot.record import Record
from kept import kept

SMALL = "2G"
LARGE = {"flatboot": "1T", "stock": "64G"}
CMDLINE = {"flatboot": "deferred_init=lazy", "stock": ""}
#: What a function works on, by the beginning of its name; the first group that fits.
LEDGER = {
    "struct pages of free memory": (
        "deferred_init_memmap_chunk __free_pages_ deferred_init_write __free_one_page"
        " split_large_buddy free_one_page __mod_zone_page_state get_pfnblock_migratetype"
        " __set_pfnblock_flags_mask init_pageblock_migratetype deferred_init_block"
    ),
    "struct pages of the memory map and other reserved memory": (
        "init_deferred_page memmap_init_reserved_range"
    ),
    "zone->contiguous": "__pageblock_pfn_to_page pfn_to_online_page page_alloc_init_late",
    "zeroing (hash tables, bounce buffers)": "memset_orig clear_highpages_kasan_tagged",
    "struct pages of lower zones": "memmap_init_range deferred_init_wanted",
    "blocks of memblock's free memory": (
        "memblock_free_pages memblock_free_all early_pfn_to_nid deferred_init_setup"
    ),
    "memblock allocations": "memblock_ __memblock_ __next_mem_range should_skip_region memmove",
    "sections and page tables of the memory map": (
        "sparse_ vmemmap_ __populate_section_memmap sync_global_pgds subsection_ __bitmap_set"
        " __earlyonly_bootmem_alloc deferred_init_memmap first_valid_pfn _einittext"
    ),
    "slots of the bounce buffers": "swiotlb_",
    "memory block devices": (
        "kernfs_ __kernfs idr_ sysfs_ kobject_ device_ bus_ memory_ format_decode vsnprintf string"
        " number kmem_cache_alloc __kmalloc up_write down_write __radix_tree radix_tree"
    ),
}
#: Rows make up this share of all growth, and are no more than so many.
SHARE, MOST = 0.95, 25


def measured(flavour: str, memory: str, again: bool) -> Record:
    """Return the record of one boot, kept or made now."""

    def made() -> Record:
        image = build.kernel("7.3", flavour, "bench")
        wanted = machine(memory=memory)
        cmdline = CMDLINE[flavour]
        return boot.boot(image, wanted, cmdline=cmdline, functions=True, timeout_s=3600)

    return kept(f"growth/{flavour}-{memory}", f"{flavour}, {memory}", again, made)


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


def ledger(pairs: dict[str, tuple[Record, Record]]) -> Table:
    """Return the growth of each flavour's (small, large) boots in groups, per GiB."""
    shown = Table(title="Instructions per GiB of memory, from the growth to 1 TiB")
    for column in ("what grows", *pairs):
        shown.add_column(column, justify="left" if column == "what grows" else "right")
    sums = {name: dict.fromkeys((*LEDGER, "everything else"), 0) for name in pairs}
    for name, (small, large) in pairs.items():
        for row in functions.differences(small.functions, large.functions):
            sums[name][group(row.name)] += row.grown
    gib = {
        name: (large.machine.memory_bytes - small.machine.memory_bytes) / 2**30
        for name, (small, large) in pairs.items()
    }
    for what in (*LEDGER, "everything else"):
        shown.add_row(what, *(f"{sums[name][what] / gib[name]:,.0f}" for name in pairs))
    shown.add_section()
    shown.add_row("total", *(f"{sum(sums[name].values()) / gib[name]:,.0f}" for name in pairs))
    return shown


def group(function: str) -> str:
    """Return the row of the ledger that *function* counts for."""
    for what, names in LEDGER.items():
        if function.startswith(tuple(names.split())):
            return what
    return "everything else"


def cells(row: Difference) -> tuple[str, str, str, str]:
    """Return *row* as it is shown."""
    return row.name, f"{row.small:,}", f"{row.large:,}", f"{row.grown:+,}"


def main() -> None:
    """Boot what is to be booted and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--flavour", choices=LARGE, default="flatboot")
    parser.add_argument("--memory", help="the large size; 1T, or 64G of stock, if not given")
    parser.add_argument("--again", action="store_true", help="boot everything anew")
    parser.add_argument("--ledger", action="store_true", help="both flavours at 1T, in groups")
    asked = parser.parse_args()
    if asked.ledger:
        pairs = {
            flavour: (
                measured(flavour, SMALL, asked.again),
                measured(flavour, LARGE["flatboot"], asked.again),
            )
            for flavour in ("stock", "flatboot")
        }
        Console().print(ledger(pairs))
        return
    sizes = (SMALL, asked.memory or LARGE[asked.flavour])
    small, large = (measured(asked.flavour, memory, asked.again) for memory in sizes)
    Console().print(table(small, large))


if __name__ == "__main__":
    main()
