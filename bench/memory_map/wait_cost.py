"""What the flatboot kernel costs with deferred_init=wait: instructions to /init against stock."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units

SIZES = ("2G", "64G")
MODES = {"stock": "", "flatboot": "deferred_init=wait"}


def table(kept: Kept) -> Table:
    """Return both kernels' cost on each size, and what each GiB between them costs."""
    made = Table(title="Instructions from reset to /init, deferred_init=wait")
    for column in ("memory", "stock", "flatboot", "difference"):
        made.add_column(column, justify="left" if column == "memory" else "right")
    costs = [
        [
            kept(Wanted("wait_cost", flavour, memory, mode)).to_init
            for flavour, mode in MODES.items()
        ]
        for memory in SIZES
    ]
    gib = (units.size(SIZES[1]) - units.size(SIZES[0])) / 2**30
    each = [(large - small) / gib for small, large in zip(*costs, strict=True)]
    names = [*(units.binary_size(units.size(memory)) for memory in SIZES), "each GiB between"]
    for name, (stock, ours) in zip(names, [*costs, each], strict=True):
        made.add_row(name, f"{stock:,.0f}", f"{ours:,.0f}", f"{ours / stock - 1:+.1%}")
    return made
