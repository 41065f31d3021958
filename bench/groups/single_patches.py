"""What single patches save that stand alone: each of them on the base."""

from __future__ import annotations

from rich.table import Table
from single_groups import less, wanted

from flatboot.campaign.kept import Kept
from flatboot.kernel import groups, layer

GROUP = "fixes"
BASE = "7.3"


def table(kept: Kept) -> Table:
    """Return the instructions that each patch takes off, a row each."""
    made = Table(title="To /init on 64 CPUs with one patch alone: instructions, all CPUs together")
    made.add_column("patch")
    for heading in ("less", "of stock's"):
        made.add_column(heading, justify="right")
    for patch in layer.patches(groups.chosen(BASE, [GROUP]), BASE):
        made.add_row(patch.stem, *less(kept, wanted("single_patches", f"{GROUP}/{patch.stem}")))
    return made
