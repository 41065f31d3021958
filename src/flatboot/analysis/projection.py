"""How long a machine that is larger than any that was booted takes to bring up its CPUs.

The work of each part of a boot, in instructions, is fitted over the CPUs of the smaller boots and
checked on the largest. What the exact clock cannot see, who runs a part, and what may overlap is
``projection_rules``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from flatboot.analysis import cpu_work, fits
from flatboot.analysis.cpu_work import Part
from flatboot.analysis.fits import Polynomial
from flatboot.analysis.projection_rules import Row, Rule, Rules, Way
from flatboot.common import units
from flatboot.common.errors import FlatbootError
from flatboot.record import spans
from flatboot.record.record import Record

#: How many numbers of CPUs a fit needs, besides the one that is held out.
FEWEST = 3
#: What interrupts may add to a part, in instructions: they count to the part that they hit.
_INTERRUPTS = 50_000
SWEEP = "flatboot sweep --cpus 4,16,64,128,240 --trace --flavour stock,flatboot"


@dataclass(frozen=True)
class MachineSize:
    """A machine: its CPUs, and its NUMA nodes, which have as many each."""

    cpus: int
    nodes: int


@dataclass(frozen=True)
class FittedPart:
    """What a part costs, by the number of CPUs beyond the first.

    Attributes:
        work: instructions.
        calls: how often it is called.
        held_out: the measured instructions of the boot that was held out.
        projected: what *work* says of that boot.
    """

    work: Polynomial
    calls: Polynomial
    held_out: float
    projected: float


@dataclass(frozen=True)
class FittedKernel:
    """The parts of one kernel.

    Attributes:
        curves: of each part.
        fitted: the numbers of CPUs that they are fitted to.
        held_out: the number of CPUs that they are checked on.
    """

    curves: dict[Part, FittedPart]
    fitted: tuple[int, ...]
    held_out: int

    def growth(self, part: Part, size: float) -> float:
        """Return by which factor *part* may be wrong at *size* CPUs, going by the check; 1 if not.

        The error of the check is taken to repeat with each step as long as that from the fitted to
        the boot held out; a part is not taken to grow by more than a further power of the CPUs.
        """
        curve, last = self.curves[part], self.fitted[-1]
        if size <= last or curve.held_out <= 0 or curve.projected <= 0:
            return 1.0
        steps = math.log(size / last) / math.log(self.held_out / last)
        missed = abs(math.log(curve.held_out / curve.projected))
        return min(math.exp(missed * steps), size / last)


@dataclass(frozen=True)
class Estimate:
    """A figure and the range in which it is taken to lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """A ratio that is asked for.

    Attributes:
        what: of what to what.
        ratio: as projected.
        asked: what it may be at most.
    """

    what: str
    ratio: Estimate
    asked: float

    @property
    def word(self) -> str:
        """Whether it is "met", "missed", or "open": the range holds what is asked for."""
        if self.ratio.high <= self.asked:
            return "met"
        return "missed" if self.ratio.low > self.asked else "open"


@dataclass(frozen=True)
class _Sum:
    """Seconds, and the squares of what extrapolation may add and take away."""

    seconds: float
    more: float
    less: float


@dataclass(frozen=True)
class _Load:
    """What a part has to do on a machine: instructions and calls, and by which factor they err."""

    part: Part
    rule: Rule
    work: float
    calls: float
    growth: float


#: Which parts a figure is of, by their rule.
Chosen = Callable[[Part, Rule], bool]
Values = Mapping[str, float]


def kernels(records: Sequence[Record], ways: Sequence[Way]) -> dict[str, FittedKernel]:
    """Return the kernels of *ways*, by ``Way.boots``, from boots of *records* that have spans.

    Boots of other bases are left out; that of the ways is one.

    Raises:
        FlatbootError: boots of a kernel are too few, or differ in more than CPUs.
    """
    base = ways[0].base
    counted = [record for record in records if record.spans and record.kernel.base == base]
    if not counted:
        raise FlatbootError(
            f"{units.many(len(records), 'record')} without counted calls of {base}: make others"
            f" with {SWEEP} --base {base}"
        )
    if len({record.machine.memory_bytes for record in counted}) > 1:
        raise FlatbootError("the records differ in memory: name those of one memory size")
    if any(len(record.machine.nodes) > 1 for record in counted):
        raise FlatbootError("there are boots with several nodes: name records of one node only")
    parameters = {way.parameter for way in ways} - {""}
    partly = [
        record
        for record in counted
        if not _parameter(record, parameters) and spans.cpus(record.spans) != record.machine.cpus
    ]
    if partly:
        raise FlatbootError(
            f"a boot of {partly[0].machine.cpus} CPUs has {spans.cpus(partly[0].spans)} online:"
            " name records of boots without maxcpus="
        )
    found = {}
    for name, way in {way.boots: way for way in ways}.items():
        boots = {
            record.machine.cpus: cpu_work.boot(record)
            for record in counted
            if record.kernel.flavour == way.kernel
            and _parameter(record, parameters) == way.parameter
        }
        if len(boots) <= FEWEST:
            with_it = f" --cmdline {way.parameter}" if way.parameter else ""
            raise FlatbootError(
                f"there are boots of {name} with {len(boots)} numbers of CPUs, and a"
                f" projection needs {FEWEST + 1}: make them with {SWEEP}{with_it}"
            )
        found[name] = _kernel(boots)
    return found


def _parameter(record: Record, parameters: Collection[str]) -> str:
    """Return which of *parameters* the boot had; "" for none."""
    return next((word for word in record.cmdline.split() if word in parameters), "")


def _kernel(boots: Mapping[int, cpu_work.BootParts]) -> FittedKernel:
    """Return the parts of *boots*, which are keyed by the CPUs of their machine."""
    *fitted, last = sorted(boots)
    others = [cpus - 1 for cpus in fitted]
    curves = {}
    for part in sorted({part for boot in boots.values() for part in boot.costs}):
        costs = [boots[cpus].together([part]) for cpus in fitted]
        work = fits.polynomial(others, [cost.working for cost in costs], _INTERRUPTS)
        calls = fits.polynomial(others, [cost.calls for cost in costs])
        held_out = boots[last].together([part]).working
        curves[part] = FittedPart(work, calls, held_out, work(last - 1))
    return FittedKernel(curves, tuple(fitted), last)


class Projection:
    """Projections from *kernels* by *rules*, with the terms that follow from published rows."""

    def __init__(
        self, kernels: Mapping[str, FittedKernel], rules: Rules, published: Sequence[Row]
    ) -> None:
        """Derive the terms that follow from rows of *published*.

        Raises:
            FlatbootError: the rules do not cover a part.
        """
        self.kernels = kernels
        self.rules = rules
        try:
            self._rules = {
                part: rules.of(part) for kernel in kernels.values() for part in kernel.curves
            }
        except KeyError as error:
            raise FlatbootError(f"{error.args[0]}: add one") from error
        #: The published rows from which terms follow.
        self.fitted = {
            row.name: row
            for row in published
            for term in rules.terms.values()
            if term.row == row.name
        }
        self._known: dict[tuple[Way, MachineSize], list[_Load]] = {}
        self.values = self._terms()

    def has(self, row: Row, function: str) -> bool:
        """Return whether *row* holds a part with this *function*."""
        return any(
            row.has(function, rule.phase)
            for part, rule in self._rules.items()
            if part.function == function
        )

    def rule(self, part: Part) -> Rule:
        """Return the rule for *part*."""
        return self._rules[part]

    def range(self, name: str) -> tuple[float, float]:
        """Return the range of the term *name*, in its unit."""
        term = self.rules.terms[name]
        factor = self.values[name] if term.row else 1
        return term.low * factor, term.high * factor

    def seconds(self, way: Way, machine: MachineSize, chosen: Chosen) -> Estimate:
        """Return the seconds that boot spends on the parts that are *chosen*."""
        return self._estimate(lambda values: self._sum(way, machine, chosen, values))

    def ratio(
        self, one: tuple[Way, MachineSize], other: tuple[Way, MachineSize], of: Chosen
    ) -> Estimate:
        """Return the ratio of the seconds that two boots spend on the parts *of*.

        A term is the same in both; what extrapolation may change is not.
        """

        def ratio(values: Values) -> _Sum:
            above, below = (self._sum(*boot, of, values) for boot in (one, other))
            squared = above.seconds**2, below.seconds**2
            value = above.seconds / below.seconds
            return _Sum(
                value,
                value**2 * (above.more / squared[0] + below.less / squared[1]),
                value**2 * (above.less / squared[0] + below.more / squared[1]),
            )

        return self._estimate(ratio)

    def row(self, row: Row, way: Way) -> Estimate | None:
        """Return the projection of a published *row*; None if there is nothing to project from."""
        if not row.here:
            return None
        return self.seconds(way, MachineSize(row.cpus, row.nodes), _of(row))

    def by_part(self, way: Way, machine: MachineSize) -> dict[Part, float]:
        """Return the seconds of each part that boot waits for, the dearest first."""
        found = {
            load.part: self._sum(way, machine, _only(load.part), self.values).seconds
            for load in self._loads(way, machine)
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def verdicts(self, machine: MachineSize) -> list[Verdict]:
        """Return how the ways on *machine* stand to what is asked for."""
        stock, *others = self.rules.ways
        found = []
        for way in others:
            if way.group:
                asked = self.rules.targets["bring_up"]
                for what, chosen in _BRING_UP.items():
                    ratio = self.ratio((way, machine), (stock, machine), chosen)
                    found.append(Verdict(f"{what}, {way.name} to {stock.name}", ratio, asked))
            if way.online:
                few = MachineSize(way.online, 1)
                ratio = self.ratio((way, machine), (way, few), every)
                what = f"to /init, {way.name} to {way.online} CPUs"
                found.append(Verdict(what, ratio, self.rules.targets["to_init"]))
        return found

    def check(self, boots: str) -> dict[Part, tuple[float, float]]:
        """Return what was projected for the boot held out, and measured there, in instructions.

        Of each part that boot waits for; *boots* is ``Way.boots``.
        """
        curves = self.kernels[boots].curves.items()
        return {
            part: (curve.projected, curve.held_out)
            for part, curve in curves
            if self.rule(part).runs != "beside"
        }

    def _terms(self) -> dict[str, float]:
        """Return the value of each term; those with a row by least squares from all such rows."""
        terms = self.rules.terms
        free = [name for name, term in terms.items() if term.row]
        fixed = {name: 0.0 if name in free else term.value for name, term in terms.items()}

        def known(name: str, values: Values) -> float:
            row = self.fitted[terms[name].row]
            machine = MachineSize(row.cpus, row.nodes)
            return self._sum(self.rules.ways[0], machine, _of(row), values).seconds

        column = self.rules.ways[0].published
        asked = [self.fitted[terms[name].row].seconds(column) or 0.0 for name in free]
        rests = [row - known(name, fixed) for row, name in zip(asked, free, strict=True)]
        counts = [
            [known(name, {**fixed, term: 1.0}) - known(name, fixed) for term in free]
            for name in free
        ]
        if not free:
            return fixed
        solved, _ = nnls(np.array(counts), np.array(rests))
        return {**fixed, **dict(zip(free, solved.tolist(), strict=True))}

    def _estimate(self, figure: Callable[[Values], _Sum]) -> Estimate:
        """Return *figure* and its range: the root of the squares of what terms and fit change."""
        middle = figure(self.values)
        more, less = middle.more, middle.less
        for name in self.values:
            ends = [figure({**self.values, name: end}).seconds for end in self.range(name)]
            more += max(max(ends) - middle.seconds, 0) ** 2
            less += max(middle.seconds - min(ends), 0) ** 2
        low = max(middle.seconds - math.sqrt(less), 0)
        return Estimate(middle.seconds, low, middle.seconds + math.sqrt(more))

    def _sum(self, way: Way, machine: MachineSize, chosen: Chosen, values: Values) -> _Sum:
        online = way.online or machine.cpus
        seconds = more = less = 0.0
        for load in self._loads(way, machine):
            if not chosen(load.part, load.rule):
                continue
            working = load.work / values["instructions"] * _serial(load.rule, way, online, values)
            seconds += working + _waiting(load, way, online, values)
            more += (working * (load.growth - 1)) ** 2
            less += (working * (1 - 1 / load.growth)) ** 2
        return _Sum(seconds, more, less)

    def _loads(self, way: Way, machine: MachineSize) -> list[_Load]:
        """Return what each part that boot waits for has to do."""
        if (way, machine) not in self._known:
            kernel, found = self.kernels[way.boots], []
            for part, curve in kernel.curves.items():
                rule = self.rule(part)
                if rule.runs != "beside":
                    size, times = _size(rule, machine, way)
                    work, calls = (times * made(size - 1) for made in (curve.work, curve.calls))
                    work *= 1 + rule.per_node * (machine.nodes - 1)
                    found.append(_Load(part, rule, work, calls, kernel.growth(part, size)))
            self._known[way, machine] = found
        return self._known[way, machine]


def every(part: Part, rule: Rule) -> bool:
    """Choose every part."""
    return True


#: What may be called bring-up: all that is done for each CPU, and parts of it.
_BRING_UP: dict[str, Chosen] = {
    "bring-up": lambda part, rule: rule.runs != "once",
    "SMP init alone": lambda part, rule: rule.phase == "SMP init",
    "the whole boot": every,
}


def _only(wanted: Part) -> Chosen:
    return lambda part, rule: part == wanted


def _of(row: Row) -> Chosen:
    return lambda part, rule: row.has(part.function, rule.phase)


def _size(rule: Rule, machine: MachineSize, way: Way) -> tuple[float, float]:
    """Return the number of CPUs that the cost of a part goes by, and which share is spent."""
    if way.parameter:
        # Its boots brought up as few CPUs, so the machine's are what it grows with.
        return machine.cpus, 1
    online = way.online or machine.cpus
    if rule.over == "online":
        return online, 1
    return machine.cpus, 1 if rule.runs == "once" else online / machine.cpus


def _steps(way: Way, online: int) -> float:
    """Return how many CPUs are prepared one after another."""
    return math.ceil(math.log2(online)) if way.tree else online


def _rounds(rule: Rule, online: int) -> int:
    """Return how many times boot wakes CPUs for a callback and waits for them."""
    return math.ceil(online / rule.at_once) if rule.at_once else 1


def _serial(rule: Rule, way: Way, online: int, values: Values) -> float:
    """Return the share of a part's work that boot waits for."""
    if not way.group or rule.runs == "once":
        return 1
    if rule.grouped:
        return 1 / online
    if rule.runs == "prepare":
        alone = _steps(way, online) / online if rule.spread else 1
    else:
        alone = _rounds(rule, online) / online if rule.parallel else 1
    return alone + values["contended"] * (1 - alone)


def _waiting(load: _Load, way: Way, online: int, values: Values) -> float:
    """Return the seconds of wake-ups, handshakes and exits that boot waits for."""
    rule, calls = load.rule, load.calls
    turn = values["errand" if way.tree else "turn"]
    each = rule.handshakes * values["handshake"] + rule.errands * values["errand"]
    each += rule.turns * turn
    exits = _serial(rule, way, online, values) * calls * rule.exits * values["exit"]
    if not way.group or rule.runs == "once":
        return exits + calls * each
    if rule.runs == "prepare":
        return exits + calls * each * _steps(way, online) / online
    if rule.runs == "set up" and not (rule.parallel or rule.at_once):
        return exits + calls * each
    turns = 0 if rule.parallel else values["handover"]
    woken = rule.handshakes * values["wake"]
    return exits + calls * (woken + turns) + _rounds(rule, online) * each
