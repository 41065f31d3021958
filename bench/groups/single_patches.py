"""What single patches save that stand alone: each of them on the base."""

from __future__ import annotations

from rich.table import Table
from single_groups import CPUS, less, wanted

from flatboot.campaign.kept import Kept
from flatboot.kernel import groups, layer

#: A group whose patches need no other, and single patches of others, to see what they are worth.
GROUP, BASE = "fixes", "7.3"
OTHERS = ("acpi/acpi-examine-late", "percpu/x86-entry-area")


def patches() -> list[str]:
    """Return the patches as GROUP/PATCH."""
    own = layer.patches(groups.chosen(BASE, [GROUP]), BASE)
    return [*(f"{GROUP}/{path.stem}" for path in own), *OTHERS]


def table(kept: Kept) -> Table:
    """Return the instructions that each patch takes off, a row each."""
    made = Table(
        title=f"To /init on {CPUS} CPUs with one patch alone: instructions, all CPUs together"
    )
    made.add_column("patch")
    for heading in ("less", "of stock's"):
        made.add_column(heading, justify="right")
    for patch in patches():
        made.add_row(patch, *less(kept, wanted("single_patches", patch)))
    return made
