"""What code layout alone does to each phase: stock, and the same code at other addresses."""

from __future__ import annotations

from rich.table import Table

from flatboot.analysis.compare import TOTAL
from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record import phases

SIZES = ("2G", "16G", "64G")


def lengths(kept: Kept, config: str, memory: str) -> dict[str, int]:
    """Return the instructions of the whole boot and of each phase."""
    record = kept(Wanted("layout", "stock", memory, phases=True, config=config))
    return {TOTAL: record.to_init, **phases.by_name(record.phases)}


def table(kept: Kept) -> Table:
    """Return what each phase takes more with the config control than with bench."""
    made = Table(title="Instructions that code layout moves a phase by, stock, control less bench")
    made.add_column("phase")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    bench, control = (
        [lengths(kept, config, memory) for memory in SIZES] for config in ("bench", "control")
    )
    for name in dict.fromkeys(name for boot in bench for name in boot):
        moved = (b.get(name, 0) - a.get(name, 0) for a, b in zip(bench, control, strict=True))
        made.add_row(name, *(f"{instructions:+,}" for instructions in moved))
    return made
