"""How many first touches of a page are slow: stock against flatboot, deferred_init=lazy."""

from __future__ import annotations

from rich.table import Table

from flatboot.kept import Kept, Wanted

MODES = {"stock": "", "flatboot": "deferred_init=lazy"}
#: Instructions, as a power of two, from which on a touch is slow: more than a block's struct pages.
SLOW = 15
#: The thread that registers memory blocks behind boot would get in between.
PROGRAMS = (
    "poke await listed /sys/devices/system/memory/memory47/state online",
    "latency 3072",
)


def table(kept: Kept) -> Table:
    """Return the touches of 3 GiB on a machine of 4 GiB: all, slow ones, and the worst."""
    made = Table(title=f"First touches of a page, 4 GiB; slow: {2**SLOW:,} instructions or more")
    for column in ("kernel", "touches", "slow", "worst, instructions"):
        made.add_column(column, justify="left" if column == "kernel" else "right")
    for flavour, mode in MODES.items():
        found = kept(Wanted("latency", flavour, "4G", mode, programs=PROGRAMS)).results
        slow = sum(
            int(count)
            for name, count in found.items()
            if name.startswith("latency.2^") and int(name.removeprefix("latency.2^")) >= SLOW
        )
        touches, worst = (int(found[f"latency.{name}"]) for name in ("pages", "worst"))
        made.add_row(f"{flavour} {mode}".strip(), f"{touches:,}", f"{slow:,}", f"{worst:,}")
    return made
