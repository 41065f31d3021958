"""Host memory that an idle guest holds with deferred_init=lazy, and what QEMU takes of it."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units

SIZES = ("2G", "64G", "1T", "16T")
#: At 16T QEMU's firmware breaks the ACPI tables.
CMDLINE = "deferred_init=lazy acpi=off"


def table(kept: Kept) -> Table:
    """Return the host memory of guests that reached /init, the smallest first."""
    made = Table(
        title="Host memory of an idle guest, deferred_init=lazy, acpi=off",
        caption="memory of the guest: what the host backs of it when the guest ends, right after"
        " /init; more: than with the smallest machine; all: the most that QEMU held, its own"
        " included, without huge pages of the host",
    )
    for column in ("memory", "memory of the guest", "more", "all"):
        made.add_column(column, justify="right")
    boots = [kept(Wanted("host-memory", "flatboot", size, CMDLINE)) for size in SIZES]
    for boot in boots:
        more = boot.ram_bytes - boots[0].ram_bytes
        made.add_row(
            units.binary_size(boot.machine.memory_bytes),
            units.decimal_size(boot.ram_bytes),
            units.decimal_size(more) if more else "",
            units.decimal_size(boot.host_peak_bytes),
        )
    return made
