"""What a sweep shows in the end, made from records: the table of costs, and the plot of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from flatboot.analysis import fits
from flatboot.common import units
from flatboot.common.errors import FlatbootError
from flatboot.record import cases
from flatboot.record.cases import Case, Clock
from flatboot.record.record import Record
from flatboot.show import plot
from flatboot.show.plot import Curve


@dataclass(frozen=True)
class _Growth:
    """The cases of a sweep as lines along one size of the machine.

    Attributes:
        by_memory: whether it is memory that grows; else all have the same, and CPUs grow.
        lines: cases that are alike but for that size, the smallest first.
    """

    by_memory: bool
    lines: list[list[Case]]

    @property
    def what(self) -> str:
        """The word for what grows."""
        return "memory" if self.by_memory else "CPUs"

    def sizes(self, line: Sequence[Case]) -> list[int]:
        """Return the sizes of a line: bytes, or numbers of CPUs."""
        return [case.memory if self.by_memory else case.cpus for case in line]

    def exponent(self, line: Sequence[Case]) -> float | None:
        """Return the exponent of a line's cost; None for a line of one size."""
        if len(set(self.sizes(line))) < 2:
            return None
        return fits.exponent(self.sizes(line), [case.cost for case in line])

    def name(self, line: Sequence[Case]) -> str:
        """Return the name of a line: its kernel, and what tells it from others of that kernel."""
        first = line[0]
        words = [first.kernel]
        firsts = [other[0] for other in self.lines]
        if self.by_memory and len({case.cpus for case in firsts}) > 1:
            words.append(units.many(first.cpus, "CPU"))
        if len({case.nodes for case in firsts}) > 1:
            words.append(units.many(first.nodes, "node"))
        return ", ".join(words)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the cost of each kernel on each machine, a table a clock.

    It is the median of several boots. Ratio and exponent are over the memory of machines that are
    alike otherwise, or over their CPUs where all have the same memory.
    """
    by_clock = cases.by_clock(cases.cases(records))
    return [_table(clock, _growth(found)) for clock, found in by_clock.items()]


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw the cost against memory, or against CPUs where all machines have the same memory.

    Raises:
        FlatbootError: the records are of more than one clock.
    """
    by_clock = cases.by_clock(cases.cases(records))
    if len(by_clock) > 1:
        titles = " and ".join(clock.title for clock in by_clock)
        raise FlatbootError(f"no plot holds boots of two clocks, and there are {titles}")
    ((clock, found),) = by_clock.items()
    growth = _growth(found)
    curves = []
    for line in growth.lines:
        exponent = growth.exponent(line)
        name = growth.name(line) + ("" if exponent is None else f", exponent {exponent:.2f}")
        curves.append(Curve(name, growth.sizes(line), [case.cost / 1e9 for case in line]))
    plot.growth(
        curves,
        path,
        title=f"{clock.title}: boot cost against {growth.what}",
        size="memory of the virtual machine" if growth.by_memory else "virtual CPUs",
        written=units.binary_size if growth.by_memory else str,
        cost="instructions from reset to /init (billions)" if clock.exact else "seconds to /init",
    )


def _table(clock: Clock, growth: _Growth) -> Table:
    made = Table(
        title=f"{clock.title}: {clock.unit} from reset to /init",
        title_justify="left",
        caption=f"ratio: to the smallest machine; exponent: 1 is a cost that grows as {growth.what}"
        f" grow{'s' * growth.by_memory}, 0 one that does not; host memory: the most that QEMU held",
        caption_justify="left",
    )
    made.add_column("kernel")
    for column in ("nodes", "CPUs", "memory", "to /init", "ratio", "exponent", "host memory"):
        made.add_column(column, justify="right")
    made.add_column("boots", justify="right")
    for line in growth.lines:
        exponent = growth.exponent(line)
        for index, case in enumerate(line):
            last = case is line[-1]
            made.add_row(
                case.kernel if index == 0 else "",
                str(case.nodes),
                str(case.cpus),
                units.binary_size(case.memory),
                clock.figure(case.cost),
                f"{case.cost / line[0].cost:.2f}x" if index else "",
                f"{exponent:.2f}" if last and exponent is not None else "",
                units.decimal_size(case.host_peak),
                str(len(case.runs)),
                end_section=last,
            )
    return made


def _growth(found: Sequence[Case]) -> _Growth:
    by_memory = len({case.memory for case in found}) > 1
    lines: dict[tuple[object, ...], list[Case]] = {}
    for case in found:
        other = case.cpus if by_memory else case.memory
        lines.setdefault((case.kernel, case.arch, case.nodes, other), []).append(case)
    return _Growth(by_memory, list(lines.values()))
