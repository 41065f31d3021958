"""The kernel's search for the number of threads that does most, on machines told by numbers."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from typing import Any

import pytest

from flatboot.common import paths

ROUNDS = 60


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(paths.repo() / "bench" / "huge_page_pools"))
    return importlib.import_module("hugetlb_model")


def stays_with(model: Any, rates: Sequence[float], idle: bool = True) -> int:
    """Return the threads that the search stays with when it is over."""
    rounds: list[tuple[int, bool]] = model.search(rates, ROUNDS, idle)
    return next(n for n, stays in reversed(rounds) if stays)


@pytest.mark.parametrize("peak", [1, 2, 3, 5, 8, 13, 24, 40, 96, 128])
def test_it_finds_the_number_that_does_most(model: Any, peak: int) -> None:
    rates = [min(n, peak) - 0.5 * max(0, n - peak) / 128 * peak for n in range(1, 129)]
    assert rates[stays_with(model, rates) - 1] >= 0.85 * max(rates)


def test_it_takes_all_threads_if_all_help(model: Any) -> None:
    assert stays_with(model, [float(n) for n in range(1, 65)]) == 64


def test_it_takes_no_more_threads_than_help(model: Any) -> None:
    assert stays_with(model, [1.0] * 64) == model.BEGIN


def test_it_gives_up_threads_that_do_not_help_where_others_want_the_cpus(model: Any) -> None:
    assert stays_with(model, [1.0] * 64, idle=False) == 1


def test_it_knows_one_thread_when_there_is_one(model: Any) -> None:
    assert {n for n, _ in model.search([1.0], ROUNDS, idle=True)} == {1}


def test_it_tries_anew_after_a_while(model: Any) -> None:
    stays = [stays for _, stays in model.search([float(n) for n in range(1, 9)], ROUNDS, idle=True)]
    settled = stays.index(True)
    assert False in stays[settled:]


def test_noise_does_not_lead_it_far_astray(model: Any) -> None:
    for seed in range(20):
        luck = random.Random(seed)
        true = [min(n, 20) for n in range(1, 65)]
        rates = [rate * luck.uniform(0.95, 1.05) for rate in true]
        assert true[stays_with(model, rates) - 1] >= 0.75 * max(true)


@pytest.mark.parametrize("name", ["Skylake, 144 CPUs", "Cascade Lake, 192 CPUs"])
def test_the_model_is_near_all_published_times(model: Any, name: str) -> None:
    machine = model.fitted(name)
    for threads, seconds in model.PUBLISHED[name].items():
        assert machine.seconds(threads) == pytest.approx(seconds, rel=0.1)
