"""What code layout alone does to each phase: stock, and the same code at other addresses."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.analysis import layout_noise
from flatboot.analysis.comparable import TOTAL
from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record import phases

SIZES = ("2G", "16G", "64G")
LAYOUTS = ("bench", "control")


def lengths(kept: Kept, config: str, memory: str) -> dict[str, int]:
    """Return the instructions of the whole boot and of each phase."""
    record = kept(Wanted("layout", "stock", memory, phases=True, config=config))
    return {TOTAL: record.to_init, **phases.by_name(record.phases)}


def boots(kept: Kept) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return the phases of both layouts on each size."""
    return [
        (lengths(kept, LAYOUTS[0], memory), lengths(kept, LAYOUTS[1], memory)) for memory in SIZES
    ]


def table(kept: Kept) -> Table:
    """Return what each phase takes more with the config control than with bench."""
    made = Table(title="Instructions that code layout moves a phase by, stock, control less bench")
    made.add_column("phase")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    found = boots(kept)
    for name in dict.fromkeys(name for bench, _ in found for name in bench):
        moved = (control.get(name, 0) - bench.get(name, 0) for bench, control in found)
        made.add_row(name, *(f"{instructions:+,}" for instructions in moved))
    return made


def noise(kept: Kept, path: Path) -> None:
    """Write what ``flatboot compare`` takes to be noise."""
    path.write_text(layout_noise.text(layout_noise.of(boots(kept))))
