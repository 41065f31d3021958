"""What groups save that have no parameter and no other figures: each alone on the base."""

from __future__ import annotations

from cpu_bring_up import MANY_CPUS
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads

GROUPS = ("fixes", "sched-smp", "percpu", "acpi")
CPUS = 64


def wanted(table: str, groups: str | None, cmdline: str = "") -> Wanted:
    """Return the boot for *table* of stock, or of a kernel with nothing but *groups*."""
    flavour = "flatboot" if groups else "stock"
    return Wanted(
        table,
        flavour,
        "2G",
        f"{cmdline} {MANY_CPUS}".strip(),
        cpus=CPUS,
        counted="init",
        reads=Reads(results=("counted",)),
        groups=(groups,) if groups else (),
    )


def counted(kept: Kept, boot: Wanted) -> int:
    """Return the instructions to /init, those of all CPUs together."""
    return int(kept(boot).results["counted"])


def less(stock: int, ours: int) -> tuple[str, str]:
    """Return how many instructions *ours* are less than *stock*, and their share of stock's."""
    return f"{stock - ours:,}", f"{(stock - ours) / stock:.2%}"


def table(kept: Kept) -> Table:
    """Return the instructions to /init, and what each group takes off, a row each."""
    made = Table(
        title=f"To /init on {CPUS} CPUs with one group alone: instructions of all CPUs, without"
        " delay loops"
    )
    made.add_column("group")
    for heading in ("to /init", "less", "of stock's"):
        made.add_column(heading, justify="right")
    stock = counted(kept, wanted("single_groups", None))
    made.add_row("stock", f"{stock:,}", "", "")
    for group in GROUPS:
        ours = counted(kept, wanted("single_groups", group))
        made.add_row(group, f"{ours:,}", *less(stock, ours))
    return made
