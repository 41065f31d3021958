"""CPU callbacks of traced boots: what each step cost, by kernel and number of CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from flatboot.analysis import fits
from flatboot.record import callbacks
from flatboot.record.cases import Case, Clock
from flatboot.record.record import TRACE_FILE, Record
from flatboot.show.report_tables import add, table

_MOST = 30
_TICKS = "ticks"

#: A step of CPU bring-up: its number and its function.
Step = tuple[int, str]


@dataclass(frozen=True)
class Traced:
    """The callbacks of one boot.

    Attributes:
        cpus: the machine's CPUs.
        totals: what each step took on all CPUs together, in units of its clock.
        ran: on how many CPUs each step ran; the boot processor is not brought up.
        phases: the boot phase in which each step began first, where that can be told.
        lost: events that the tracer had no room for.
    """

    cpus: int
    totals: dict[Step, float]
    ran: dict[Step, int]
    phases: dict[Step, str]
    lost: int


def traced(found: Sequence[Case]) -> dict[Clock, dict[str, list[Traced]]]:
    """Return the traced boots by their trace's clock and kernel, fewest CPUs first.

    Of boots that differ in neither kernel nor CPUs the last counts.
    """
    clocks: dict[Clock, dict[str, dict[int, Traced]]] = {}
    for case in found:
        for run in case.runs:
            made = _traced(run)
            if made.totals:
                kernels = clocks.setdefault(_clock(case.clock, run), {})
                kernels.setdefault(case.kernel, {})[case.cpus] = made
    return {
        clock: {
            kernel: [boots[cpus] for cpus in sorted(boots)] for kernel, boots in kernels.items()
        }
        for clock, kernels in clocks.items()
    }


def _clock(clock: Clock, record: Record) -> Clock:
    """Return the clock of the trace of *record*: on the exact clock, each counts instructions."""
    if not clock.exact and callbacks.unit(record.files[TRACE_FILE]) == _TICKS:
        return Clock(clock.key, clock.title, _TICKS, 1, 0)
    return clock


def callback_table(kernels: Mapping[str, Sequence[Traced]], clock: Clock) -> Table:
    """Return what each step cost each of *kernels* on its most CPUs, the dearest first."""
    largest = [boots[-1] for boots in kernels.values()]
    numbers: list[str] = []
    for kernel, boots in kernels.items():
        where = f"{kernel}, {boots[-1].cpus} CPUs"
        numbers += [f"{where}: {clock.unit}", "per CPU"]
        numbers += ["exponent"] if len(boots) > 1 else []
    made = table("CPU callbacks", ["function", "step", "phase"], numbers)
    steps = {step for boot in largest for step in boot.totals}
    ordered = sorted(
        steps, key=lambda step: (-max(boot.totals.get(step, 0) for boot in largest), step)
    )
    for step in ordered[:_MOST]:
        phase = next((boot.phases[step] for boot in largest if step in boot.phases), "")
        figures = _figures(kernels, [step], clock)
        add(made, step[1], f"#{step[0]}", phase, *figures)
    if ordered[_MOST:]:
        add(made, "all others", "", "", *_figures(kernels, ordered[_MOST:], clock))
    return made


def _figures(
    kernels: Mapping[str, Sequence[Traced]], steps: Sequence[Step], clock: Clock
) -> list[str]:
    """Return the cells of *steps* together: of each kernel the total, per CPU, the exponent."""
    cells: list[str] = []
    for boots in kernels.values():
        totals = [sum(boot.totals.get(step, 0) for step in steps) for boot in boots]
        ran = [max(boot.ran.get(step, 0) for step in steps) for boot in boots]
        each = clock.figure(totals[-1] / ran[-1]) if ran[-1] else ""
        cells += [clock.figure(totals[-1]), each]
        if len(boots) > 1:
            told = min(totals) > 0 and len(set(ran)) > 1
            cells.append(f"{fits.exponent(ran, totals):.2f}" if told else "")
    return cells


def _traced(record: Record) -> Traced:
    text = record.files.get(TRACE_FILE, "")
    calls = callbacks.parse(text)
    totals = {(cost.step, cost.function): cost.total for cost in callbacks.costs(calls)}
    cpus: dict[Step, set[int]] = {}
    for call in calls:
        cpus.setdefault((call.step, call.function), set()).add(call.cpu)
    ran = {step: len(found) for step, found in cpus.items()}
    phases: dict[Step, str] = {}
    if record.clock == "exact" and callbacks.unit(text) == _TICKS:
        for call in calls:
            phases.setdefault((call.step, call.function), _phase(record, call.start))
    return Traced(record.machine.cpus, totals, ran, phases, callbacks.lost(text))


def _phase(record: Record, moment: float) -> str:
    """Return the phase of *record* at *moment*, in ticks since reset; "" if it has none."""
    began = [phase.name for phase in record.phases if phase.start <= moment]
    return began[-1] if began else ""
