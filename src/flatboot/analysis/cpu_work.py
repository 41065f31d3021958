"""What CPU bring-up costs part by part, and which part grows with the CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flatboot.common import units
from flatboot.record import kernel_names, spans
from flatboot.record.record import Record


@dataclass(frozen=True, order=True)
class Part:
    """A function and by whom it is called: the word of spans.toml, such as "callback"."""

    function: str
    kind: str


@dataclass(frozen=True)
class Cost:
    """What a part cost one boot, in instructions, and its calls, as in ``record.Span``."""

    total: float = 0
    waiting: float = 0
    working: float = 0
    calls: float = 0

    def __add__(self, other: Cost) -> Cost:
        """Return both together."""
        return Cost(
            self.total + other.total,
            self.waiting + other.waiting,
            self.working + other.working,
            self.calls + other.calls,
        )


@dataclass(frozen=True)
class BootParts:
    """The parts of one boot.

    Attributes:
        cpus: the CPUs that are online, the boot processor included.
        costs: what each part cost.
        steps: the number of the hotplug state of those callbacks for which it is known.
    """

    cpus: int
    costs: dict[Part, Cost]
    steps: dict[Part, int]

    def together(self, parts: Iterable[Part]) -> Cost:
        """Return what *parts* cost together."""
        return sum((self.costs.get(part, Cost()) for part in parts), Cost())

    def share(self, some: Iterable[Part], parts: Iterable[Part]) -> float:
        """Return the share of *some* in the work of *parts*."""
        return self.together(some).working / max(self.together(parts).working, 1)


@dataclass(frozen=True)
class Growth:
    """What one more CPU costs, in instructions of work, at both ends of a sweep.

    Attributes:
        low: between the two boots with the fewest CPUs.
        high: between the two with the most.
    """

    low: float
    high: float

    @property
    def ratio(self) -> float | None:
        """How much more at the upper end than at the lower; None where it costs nothing there."""
        return self.high / self.low if self.low > 0 else None


def boots(records: Sequence[Record]) -> dict[str, list[BootParts]]:
    """Return the boots of *records* that have spans, by kernel, fewest CPUs first.

    Of boots that differ in neither kernel nor CPUs the last counts.
    """
    counted = [record for record in records if record.spans]
    machines = {(record.machine.memory_bytes, len(record.machine.nodes)) for record in counted}
    found: dict[str, dict[int, BootParts]] = {}
    for name, record in zip(kernel_names.names(counted), counted, strict=True):
        made, machine = boot(record), record.machine
        told = [units.binary_size(machine.memory_bytes), units.many(len(machine.nodes), "node")]
        title = ", ".join([name, *(told if len(machines) > 1 else [])])
        found.setdefault(title, {})[made.cpus] = made
    return {name: [of[cpus] for cpus in sorted(of)] for name, of in found.items()}


def boot(record: Record) -> BootParts:
    """Return the parts of the boot *record*, without firmware and the tracer."""
    kinds = spans.table().kinds
    costs: dict[Part, Cost] = {}
    steps: dict[Part, int] = {}
    for span in record.spans:
        if spans.is_tracers(span) or span.function == spans.FIRMWARE:
            continue
        part = Part(span.function, kinds.get(span.caller, ""))
        cost = Cost(span.total, span.waiting, span.working, span.calls)
        costs[part] = costs.get(part, Cost()) + cost
        if span.step >= 0:
            steps[part] = span.step
    return BootParts(spans.cpus(record.spans), costs, steps)


def growth(series: Sequence[BootParts], parts: Iterable[Part]) -> Growth | None:
    """Return how the work of *parts* together grows over *series*; None for a single boot."""
    if len(series) < 2:
        return None
    listed = list(parts)
    slopes = []
    for first, second in ((series[0], series[1]), (series[-2], series[-1])):
        grown = second.together(listed).working - first.together(listed).working
        slopes.append(grown / (second.cpus - first.cpus))
    return Growth(*slopes)
