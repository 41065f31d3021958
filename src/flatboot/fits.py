"""What a cost is made of: a fixed part, a part for each GiB and a part for each CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
