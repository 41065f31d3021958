"""The report's tables, made from cases and records only; ``plain_table`` makes text of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from flatboot.analysis import fits
from flatboot.analysis.compare import SAME, Comparison
from flatboot.common import units
from flatboot.record.cases import Case, Clock, Sweep
from flatboot.record.record import Call, Record

_MACHINE = (
    "clock",
    "architecture",
    "type",
    "CPU model",
    "QEMU",
    "accelerator",
    "firmware",
    "host",
    "memory",
    "CPUs",
    "nodes",
    "boots",
)
_TOTAL = "total, reset to /init"


def table(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return an empty table: columns that hold *names*, then columns that hold *numbers*."""
    made = Table(title=Text(title))
    for heading in names:
        made.add_column(Text(heading))
    for heading in numbers:
        made.add_column(Text(heading), justify="right")
    return made


def add(made: Table, *cells: str) -> None:
    """Add a row of *cells* to *made*, none of which is taken for markup."""
    made.add_row(*map(Text, cells))


def points(sweeps: Sequence[Sweep], clock: Clock, what: str, size: Callable[[Case], str]) -> Table:
    """Return what each case of *sweeps* cost; the ratio is to the sweep's smallest machine.

    *what* they are over is a column of its own, which *size* writes.
    """
    made = table("Measured", ["kernel"], [what, clock.unit, "ratio", "boots"])
    for sweep in sweeps:
        for case in sweep.cases:
            ratio = f"{case.cost / sweep.cases[0].cost:.3f}" if case is not sweep.cases[0] else ""
            cells = (size(case), clock.figure(case.cost), ratio, str(len(case.runs)))
            add(made, sweep.name, *cells)
    return made


def growth(
    sweeps: Sequence[Sweep],
    clock: Clock,
    per: str,
    size: Callable[[Case], float],
    slope: Callable[[fits.Fit], float],
) -> Table:
    """Return how the cost of each sweep grows: its exponent, and what a straight line makes of it.

    Args:
        sweeps: over memory or over CPUs.
        clock: of all of them.
        per: what they grow with, such as "GiB".
        size: a case's number of those.
        slope: a fit's cost of one of those.
    """
    numbers = ["exponent", f"{clock.unit} per {per}", f"fixed {clock.unit}", "worst misfit"]
    made = table("Growth", ["kernel"], numbers)
    for sweep in sweeps:
        costs = [case.cost for case in sweep.cases]
        exponent = fits.exponent([size(case) for case in sweep.cases], costs)
        fit = fits.linear([fits.Point(case.gib, case.cpus, case.cost) for case in sweep.cases])
        line = (clock.figure(slope(fit)), clock.figure(fit.fixed), f"{fit.worst:.1%}")
        add(made, sweep.name, f"{exponent:.3f}", *line)
    return made


def phases_of(machine: str, found: Sequence[Case], clock: Clock) -> Table:
    """Return the phases of each kernel on one machine."""
    title = f"{machine}, {clock.unit}"
    made = table(title, ["phase"], [case.kernel for case in found])
    for name in dict.fromkeys(name for case in found for name in case.phases):
        add(made, name, *(clock.figure(case.phases.get(name, 0)) for case in found))
    add(made, _TOTAL, *(clock.figure(case.cost) for case in found))
    return made


def phases_in_time(record: Record, clock: Clock) -> Table:
    """Return the phases of one boot in order of time."""
    made = table("Phases", ["phase"], [f"begins, {clock.unit}", clock.unit, "share"])
    for phase in record.phases:
        figures = (clock.figure(phase.start), clock.figure(phase.length))
        add(made, phase.name, *figures, f"{phase.length / record.to_init:.1%}")
    return made


def initcalls(record: Record, shown: Sequence[Call], clock: Clock) -> Table:
    """Return those initcalls of one boot that are *shown*."""
    made = table("Initcalls", ["initcall"], [f"begins, {clock.unit}", clock.unit, "share of boot"])
    for call in shown:
        figures = (clock.figure(call.start), clock.figure(call.length))
        add(made, call.function, *figures, f"{call.length / record.to_init:.2%}")
    return made


def changes(result: Comparison, clock: Clock) -> Table:
    """Return which phases changed, from which size on, and what the difference is made of."""
    numbers = [f"fixed {clock.unit}", "per GiB", "per CPU"]
    made = table("The difference", ["phase", "verdict", "from"], numbers)
    for phase in result.phases:
        begins = units.binary_size(phase.from_bytes) if phase.from_bytes is not None else ""
        parts = (_signed(part, clock) for part in (phase.fixed, phase.per_gib, phase.per_cpu))
        add(made, phase.name, phase.verdict, begins, *parts)
    return made


def changes_by_size(result: Comparison, clock: Clock) -> Table:
    """Return what became of the phases that changed, on each machine, and of the whole boot."""
    names = ["phase", "memory", "CPUs", "verdict"]
    numbers = ["before", "after", "difference", "interval", "smallest to be found"]
    made = table(f"The difference by machine, {clock.unit}", names, numbers)
    shown = [phase for phase in result.phases[1:] if phase.verdict != SAME]
    for phase in [*result.phases[:1], *shown]:
        for size in phase.sizes:
            add(
                made,
                phase.name,
                units.binary_size(size.memory_bytes),
                str(size.cpus),
                size.verdict,
                clock.figure(size.before),
                clock.figure(size.after),
                _signed(size.after - size.before, clock),
                f"{clock.short(size.low)} to {clock.short(size.high)}",
                clock.short(size.smallest) if math.isfinite(size.smallest) else "none",
            )
    return made


def _signed(value: float, clock: Clock) -> str:
    figure = clock.figure(value)
    return f"+{figure}" if value > 0 and figure.strip("0.") else figure


def host_memory(found: Sequence[Case]) -> Table:
    """Return what each case took of its host's memory, and what the guest says it has."""
    numbers = ["host memory", "MemTotal", "MemFree"]
    made = table("Measured", ["kernel", "machine"], numbers)
    for case in found:
        meminfo = case.runs[0].meminfo
        guest = (
            units.binary_size(meminfo[key] * 1024) if key in meminfo else "unknown"
            for key in ("MemTotal", "MemFree")
        )
        add(made, case.kernel, case.machine, units.decimal_size(case.host_peak), *guest)
    return made


def kernels(found: Sequence[Case]) -> Table:
    """Return what is known of each kernel."""
    names = ["kernel", "base", "version", "flavour", "config", "hash", "compiler", "parameters"]
    made = table("Kernels", names, ["boots"])
    boots: dict[tuple[str, ...], int] = {}
    for case in found:
        kernel = case.runs[0].kernel
        row = (
            case.kernel,
            kernel.base,
            kernel.version,
            kernel.flavour,
            kernel.config,
            kernel.config_hash[:12],
            kernel.compiler,
            case.runs[0].cmdline,
        )
        boots[row] = boots.get(row, 0) + len(case.runs)
    for cells, count in boots.items():
        add(made, *cells, str(count))
    return made


def notes(found: Sequence[Case]) -> Table:
    """Return what the boots note of themselves."""
    made = table("Notes", ["kernel", "machine", "note"], [])
    for case in found:
        for note in dict.fromkeys(note for run in case.runs for note in run.notes):
            add(made, case.kernel, case.machine, note)
    return made


def machines(found: Sequence[Case]) -> Table:
    """Return what is known of the machines, a column each; those of other sizes are the same."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in found:
        machine = case.runs[0].machine
        column = (
            case.clock.title,
            machine.arch,
            machine.type,
            machine.cpu,
            machine.qemu,
            machine.accelerator,
            machine.firmware,
            machine.host,
        )
        groups.setdefault(column, []).append(case)
    columns = []
    for known, group in groups.items():
        sizes = (
            ", ".join(units.binary_size(size) for size in sorted({case.memory for case in group})),
            ", ".join(str(count) for count in sorted({case.cpus for case in group})),
            ", ".join(str(count) for count in sorted({case.nodes for case in group})),
        )
        columns.append([*known, *sizes, str(sum(len(case.runs) for case in group))])
    made = table("Machines", ["machine", *(column[1] for column in columns)], [])
    for name, *cells in zip(_MACHINE, *columns, strict=True):
        add(made, name, *cells)
    return made
