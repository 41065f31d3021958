"""Random machines with random parameters under random load: nothing is lost, nothing goes wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from flatboot import fuzz_cli, fuzz_judge
from flatboot.fuzz import PASSED, Bench
from flatboot.fuzz_draw import Case
from flatboot.machine import machine

OUTPUT = Path("out/fuzz")
#: Seeds of the short tests and of the long one, and how many follow.
DEBUG, USERS, LONG = (1522, 3), (1526, 7), (1000, 200)
#: A case without anything random, whose memory can be known.
PLAIN = Case(0, machine(memory="512M"), "Intel, below 4 GiB", (), (), "lazy", ("churn 0 4k:1:5",))


@pytest.mark.parametrize(("config", "seeds"), [("debug", DEBUG), ("users", USERS)])
def test_random_boots(config: str, seeds: tuple[int, int]) -> None:
    first, count = seeds
    fuzz_cli.fuzz(boots=count, seed=first, one=None, config=config, output=OUTPUT)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_two_hundred_random_boots() -> None:
    first, count = LONG
    fuzz_cli.fuzz(boots=count, seed=first, one=None, config="debug", output=OUTPUT)


def test_a_guest_with_less_memory_than_it_should_have_is_found(kernels: Any) -> None:
    bench = Bench(kernels, "users")
    whole = bench.run(PLAIN)
    assert whole.verdict == PASSED, whole.problems
    less = bench.run(dataclasses.replace(PLAIN, parameters=("memmap=1M$300M",)))
    assert less.verdict == PASSED, less.problems
    problems = fuzz_judge.judge(PLAIN, less.records["flatboot"], whole.records["reference"])
    assert any("MemTotal" in problem for problem in problems)
