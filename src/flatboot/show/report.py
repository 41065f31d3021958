"""A report: records as one web page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from flatboot.analysis import compare
from flatboot.common import units
from flatboot.common.errors import UsageError
from flatboot.record import callbacks, cases
from flatboot.record.cases import Case, Clock, Sweep
from flatboot.record.record import Phase, Record
from flatboot.show import cpu_callbacks, report_plots, web_page
from flatboot.show import report_tables as tables
from flatboot.show.plain_table import PlainTable, plain
from flatboot.show.report_plots import Bar, PlotLine
from flatboot.show.web_page import Block, Section

_SLOWEST = 10
# Phases below this share of every boot are drawn together.
_SMALL = 0.01
_OTHERS = "others"
# Bars in one plot, so that it fits a page of paper.
_BARS = 10
_EXPONENT = (
    "A line's slope is its exponent: 1 grows as the machine does, 0 does not grow at all. The worst"
    " misfit is the largest distance of a point from the straight line through all of them, as a"
    " share of the largest cost."
)
_SCALES = (
    f"Each machine has a scale of its own. Phases below {_SMALL:.0%} of every boot are drawn as"
    f" {_OTHERS}."
)
_CALLBACKS = (
    "What each step of CPU bring-up took on all CPUs together, the dearest first. A step that waits"
    " for another CPU holds what that one does meanwhile, so the steps do not add up. The exponent"
    " is 1 for a step that takes each CPU as long, however many there are. The tracer's own step,"
    f" {callbacks.TRACERS_OWN}, is left out."
)
_ALL_CPUS = "On this clock the cost is the sum over all CPUs, waiting included."


def write(records: Sequence[Record], path: Path) -> None:
    """Write the report on *records* to *path*, whole or not at all."""
    web_page.write(page(records), path)


def page(records: Sequence[Record]) -> str:
    """Return the report on *records* as HTML; the same records give the same page."""
    found = cases.cases(records)
    return web_page.html("Boot report", _summary(found), sections(found))


def sections(found: Sequence[Case]) -> list[Section]:
    """Return every section of the report, in order."""
    return [
        Section(
            "memory",
            "Boot cost against memory",
            [*_each_clock(found, _memory)],
            "No kernel here was booted on two sizes of memory with all else alike:"
            " flatboot sweep over memory makes such records.",
        ),
        Section(
            "cpus",
            "Boot cost against CPUs",
            [*_each_clock(found, _cpus)],
            "No kernel here was booted with two numbers of CPUs and all else alike:"
            " flatboot sweep over CPUs makes such records.",
        ),
        Section(
            "phases",
            "Phases",
            [*_each_clock(found, _phases)],
            "No record here has phases: flatboot boot --record finds them, unless told not to.",
        ),
        Section(
            "timeline",
            "Timeline",
            [*_timeline(found)],
            "No record here has phases: flatboot boot --record finds them, unless told not to.",
        ),
        Section(
            "callbacks",
            "CPU callbacks",
            [*_each_clock(found, _callbacks)],
            "No record here holds a trace of CPU bring-up:"
            " flatboot sweep with trace = true makes such records.",
        ),
        Section(
            "comparison",
            "Comparison",
            [*_each_clock(found, _comparisons)],
            "No two kernels here were booted on the same machine by the same clock:"
            " boot another kernel, or other parameters, on one of these machines.",
        ),
        Section("host", "Host memory", [*_each_clock(found, _host_memory)], "There is no record."),
        Section("booted", "What was booted", [*_booted(found)], "There is no record."),
    ]


def _summary(found: Sequence[Case]) -> str:
    """Return how many boots of what these are, in one sentence."""
    runs = [run for case in found for run in case.runs]
    kernels = len({case.kernel for case in found})
    memory = sorted({case.memory for case in found})
    cpus = sorted({case.cpus for case in found})
    days = sorted({run.created[:10] for run in runs})
    return (
        f"{units.many(len(runs), 'boot')} of {units.many(kernels, 'kernel')} on"
        f" {_range([units.binary_size(size) for size in memory])} of memory and"
        f" {_range([str(count) for count in cpus])} {'CPUs' if cpus != [1] else 'CPU'},"
        f" {_range(days)}."
    )


def _range(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _each_clock(
    found: Sequence[Case], make: Callable[[Sequence[Case], Clock], Iterable[Block]]
) -> Iterator[Block]:
    """Make the blocks of each clock apart: no table or plot holds figures of two clocks."""
    for clock, group in cases.by_clock(found).items():
        yield from make(group, clock)


def _memory(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    sweeps = cases.over_memory(found)
    by_gib = tables.growth(sweeps, clock, "GiB", lambda case: case.gib, lambda fit: fit.per_gib)
    yield from _curves(
        sweeps, clock, "memory", by_gib, lambda case: case.memory, units.binary_size, [_EXPONENT]
    )


def _cpus(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    sweeps = cases.over_cpus(found)
    by_cpu = tables.growth(sweeps, clock, "CPU", lambda case: case.cpus, lambda fit: fit.per_cpu)
    text = [_EXPONENT, *([_ALL_CPUS] if clock.exact else [])]
    yield from _curves(
        sweeps, clock, "CPUs", by_cpu, lambda case: case.cpus, lambda count: f"{count:g}", text
    )


def _curves(
    sweeps: Sequence[Sweep],
    clock: Clock,
    what: str,
    growth: Table,
    size: Callable[[Case], int],
    written: Callable[[float], str],
    text: list[str],
) -> Iterator[Block]:
    """Make the block of the cost against *what*, a *size* of the machine; none of no sweeps."""
    if not sweeps:
        return
    yield Block(
        clock.title,
        _plain(growth, tables.points(sweeps, clock, what, lambda case: written(size(case)))),
        text,
        report_plots.curves(
            f"{what.lower()}-{clock.key}",
            _lines(sweeps, size, lambda case: case.cost),
            x_label=f"{what} of the machine",
            y_label=f"{clock.unit} from reset to /init",
            x_text=written,
            y_text=clock.tick,
        ),
        f"{clock.unit} from reset to /init against {what}, both axes logarithmic; {_named(sweeps)}",
    )


def _lines(
    sweeps: Sequence[Sweep], x: Callable[[Case], float], y: Callable[[Case], float]
) -> list[PlotLine]:
    return [
        PlotLine(sweep.name, [*map(x, sweep.cases)], [*map(y, sweep.cases)]) for sweep in sweeps
    ]


def _named(sweeps: Sequence[Sweep]) -> str:
    return f"a line for each of: {', '.join(sweep.name for sweep in sweeps)}"


def _phases(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    whole = [case for case in found if case.phases]
    drawn = _large_phases(whole)
    for index, machines in enumerate(_in_plots(cases.by_machine(whole))):
        panels = {
            machine: [Bar(case.kernel, _parts(case, drawn)) for case in group]
            for machine, group in machines.items()
        }
        yield Block(
            clock.title if index == 0 else "",
            _plain(*(tables.phases_of(name, group, clock) for name, group in machines.items())),
            [_SCALES] if index == 0 else [],
            report_plots.bars(
                f"phases-{clock.key}-{index}",
                panels,
                [*drawn, _OTHERS],
                x_label=clock.unit,
                x_text=clock.tick,
            ),
            f"stacked bars of the phases in {clock.unit}; machines: {'; '.join(machines)}",
        )


def _large_phases(found: Sequence[Case]) -> list[str]:
    """Return the phases that are not small in all of *found*, in order of first appearance."""
    names = dict.fromkeys(name for case in found for name in case.phases)
    return [
        name
        for name in names
        if any(case.phases.get(name, 0) >= _SMALL * case.cost for case in found)
    ]


def _parts(case: Case, drawn: Sequence[str]) -> dict[str, float]:
    """Return the phases of *case* that are *drawn*, and all others together."""
    parts = {name: length for name, length in case.phases.items() if name in drawn}
    return {**parts, _OTHERS: sum(case.phases.values()) - sum(parts.values())}


def _as_drawn(phase: Phase, drawn: Sequence[str]) -> Phase:
    return phase if phase.name in drawn else Phase(_OTHERS, phase.start, phase.length)


def _in_plots(machines: Mapping[str, list[Case]]) -> Iterator[dict[str, list[Case]]]:
    """Divide *machines* so that a plot has about _BARS bars at most."""
    plot: dict[str, list[Case]] = {}
    for machine, group in machines.items():
        if plot and sum(map(len, plot.values())) + len(group) > _BARS:
            yield plot
            plot = {}
        plot[machine] = group
    if plot:
        yield plot


def _timeline(found: Sequence[Case]) -> Iterator[Block]:
    """Make the block of one boot: the longest on the clock that comes first."""
    whole = [case for case in found if case.phases]
    if not whole:
        return
    clock = whole[0].clock
    same_clock = [case for case in whole if case.clock == clock]
    case = max(same_clock, key=lambda case: case.cost)
    drawn = _large_phases(same_clock)
    run = next(run for run in case.runs if run.phases)
    slowest = sorted(run.calls, key=lambda call: -call.length)[:_SLOWEST]
    slowest.sort(key=lambda call: call.start)
    yield Block(
        f"{clock.title}: {case.kernel} on {case.machine}",
        _plain(tables.phases_in_time(run, clock), tables.initcalls(run, slowest, clock)),
        ["The longest of the boots here, from reset to /init."],
        report_plots.timeline(
            "timeline",
            [_as_drawn(phase, drawn) for phase in run.phases],
            slowest,
            [*drawn, _OTHERS],
            x_label=f"{clock.unit} since reset",
            x_text=clock.tick,
        ),
        f"the phases of one boot and its slowest initcalls, in {clock.unit} since reset",
    )


def _callbacks(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    for shown, kernels in cpu_callbacks.traced(found).items():
        lost = sum(boot.lost for boots in kernels.values() for boot in boots)
        yield Block(
            clock.title,
            _plain(cpu_callbacks.callback_table(kernels, shown)),
            [_CALLBACKS, *([f"The traces lost {lost:,} events."] if lost else [])],
        )


def _comparisons(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    """Compare the kernel that comes first with each other one, where they share machines."""
    kernels: dict[str, list[Case]] = {}
    for case in found:
        kernels.setdefault(case.kernel, []).append(case)
    first, *others = kernels
    for other in others:
        machines = {case.machine for case in kernels[first]} & {
            case.machine for case in kernels[other]
        }
        before, after = (
            [run for case in kernels[name] if case.machine in machines for run in case.runs]
            for name in (first, other)
        )
        if machines:
            try:
                result = compare.compare(before, after)
            except UsageError as error:
                yield Block(f"{clock.title}: {other} against {first}", [], [f"{error}."])
                continue
            yield Block(
                f"{clock.title}: {other} against {first}, {result.verdict}",
                _plain(tables.changes(result, clock), tables.changes_by_size(result, clock)),
                [f"{note[:1].upper()}{note[1:]}." for note in result.notes],
            )


def _host_memory(found: Sequence[Case], clock: Clock) -> Iterator[Block]:
    sweeps = cases.over_memory(found)
    plot = label = ""
    if sweeps:
        plot = report_plots.curves(
            f"host-{clock.key}",
            _lines(sweeps, lambda case: case.memory, lambda case: case.host_peak),
            x_label="memory of the machine",
            y_label="peak host memory",
            x_text=units.binary_size,
            y_text=lambda size: f"{size / 1e9:g} GB",
        )
        label = f"peak host memory against the machine's, both logarithmic; {_named(sweeps)}"
    text = ["The most memory that QEMU held, its own included, from start to end of the guest."]
    yield Block(clock.title, _plain(tables.host_memory(found)), text, plot, label)


def _booted(found: Sequence[Case]) -> Iterator[Block]:
    noted = [tables.notes(found)] if any(run.notes for case in found for run in case.runs) else []
    yield Block("", _plain(tables.kernels(found), tables.machines(found), *noted))


def _plain(*made: Table) -> list[PlainTable]:
    return [plain(table) for table in made]
