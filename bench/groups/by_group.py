"""What is left to grow with memory where the groups of the memory map are taken one by one."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted

SIZES = ("2G", "1T")
GROUPS = ("memory-map", "memory-map-reserved")


def wanted(group: str, memory: str) -> Wanted:
    """Return the boot of a kernel with *group* and what it needs."""
    return Wanted("by_group", "flatboot", memory, "deferred_init=lazy", groups=(group,))


def table(kept: Kept) -> Table:
    """Return the instructions to /init, and how they grow, a row each."""
    made = Table(title="To /init with deferred_init=lazy, one CPU: instructions")
    made.add_column("group")
    for heading in (*SIZES, "ratio"):
        made.add_column(heading, justify="right")
    for group in GROUPS:
        small, large = (kept(wanted(group, memory)).to_init for memory in SIZES)
        made.add_row(group, f"{small:,}", f"{large:,}", f"{large / small:.3f}")
    return made
