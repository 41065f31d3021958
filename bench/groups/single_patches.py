"""What single patches save that stand alone: each of them on the base."""

from __future__ import annotations

from rich.table import Table
from single_groups import CPUS, counted, less, wanted

from flatboot.campaign.kept import Kept
from flatboot.kernel import groups, layer

#: A group whose patches need no other, and single patches of others, to see what they are worth.
GROUP, BASE = "fixes", "7.3"
#: CPUs that run at the same time wait for each other, not always as long: that hides small savings.
ONE_UP = "maxcpus=1"
OTHERS = ("acpi/acpi-examine-late", "percpu/x86-entry-area")


def patches() -> list[str]:
    """Return the patches as GROUP/PATCH."""
    own = layer.patches(groups.chosen(BASE, [GROUP]), BASE)
    return [*(f"{GROUP}/{path.stem}" for path in own), *OTHERS]


def table(kept: Kept) -> Table:
    """Return the instructions that each patch takes off, a row each."""
    made = Table(
        title=f"To /init with one patch alone, {CPUS} CPUs, of which boot brings up one:"
        " instructions, without delay loops"
    )
    made.add_column("patch")
    for heading in ("less", "of stock's"):
        made.add_column(heading, justify="right")
    stock = counted(kept, wanted("single_patches", None, ONE_UP))
    for patch in patches():
        ours = counted(kept, wanted("single_patches", patch, ONE_UP))
        made.add_row(patch, *less(stock, ours))
    return made
