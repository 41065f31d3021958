"""Two kernels by their records: which phase changed, from which size on, how much, how sure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from flatboot.analysis import comparable, fits, layout_noise, ranks
from flatboot.analysis.comparable import Pair
from flatboot.analysis.fits import Fit, Point
from flatboot.common import units
from flatboot.common.errors import UsageError
from flatboot.record import kernel_names
from flatboot.record.record import Record

#: The name of the whole boot beside its phases.
TOTAL = comparable.TOTAL
GIB = 1 << 30
REGRESSION, IMPROVEMENT, SAME, UNDECIDED = "regression", "improvement", "same", "undecided"
_SEEN = layout_noise.seen()
#: The least share of a phase that counts as a change. It is far above what the same code at other
#: addresses moved any long phase by (``long_phase_share``), and half of the 1% that is to be found.
THRESHOLD = 0.005
#: How often a regression may be found where there is none.
ALPHA = 0.05
# A change on the exact clock must be so much larger than what the control moved the phase by: the
# control is one draw of the noise of code layout, and another one may well be twice as large.
_SAFETY = 3
# What code layout is taken to move a phase by where no control says: a share of it, half as much
# again as the most that it was seen to move the whole boot by, to a tenth of a per cent.
_LAYOUT_SHARE = round(1.5 * _SEEN.whole_share, 3)
# The kernel frees the gaps behind its code and its read-only data at the end of boot, page by page:
# up to 2 MiB each, about 3,600 instructions a page, so that the size of the code decides.
_LAYOUT_GAPS = dict.fromkeys(layout_noise.BY_SIZE, 2_000_000)
# What layout moves a phase by in any case: timer interrupts of 3,000 instructions each, and threads
# that they wake, fall into one phase or the next. Twice the most that was seen, to 10,000.
_LAYOUT_FLOOR = round(2 * _SEEN.phase_instructions, -4)
# With several CPUs the count holds what they wait for each other: the control moved the whole boot
# of 2 and 4 CPUs by 1.00% and 0.77%, the phases of its second run along with it, and what comes
# twice, unattributed, by as much as the whole. So without a control the share is taken to be this,
# for phases of ``layout_noise.BY_SIZE`` of the whole boot,
_CPUS_SHARE = 0.02
# and the floor three times the most that a small phase was seen to move by.
_CPUS_FLOOR = 500_000
_EXIT_STATUS = {SAME: 0, IMPROVEMENT: 0, REGRESSION: 1, UNDECIDED: 2}


@dataclass(frozen=True)
class SizeChange:
    """A phase on one size of machine, in the unit of the clock.

    Attributes:
        memory_bytes: the machine's memory.
        cpus: its CPUs.
        before: the median of the runs of A.
        after: the median of the runs of B.
        low: the lower end of the interval of the difference.
        high: the upper end.
        p: how likely equal kernels differ as much, before correction; None on the exact clock.
        smallest: the smallest change that these runs could have found; infinite if none.
        verdict: "regression", "improvement", "same" or "undecided".
        nodes: the machine's NUMA nodes.
    """

    memory_bytes: int
    cpus: int
    before: float
    after: float
    low: float
    high: float
    p: float | None
    smallest: float
    verdict: str
    nodes: int = 1


@dataclass(frozen=True)
class PhaseChange:
    """A phase over all sizes, in the unit of the clock.

    Attributes:
        name: the phase, or ``TOTAL``.
        verdict: as of a size; "regression" if any size has one, whatever the others have.
        sizes: in order of memory, CPUs and nodes.
        from_bytes: the smallest measured memory from which on every larger one shows the change;
            None if nothing changed or the largest does not show it.
        fixed: what the difference is made of: its fixed part,
        per_gib: its part for each GiB,
        per_cpu: and its part for each CPU.
        from_cpus: as ``from_bytes``, the smallest number of CPUs.
    """

    name: str
    verdict: str
    sizes: list[SizeChange]
    from_bytes: int | None
    fixed: float
    per_gib: float
    per_cpu: float
    from_cpus: int | None = None

    @property
    def before(self) -> Fit:
        """What the phase is made of in A, fitted over all sizes."""
        return _fit(self.sizes, lambda size: size.before)

    @property
    def after(self) -> Fit:
        """What it is made of in B."""
        return _fit(self.sizes, lambda size: size.after)


@dataclass(frozen=True)
class Comparison:
    """What became of kernel A in kernel B.

    Attributes:
        before: kernel A, for people.
        after: kernel B, for people.
        clock: "exact" or "wall".
        unit: what all figures count: "instructions" (virtual nanoseconds) or "ns".
        verdict: as of a size.
        phases: the whole boot first, then its phases in order of time.
        notes: sentences on what to keep in mind.
    """

    before: str
    after: str
    clock: str
    unit: str
    verdict: str
    phases: list[PhaseChange]
    notes: list[str]

    @property
    def exit_status(self) -> int:
        """0: the same or better, 1: a regression, 2: it could not be told."""
        return _EXIT_STATUS[self.verdict]


def compare(
    before: Sequence[Record],
    after: Sequence[Record],
    *,
    control: Sequence[Record] = (),
    alpha: float = ALPHA,
    threshold: float = THRESHOLD,
) -> Comparison:
    """Compare the boots of kernel A, *before*, with those of kernel B, *after*.

    Boots are compared where both kernels booted the same size of machine. The formulas and what
    they assume stand in docs/compare.md.

    Args:
        before: boots of A, any number of each size.
        after: boots of B.
        control: on the exact clock, boots of A rebuilt with no change but to the code's layout.
        alpha: on the wall clock, how often a change may be found where there is none, in the
            whole comparison.
        threshold: the least share of a phase that counts as a change.

    Raises:
        UsageError: the boots are on two clocks, architectures or (wall clock) hosts, one side
            holds two kernels, or there is no size that both booted.
    """
    if not 0 < alpha < 1 or not 0 <= threshold < 1:
        raise UsageError("alpha must lie between 0 and 1, and the threshold be a share below 1")
    notes = comparable.check(before, after, control)
    pairs = comparable.pairs(before, after, control)
    first, second = before[0], after[0]
    if first.clock == "exact":
        judged = _exact(pairs, threshold)
        notes += _layout_notes(pairs, control)
    else:
        judged = _wall(pairs, alpha, threshold)
        notes += _runs_notes(pairs, judged, alpha)
    by_name: dict[str, list[SizeChange]] = {}
    for pair, change in zip(pairs, judged, strict=True):
        by_name.setdefault(pair.phase, []).append(change)
    changes = [_phase(name, sizes) for name, sizes in by_name.items()]
    paid = _paid(changes)
    if paid:
        notes.append(f"slower only where the whole boot got faster: {', '.join(paid)}")
    titles = [
        name if record.kernel.version in name else f"{record.kernel.version} {name}"
        for record, name in zip((first, second), kernel_names.names([first, second]), strict=True)
    ]
    return Comparison(
        before=titles[0],
        after=titles[1],
        clock=first.clock,
        unit=first.unit,
        verdict=_verdict(changes, paid),
        phases=changes,
        notes=notes,
    )


def _exact(pairs: Sequence[Pair], threshold: float) -> list[SizeChange]:
    """Judge changes by size: what is larger than the noise of code layout is real."""
    moved = {
        (pair.phase, pair.size): max(abs(run - median(pair.before)) for run in pair.control)
        for pair in pairs
        if pair.control
    }
    whole = {pair.size: median(pair.before) for pair in pairs if pair.phase == TOTAL}
    changes = []
    for pair in pairs:
        before, after = median(pair.before), median(pair.after)
        layout = max(_LAYOUT_SHARE * before, _LAYOUT_GAPS.get(pair.phase, 0))
        if pair.size.cpus > 1:
            layout = _CPUS_SHARE * (
                whole[pair.size] if pair.phase in layout_noise.BY_SIZE else before
            )
        if pair.control:
            layout = _SAFETY * max(
                noise
                for (name, size), noise in moved.items()
                if name == pair.phase and size.memory_bytes <= pair.size.memory_bytes
            )
        scatter = sum(max(runs) - min(runs) for runs in (pair.before, pair.after))
        floor = _CPUS_FLOOR if pair.size.cpus > 1 else _LAYOUT_FLOOR
        noise = max(layout, floor) + scatter
        smallest = max(noise, threshold * before)
        change = after - before
        changes.append(
            _size_change(
                pair, change - noise, change + noise, None, smallest, abs(change) > smallest
            )
        )
    return changes


def _wall(pairs: Sequence[Pair], alpha: float, threshold: float) -> list[SizeChange]:
    """Judge changes by ranks, all phases and sizes together at *alpha*."""
    each = alpha / len(pairs)
    corrected = ranks.holm([ranks.p_value(pair.before, pair.after) for pair in pairs])
    changes = []
    for pair, p in zip(pairs, corrected, strict=True):
        least = threshold * median(pair.before)
        change = median(pair.after) - median(pair.before)
        smallest = max(ranks.smallest_shift(pair.before, pair.after, each), least)
        low, high = ranks.interval(pair.before, pair.after, each)
        found = p <= alpha and abs(change) > least
        changes.append(_size_change(pair, low, high, p, smallest, found))
    return changes


def _runs_notes(pairs: Sequence[Pair], judged: Sequence[SizeChange], alpha: float) -> list[str]:
    if all(change.verdict != UNDECIDED for change in judged):
        return []
    least = min(min(len(pair.before), len(pair.after)) for pair in pairs)
    return [
        f"{units.many(least, 'run')} of a kernel cannot show a change of {len(pairs)} figures"
        f" at once: at least {ranks.runs_needed(alpha / len(pairs))} of each are needed"
    ]


def _size_change(
    pair: Pair, low: float, high: float, p: float | None, smallest: float, found: bool
) -> SizeChange:
    before, after = median(pair.before), median(pair.after)
    if found:
        verdict = REGRESSION if after > before else IMPROVEMENT
    else:
        verdict = SAME if math.isfinite(smallest) else UNDECIDED
    return SizeChange(
        memory_bytes=pair.size.memory_bytes,
        cpus=pair.size.cpus,
        before=before,
        after=after,
        low=low,
        high=high,
        p=p,
        smallest=smallest,
        verdict=verdict,
        nodes=max(len(pair.size.nodes), 1),
    )


def _phase(name: str, sizes: list[SizeChange]) -> PhaseChange:
    verdicts = {size.verdict for size in sizes}
    verdict = next(one for one in (REGRESSION, IMPROVEMENT, UNDECIDED, SAME) if one in verdicts)
    changed = verdict in (REGRESSION, IMPROVEMENT)
    from_bytes = _from(sizes, "memory_bytes", verdict) if changed else None
    from_cpus = _from(sizes, "cpus", verdict) if changed else None
    shown = [
        size
        for size in sizes
        if size.memory_bytes >= (from_bytes or 0) and size.cpus >= (from_cpus or 0)
    ]
    fit = _fit(shown, lambda size: size.after - size.before)
    return PhaseChange(
        name=name,
        verdict=verdict,
        sizes=sizes,
        from_bytes=from_bytes,
        fixed=fit.fixed,
        per_gib=fit.per_gib,
        per_cpu=fit.per_cpu,
        from_cpus=from_cpus,
    )


def _from(sizes: Sequence[SizeChange], dimension: str, verdict: str) -> int | None:
    """Return the smallest value of *dimension* from which on each has a size with *verdict*."""
    values = sorted({getattr(size, dimension) for size in sizes}, reverse=True)
    shown = {getattr(size, dimension) for size in sizes if size.verdict == verdict}
    return min(itertools.takewhile(shown.__contains__, values), default=None)


def _fit(sizes: Sequence[SizeChange], cost: Callable[[SizeChange], float]) -> Fit:
    return fits.linear([Point(size.memory_bytes / GIB, size.cpus, cost(size)) for size in sizes])


def _paid(changes: Sequence[PhaseChange]) -> list[str]:
    """Return the phases that got slower only on sizes where the whole boot got faster."""
    faster = {_key(size) for size in changes[0].sizes if size.verdict == IMPROVEMENT}
    return [
        change.name
        for change in changes
        if change.verdict == REGRESSION
        and {_key(size) for size in change.sizes if size.verdict == REGRESSION} <= faster
    ]


def _key(size: SizeChange) -> tuple[int, int, int]:
    return size.memory_bytes, size.cpus, size.nodes


def _verdict(changes: Sequence[PhaseChange], paid: Sequence[str]) -> str:
    """Return the verdict on the whole: one regression is one, whatever else got better."""
    if any(change.verdict == REGRESSION and change.name not in paid for change in changes):
        return REGRESSION
    verdicts = {size.verdict for change in changes for size in change.sizes}
    return next(one for one in (UNDECIDED, IMPROVEMENT, SAME) if one in verdicts)


def _layout_notes(pairs: Sequence[Pair], control: Sequence[Record]) -> list[str]:
    several = any(pair.size.cpus > 1 for pair in pairs)
    share = _CPUS_SHARE if several else _LAYOUT_SHARE
    default = f"code layout is taken to move a phase by {share:.1%} at most"
    if not control:
        return [f"there is no control, so {default}"]
    bare = dict.fromkeys(str(pair.size) for pair in pairs if not pair.control)
    return [f"the control has no boots of {'; '.join(bare)}, so there {default}"] if bare else []
