"""Two sets of runs by their ranks: a test, an interval, what could have been found."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import NDArray

#: The share of changes of the size that ``smallest_shift`` returns which the runs would find.
POWER = 0.8
# With more runs than this the exact distribution takes seconds and the normal one is as good.
_EXACT_RUNS = 50


def smallest_p(before: int, after: int) -> float:
    """Return the smallest p-value that so many runs can have: all of one side above the other."""
    return 2 / math.comb(before + after, before)


def runs_needed(alpha: float) -> int:
    """Return the runs on each side from which on a test can reject at *alpha*."""
    return next(runs for runs in itertools.count(1) if smallest_p(runs, runs) <= alpha)


def p_value(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney test: that both are drawn from one source.

    It is exact up to 50 runs a side without ties, else by the normal approximation.
    """
    values = {*before, *after}
    if len(values) == 1:
        return 1.0
    if len(values) == len(before) + len(after):
        above = int((np.subtract.outer(after, before) > 0).sum())
        return _p_without_ties(len(before), len(after), above)
    tied = float(scipy.stats.mannwhitneyu(before, after, method="asymptotic").pvalue)
    return max(tied, smallest_p(len(before), len(after)))


def interval(before: Sequence[float], after: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the Hodges-Lehmann interval of the shift from *before* to *after*.

    It holds the shifts that the test does not reject at *alpha*: without ties exactly those.
    Infinite where the runs are too few to reject any.
    """
    pairs = np.sort(np.subtract.outer(after, before), axis=None)
    cut = _rejected(len(before), len(after), alpha)
    if not cut:
        return -math.inf, math.inf
    return float(pairs[cut - 1]), float(pairs[-cut])


def smallest_shift(before: Sequence[float], after: Sequence[float], alpha: float) -> float:
    """Return the smallest shift that so many runs, scattered like these, find at *alpha*.

    "Find" is with probability ``POWER``, by Noether's formula (J. Am. Stat. Assoc. 82, 1987,
    645): it says which share of all pairs must have the run of *after* above that of *before*.
    The shift is what it takes to bring that share of the pairs, less their sides' medians, above
    zero. Where the formula asks for more than all pairs, it is what brings all of them there.
    Infinite where the runs are too few to reject anything.
    """
    runs = len(before), len(after)
    if smallest_p(*runs) > alpha:
        return math.inf
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(POWER)
    share = 0.5 + quantiles * math.sqrt(sum(runs) / (12 * math.prod(runs)))
    pairs = np.subtract.outer(_centred(after), _centred(before))
    return max(float(np.quantile(pairs, min(share, 1))), 0.0)


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values *values* corrected for their number, as Holm does, in their order.

    The chance that any is at most alpha, where nothing differs, is at most alpha.
    """
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        highest = max(highest, min(1.0, values[index] * (len(values) - rank)))
        corrected[index] = highest
    return corrected


def _centred(values: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray(values, dtype=float) - np.median(values)


@functools.cache
def _rejected(before: int, after: int, alpha: float) -> int:
    """Return for how many counts of pairs, from none on, the test rejects at *alpha*."""
    counts = range(before * after // 2 + 1)
    return bisect.bisect_right(
        counts, alpha, key=lambda above: _p_without_ties(before, after, above)
    )


@functools.cache
def _p_without_ties(before: int, after: int, above: int) -> float:
    """Return the p-value where in *above* of all pairs the run of the second side is above."""
    whole, rest = divmod(above, before)
    first = [float(place) for place in range(before)]
    # One run lies among those of the first side, the others above or below all of them; a little
    # apart from each other, for the exact distribution takes no ties.
    second = [before + other / after for other in range(whole)]
    second += [rest - 0.5] if whole < after else []
    second += [-1.0 - other for other in range(after - len(second))]
    few = max(before, after) <= _EXACT_RUNS
    found = scipy.stats.mannwhitneyu(first, second, method="exact" if few else "asymptotic")
    return float(found.pvalue)
