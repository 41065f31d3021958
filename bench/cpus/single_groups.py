"""What groups save that have no parameter and no other figures: each alone on the base."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted

GROUPS = ("fixes", "sched-smp", "percpu", "acpi")
CPUS = 64
#: Boots wait for whole ticks, of so many instructions: what differs by less says nothing.
TICK = 4_000_000
#: Many virtual CPUs neither calibrate nor take ticks, which would be most of what is measured.
CMDLINE = "lpj=4000000 nolapic_timer"


def wanted(group: str | None) -> Wanted:
    """Return the boot of stock, or of a kernel with nothing but *group*."""
    flavour = "flatboot" if group else "stock"
    groups = (group,) if group else ()
    return Wanted("single_groups", flavour, "2G", CMDLINE, cpus=CPUS, groups=groups)


def table(kept: Kept) -> Table:
    """Return the instructions to /init, and what each group takes off, a row each."""
    made = Table(
        title=f"To /init on {CPUS} CPUs with one group alone: instructions. Boots wait for whole"
        f" ticks, of {TICK:,}: what differs by less says nothing"
    )
    made.add_column("group")
    for heading in ("to /init", "less", "of stock's"):
        made.add_column(heading, justify="right")
    stock = kept(wanted(None)).to_init
    made.add_row("stock", f"{stock:,}", "", "")
    for group in GROUPS:
        to_init = kept(wanted(group)).to_init
        less = stock - to_init
        made.add_row(group, f"{to_init:,}", f"{less:,}", f"{less / stock:.2%}")
    return made
