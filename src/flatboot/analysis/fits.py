"""What a cost is made of: a fixed part, a part for each GiB and for each CPU, or powers of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

#: The highest power of a polynomial, and to which share a further one must cut the worst miss.
_POWERS, _CUT = 3, 1 / 3
#: A miss that is no reason for a further power, and by which costs are taken to be the same, and
#: the most that a line from a size on may miss by.
_GOOD, _BENT = 0.02, 0.25
Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A measured cost, in any unit, on a machine of so many GiB and CPUs."""

    gib: float
    cpus: int
    cost: float


@dataclass(frozen=True)
class Fit:
    """A cost as ``fixed + per_gib * GiB + per_cpu * CPUs``, in the unit of the points.

    Attributes:
        fixed: the cost that no machine is spared.
        per_gib: the cost of each GiB of memory.
        per_cpu: the cost of each CPU.
        worst: the largest distance of a point from the fit, as a share of the largest cost.
    """

    fixed: float
    per_gib: float
    per_cpu: float
    worst: float


@dataclass(frozen=True)
class Polynomial:
    """A cost as ``sum(coefficients[i] * (size - beyond)**i)``, in the unit of the points.

    No coefficient is below 0. Up to the size *beyond*, if it is not 0, the cost is *before*, and it
    never is less.
    """

    coefficients: tuple[float, ...]
    beyond: float = 0
    before: float = 0

    def __call__(self, size: float) -> float:
        """Return the cost at *size*."""
        if self.beyond and size <= self.beyond:
            return self.before
        larger = size - self.beyond
        return max(self.before, float(np.polynomial.polynomial.polyval(larger, self.coefficients)))


def polynomial(sizes: Sequence[float], costs: Sequence[float], noise: float = 0) -> Polynomial:
    """Return the polynomial through *costs* at *sizes*, by least squares without negative terms.

    A miss weighs by the square root of its cost, so that neither the least nor the largest cost
    decides alone. It is a straight line where that misses no cost by more than *noise*, in the unit
    of the costs. Else a higher power, up to the cube, is taken if it cuts the worst miss (as a
    share of the cost) to a third. It never has more terms than there are points.

    What costs the same up to a size, and more from there on, as a buffer that is large enough up to
    then and replaced beyond, is no power: if the least two of *sizes* or more cost the same, a line
    through the others, at least two, is taken if it misses by no more than half as much as the best
    of those, and than a quarter.

    Raises:
        ValueError: there are fewer than two points, or a cost is below zero.
    """
    if len(sizes) < 2 or min(costs) < 0:
        raise ValueError("a polynomial needs two points, and costs of zero or more")
    x, y = np.array(sizes, dtype=float), np.array(costs, dtype=float)
    best = _powers(x, y, 1)
    misses = _misses(best, sizes, costs)
    if max(misses) <= noise:
        return best
    worst = max(_shares(misses, costs))
    for highest in range(2, min(_POWERS, len(sizes) - 1) + 1):
        made = _powers(x, y, highest)
        share = max(_shares(_misses(made, sizes, costs), costs))
        if worst > _GOOD and share <= worst * _CUT:
            best, worst = made, share
    for bend in sorted(sizes)[1:-2]:
        before, beyond = y[x <= bend], x > bend
        line = _powers(x[beyond] - bend, y[beyond], 1)
        made = Polynomial(line.coefficients, bend, float(before.mean()))
        share = max(_shares(_misses(made, sizes, costs), costs))
        same = float(np.ptp(before)) <= _GOOD * float(before.max())
        if worst > _GOOD and same and share <= min(worst / 2, _BENT):
            best, worst = made, share
    return best


def _powers(x: Array, y: Array, highest: int) -> Polynomial:
    weights = 1 / np.sqrt(np.maximum(y, 1))
    matrix = np.vander(x, highest + 1, increasing=True) * weights[:, None]
    # Powers of large sizes differ by so much that the solver wants them alike.
    scale = matrix.max(axis=0)
    solution, _ = nnls(matrix / scale, y * weights, maxiter=1000)
    return Polynomial(tuple((solution / scale).tolist()))


def _misses(made: Polynomial, sizes: Sequence[float], costs: Sequence[float]) -> list[float]:
    return [abs(made(size) - cost) for size, cost in zip(sizes, costs, strict=True)]


def _shares(misses: Sequence[float], costs: Sequence[float]) -> list[float]:
    return [miss / max(cost, 1) for miss, cost in zip(misses, costs, strict=True)]


def linear(points: Sequence[Point]) -> Fit:
    """Return the fit of *points* by least squares; of no points it is all zero.

    A term is 0 where the points cannot tell it from the others: memory that is the same in all of
    them, CPUs that are, or CPUs that grow only along with memory (then memory has both).
    """
    if not points:
        return Fit(0, 0, 0, 0)
    costs = np.array([point.cost for point in points], dtype=float)
    columns = [np.ones(len(points))]
    used = []
    for term in ("gib", "cpus"):
        wider = [*columns, np.array([getattr(point, term) for point in points], dtype=float)]
        if np.linalg.matrix_rank(np.column_stack(wider)) == len(wider):
            columns = wider
            used.append(term)
    matrix = np.column_stack(columns)
    solution = np.linalg.lstsq(matrix, costs)[0]
    slopes = dict(zip(used, solution[1:].tolist(), strict=True))
    largest = float(np.abs(costs).max())
    residual = float(np.abs(matrix @ solution - costs).max())
    return Fit(
        fixed=float(solution[0]),
        per_gib=slopes.get("gib", 0.0),
        per_cpu=slopes.get("cpus", 0.0),
        worst=residual / largest if largest else 0.0,
    )


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of the logarithm of the cost on that of the size, by least squares.

    1 is a cost that grows as the size does, 0 one that does not grow.

    Raises:
        ValueError: a size or cost is not above zero, or all sizes are the same.
    """
    if min(*sizes, *costs) <= 0 or len(set(sizes)) < 2:
        raise ValueError("an exponent needs two sizes and costs above zero")
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
