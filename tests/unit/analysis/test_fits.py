"""What costs are made of."""

from __future__ import annotations

import pytest

from flatboot.analysis import fits
from flatboot.analysis.fits import Fit, Point


def points(*machines: tuple[float, int]) -> list[Point]:
    return [Point(gib, cpus, 300.0 + 7.0 * gib + 11.0 * cpus) for gib, cpus in machines]


def test_a_plane_is_found_exactly() -> None:
    fit = fits.linear(points((2, 1), (16, 1), (64, 4), (1024, 16)))
    found = [fit.fixed, fit.per_gib, fit.per_cpu, fit.worst]
    assert found == pytest.approx([300, 7, 11, 0])


def test_a_term_without_variation_is_zero_and_goes_into_the_fixed_part() -> None:
    one_cpu = fits.linear(points((2, 1), (16, 1), (64, 1)))
    assert [one_cpu.fixed, one_cpu.per_gib] == pytest.approx([311, 7])
    assert one_cpu.per_cpu == 0
    one_size = fits.linear(points((2, 1), (2, 4), (2, 16)))
    assert one_size.per_cpu == pytest.approx(11)
    assert one_size.per_gib == 0
    alone = fits.linear(points((2, 1)))
    assert alone.fixed == pytest.approx(325)
    assert [alone.per_gib, alone.per_cpu] == [0, 0]
    assert fits.linear([]) == Fit(0, 0, 0, 0)


def test_memory_has_both_where_cpus_grow_only_along_with_it() -> None:
    fit = fits.linear(points((2, 1), (4, 2), (8, 4)))
    assert fit.per_gib == pytest.approx(7 + 11 / 2)
    assert fit.per_cpu == 0


def test_the_worst_residual_is_a_share_of_the_largest_cost() -> None:
    fit = fits.linear([Point(1, 1, 100), Point(2, 1, 160), Point(3, 1, 200)])
    assert fit.per_gib == pytest.approx(50)
    assert fit.worst == pytest.approx(20 / 3 / 200)


def test_costs_below_zero_are_fitted_too() -> None:
    fit = fits.linear([Point(1, 1, -5), Point(3, 1, -15)])
    assert fit.per_gib == pytest.approx(-5)
    assert fit.worst == pytest.approx(0)


@pytest.mark.parametrize("power", [0, 1, 1.5])
def test_the_exponent_is_the_power(power: float) -> None:
    sizes = [2, 16, 1024]
    assert fits.exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize(("sizes", "costs"), [([2, 2], [1, 2]), ([1, 2], [0, 1]), ([2], [1])])
def test_no_exponent_without_two_sizes_and_costs(sizes: list[float], costs: list[float]) -> None:
    with pytest.raises(ValueError, match="two sizes"):
        fits.exponent(sizes, costs)


@pytest.mark.parametrize(
    "powers", [(300.0, 11.0), (300.0, 11.0, 0.5), (0.0, 0.0, 2.0), (5.0, 1.0, 0.1, 0.2)]
)
def test_a_polynomial_is_found_exactly(powers: tuple[float, ...]) -> None:
    sizes = [3, 15, 63, 127]
    true = fits.Polynomial(powers)
    found = fits.polynomial(sizes, [true(size) for size in sizes])
    assert len(found.coefficients) == len(powers)
    assert found(1779) == pytest.approx(true(1779))


def test_a_higher_power_has_to_explain_more_than_noise() -> None:
    sizes, costs = [3, 15, 63, 127], [1400.0, 1400.0, 1400.0, 4000.0]
    assert len(fits.polynomial(sizes, costs, noise=3000).coefficients) == 2
    assert len(fits.polynomial(sizes, costs).coefficients) > 2


def test_what_begins_at_a_size_is_a_line_from_there_on() -> None:
    """A buffer, say, that is large enough for 16 CPUs: replacing it costs, and so does its size."""
    sizes, costs = [3, 15, 63, 127], [4000.0, 4000.0, 250_000.0, 380_000.0]
    steps = fits.polynomial(sizes, costs)
    assert (steps.beyond, len(steps.coefficients)) == (15, 2)
    assert [steps(size) for size in sizes] == pytest.approx(costs)
    assert steps(0) == 4000
    assert steps(1779) == pytest.approx(380_000 + 130_000 / 64 * (1779 - 127))


@pytest.mark.parametrize(
    "costs",
    [
        pytest.param(
            [4000, 4000, 4000, 650_000], id="one size beyond says nothing of what follows"
        ),
        pytest.param([4000, 4300, 250_000, 380_000], id="the first two differ"),
        pytest.param([20_090, 22_250, 59_690, 181_290], id="a square"),
    ],
)
def test_else_it_is_a_power(costs: list[float]) -> None:
    assert fits.polynomial([3, 15, 63, 127], costs).beyond == 0


def test_no_power_is_negative_and_none_is_left_to_chance() -> None:
    falls = fits.polynomial([1, 2, 3], [30, 20, 10])
    assert falls.coefficients[1:] == (0.0,)
    assert len(fits.polynomial([1, 2], [1, 4]).coefficients) == 2
    with pytest.raises(ValueError, match="two points"):
        fits.polynomial([1], [1])
    with pytest.raises(ValueError, match="two points"):
        fits.polynomial([1, 2], [1, -1])
