"""Tables for people, made from records only."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.table import Table
from rich.text import Text

from flatboot.common import units
from flatboot.record import phases
from flatboot.record.record import Record

_BAR_WIDTH = 30
_SLOWEST = 10
WAITING = "waiting for the memory map"


def phase_table(record: Record) -> Table:
    """Return where the time of the boot went: each phase, its share, a bar, and the total."""
    table = Table(title="Where the boot went", title_justify="left", show_footer=True)
    table.add_column("phase", footer="total, reset to /init")
    table.add_column(record.unit, justify="right", footer=f"{record.to_init:,}")
    table.add_column("share", justify="right", footer="100.0%")
    table.add_column("", width=_BAR_WIDTH)
    for name, length in phases.by_name(record.phases).items():
        share = length / record.to_init
        bar = Bar(1, 0, share, width=_BAR_WIDTH, color="cyan")
        table.add_row(name, f"{length:,}", f"{share:.1%}", bar)
    return table


def initcall_table(record: Record) -> Table:
    """Return the ten slowest initcalls."""
    total = sum(call.length for call in record.calls)
    table = Table(
        title=f"Slowest of {len(record.calls)} initcalls ({units.count(total)} together)",
        title_justify="left",
    )
    table.add_column("initcall")
    table.add_column(record.unit, justify="right")
    table.add_column("share of boot", justify="right")
    for call in sorted(record.calls, key=lambda call: -call.length)[:_SLOWEST]:
        table.add_row(call.function, f"{call.length:,}", f"{call.length / record.to_init:.2%}")
    return table


def summary(record: Record) -> Text:
    """Return the boot in a few lines: what was booted, its cost, its memory."""
    kernel, machine = record.kernel, record.machine
    meminfo = record.meminfo
    lines = [
        f"{kernel.flavour} {kernel.version} ({kernel.config}) on {machine.type}, QEMU"
        f" {machine.qemu} {machine.accelerator}, {units.binary_size(machine.memory_bytes)},"
        f" {units.many(machine.cpus, 'CPU')},"
        f" {units.many(max(len(machine.nodes), 1), 'node')}",
        f"{record.unit} from reset to /init: {record.to_init:,}",
        f"peak host memory: {units.decimal_size(record.host_peak_bytes)}, of which"
        f" {units.decimal_size(record.ram_bytes)} hold memory of the guest",
        f"MemTotal {_kib(meminfo, 'MemTotal')}, MemFree {_kib(meminfo, 'MemFree')}",
        *(f"note: {note}" for note in record.notes),
    ]
    return Text("\n".join(lines))


def growth_table(records: Sequence[Record]) -> Table:
    """Return boots over memory sizes, grouped by kernel: cost, growth, host memory, waiting.

    The ratio is to the same kernel's smallest machine in *records*.
    """
    table = Table(
        title="Boot cost against memory: instructions from reset to /init, one CPU, exact clock",
        title_justify="left",
        caption="ratio: to the same kernel's smallest machine; host memory: the most that QEMU"
        " held; waiting: instructions until the memory map is ready",
        caption_justify="left",
    )
    table.add_column("kernel")
    for column in (
        "memory",
        "to /init",
        "ratio",
        "host memory",
        "MemTotal",
        "MemFree",
        "waiting",
    ):
        table.add_column(column, justify="right")
    for name, group in by_kernel(records).items():
        first = group[0]
        for index, record in enumerate(group):
            meminfo = record.meminfo
            table.add_row(
                name if index == 0 else "",
                units.binary_size(record.machine.memory_bytes),
                units.count(record.to_init),
                f"{record.to_init / first.to_init:.2f}x" if index else "",
                units.decimal_size(record.host_peak_bytes),
                _kib(meminfo, "MemTotal"),
                _kib(meminfo, "MemFree"),
                units.count(record.phase(WAITING)) if record.phases else "not measured",
                end_section=record is group[-1],
            )
    return table


def by_kernel(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each kernel and deferred_init= mode, smallest memory first."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.machine.memory_bytes):
        words = [word.partition("=") for word in record.cmdline.split()]
        mode = [value for key, _, value in words if key == "deferred_init"]
        groups.setdefault(" ".join([record.kernel.flavour, *mode]), []).append(record)
    return dict(sorted(groups.items(), key=lambda item: -item[1][-1].to_init))


def _kib(meminfo: dict[str, int], key: str) -> str:
    return units.binary_size(meminfo[key] * 1024) if key in meminfo else "unknown"
