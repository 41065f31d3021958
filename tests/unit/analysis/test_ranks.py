"""Statistics by ranks, against scipy, against every split, and by simulation."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest
import scipy

from flatboot.analysis import ranks


def every_split(values: Sequence[float], runs: int) -> Iterator[tuple[list[float], list[float]]]:
    for chosen in itertools.combinations(range(len(values)), runs):
        rest = [values[index] for index in range(len(values)) if index not in chosen]
        yield [values[index] for index in chosen], rest


def test_the_p_value_is_the_share_of_the_splits_that_are_as_uneven() -> None:
    values = [1.0, 2.5, 3.0, 7.0, 8.0, 9.5, 11.0]
    before, after = values[:2] + values[3:4], [3.0, 8.0, 9.5, 11.0]

    def unevenness(first: list[float], second: list[float]) -> float:
        above = sum(b > a for a, b in itertools.product(first, second))
        return abs(above - len(first) * len(second) / 2)

    splits = [unevenness(*split) for split in every_split(values, 3)]
    expected = sum(one >= unevenness(before, after) for one in splits) / len(splits)
    assert ranks.p_value(before, after) == pytest.approx(expected)


def test_the_p_value_is_scipys() -> None:
    rng = random.Random(1)
    for runs in ((5, 9), (9, 5), (30, 30), (60, 70)):
        before, after = (
            [rng.gauss(shift, 1) for _ in range(count)]
            for shift, count in zip((0, 0.6), runs, strict=True)
        )
        few = max(runs) <= 50
        expected = scipy.stats.mannwhitneyu(
            before, after, method="exact" if few else "asymptotic"
        ).pvalue
        assert ranks.p_value(before, after) == pytest.approx(expected)


def test_ties_give_a_p_value_no_smaller_than_the_runs_allow() -> None:
    assert ranks.p_value([5, 5, 5], [5, 5, 5]) == 1
    assert ranks.p_value([1, 1, 1], [2, 2, 2]) == ranks.smallest_p(3, 3) == 0.1
    before, after = [1, 2, 2, 3], [2, 3, 3, 4]
    expected = scipy.stats.mannwhitneyu(before, after, method="asymptotic").pvalue
    assert ranks.p_value(before, after) == pytest.approx(expected)


def test_the_interval_holds_just_the_shifts_that_the_test_does_not_reject() -> None:
    rng = random.Random(2)
    before = [rng.gauss(100, 10) for _ in range(12)]
    after = [rng.gauss(120, 10) for _ in range(15)]
    low, high = ranks.interval(before, after, 0.01)
    for edge, inwards in ((low, 1e-6), (high, -1e-6)):
        inside = [run - edge - inwards for run in after]
        outside = [run - edge + inwards for run in after]
        assert ranks.p_value(before, inside) > 0.01 >= ranks.p_value(before, outside)


def test_the_interval_holds_the_true_shift_as_often_as_it_says() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(1000):
        before = [rng.lognormvariate(0, 1) for _ in range(12)]
        after = [rng.lognormvariate(0, 1) + 2 for _ in range(12)]
        low, high = ranks.interval(before, after, 0.05)
        held += low <= 2 <= high
    # Three standard deviations of a count of 950 in 1,000 are 21; the ranks' steps make it more.
    assert 950 - 21 <= held <= 985


def test_too_few_runs_show_nothing() -> None:
    assert ranks.interval([1, 2], [3, 4], 0.05) == (-math.inf, math.inf)
    assert ranks.smallest_shift([1, 2], [3, 4], 0.05) == math.inf
    assert ranks.runs_needed(0.05) == 4
    assert ranks.smallest_p(4, 4) <= 0.05 < ranks.smallest_p(3, 3)


@pytest.mark.parametrize("runs", [10, 20, 40])
def test_the_smallest_shift_is_found_as_often_as_it_says(runs: int) -> None:
    rng = random.Random(runs)
    alpha, found = 0.005, 0
    for _ in range(400):
        before, after = ([rng.lognormvariate(3, 0.4) for _ in range(runs)] for _ in "AB")
        shift = ranks.smallest_shift(before, after, alpha)
        found += ranks.p_value(before, [run + shift for run in after]) <= alpha
    # The shift is itself an estimate, so this is wider than the 6% of a count in 400.
    assert ranks.POWER - 0.12 < found / 400 < ranks.POWER + 0.15


def test_holm_corrects_step_by_step() -> None:
    assert ranks.holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert ranks.holm([0.6, 0.7]) == [1, 1]
    assert ranks.holm([]) == []
