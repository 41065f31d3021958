"""Boot cost and host memory from 2 GiB to 16 TiB: stock as far as the host allows, and ours."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.analysis import fits
from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record.record import Record
from flatboot.show import plot
from flatboot.show.plot import Curve, Panel

#: The kernel parameter that all of these boots have: QEMU's firmware breaks the ACPI tables at 16T.
WITHOUT_ACPI = "acpi=off"
MODES = {
    "stock": ("stock", ""),
    "background": ("flatboot", "deferred_init=background"),
    "lazy": ("flatboot", "deferred_init=lazy"),
}
SIZES = ("2G", "8G", "32G", "128G", "512G", "1T", "4T", "16T")


def records(kept: Kept) -> dict[str, list[Record]]:
    """Return the boots of each mode, the smallest machine first."""
    wanted = {
        name: [
            Wanted(f"curve/{name}", flavour, memory, f"{WITHOUT_ACPI} {mode}".strip())
            for memory in SIZES
        ]
        for name, (flavour, mode) in MODES.items()
    }
    return {name: [kept(ask) for ask in asks if kept.can(ask)] for name, asks in wanted.items()}


def table(kept: Kept) -> Table:
    """Return the cost of each boot, how it grew from the size before, and over all sizes."""
    made = Table(
        title="Boot cost and host memory, acpi=off: instructions from reset to /init, one CPU",
        caption="ratio: to the smallest machine; exponent: from the size before; overall: over all"
        " sizes; 1 is a cost that grows as memory does, 0 one that does not; host memory: the most"
        " that QEMU held until the guest ended, right after /init",
    )
    made.add_column("kernel")
    for column in ("memory", "to /init", "ratio", "exponent", "overall", "host memory"):
        made.add_column(column, justify="right")
    for name, boots in records(kept).items():
        sizes = [boot.machine.memory_bytes for boot in boots]
        costs = [boot.to_init for boot in boots]
        for index, boot in enumerate(boots):
            before = slice(index - 1, index + 1)
            made.add_row(
                "" if index else name,
                units.binary_size(sizes[index]),
                f"{costs[index]:,}",
                f"{costs[index] / costs[0]:.3f}" if index else "",
                f"{fits.exponent(sizes[before], costs[before]):.3f}" if index else "",
                f"{fits.exponent(sizes, costs):.3f}" if boot is boots[-1] else "",
                units.decimal_size(boot.host_peak_bytes),
                end_section=boot is boots[-1],
            )
    return made


def host_memory(kept: Kept) -> Table:
    """Return what the host backs of the memory of guests that boot lazily."""
    made = Table(
        title="Host memory of an idle guest, deferred_init=lazy, acpi=off",
        caption="memory of the guest: what the host backs of it when the guest ends, right after"
        " /init; more: than with the smallest machine; all: the most that QEMU held, its own"
        " included, without huge pages of the host",
    )
    for column in ("memory", "memory of the guest", "more", "all"):
        made.add_column(column, justify="right")
    boots = records(kept)["lazy"]
    for boot in boots:
        more = boot.ram_bytes - boots[0].ram_bytes
        made.add_row(
            units.binary_size(boot.machine.memory_bytes),
            units.decimal_size(boot.ram_bytes),
            units.decimal_size(more) if more else "",
            units.decimal_size(boot.host_peak_bytes),
        )
    return made


def draw(kept: Kept, path: Path) -> None:
    """Draw both against memory."""
    costs, host = [], []
    for name, boots in records(kept).items():
        sizes = [boot.machine.memory_bytes for boot in boots]
        exponent = fits.exponent(sizes, [boot.to_init for boot in boots])
        title = f"{name}, exponent of the boot cost {exponent:.3f}"
        costs.append(Curve(title, sizes, [boot.to_init / 1e9 for boot in boots]))
        host.append(Curve(title, sizes, [boot.host_peak_bytes / 1e9 for boot in boots]))
    plot.panels(
        [
            Panel("Boot cost: one CPU, exact clock, acpi=off", "10⁹ instructions to /init", costs),
            Panel("Host memory", "GB that QEMU held", host),
        ],
        path,
        size="memory of the virtual machine",
        written=units.binary_size,
    )
