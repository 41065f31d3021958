"""One boot of a machine with much memory and many CPUs: stock, and flatboot, which leaves most."""

from __future__ import annotations

from pathlib import Path

from cpu_bring_up import MANY_CPUS

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.show import plot

MEMORY, CPUS = "1T", 240
MODES = {"stock": "", "flatboot": "deferred_init=lazy cpuhp.defer=4"}
#: So many phases have a colour of their own.
LARGEST = 4


def draw(kept: Kept, path: Path) -> None:
    """Draw both boots, phase by phase."""
    boots = {
        flavour: kept(
            Wanted("one-boot", flavour, MEMORY, f"{MANY_CPUS} {mode}".strip(), CPUS, phases=True)
        )
        for flavour, mode in MODES.items()
    }
    size = units.binary_size(units.size(MEMORY))
    plot.boots(boots, path, title=f"One boot with {size} and {CPUS} CPUs", largest=LARGEST)
