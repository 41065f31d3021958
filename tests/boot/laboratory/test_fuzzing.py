"""Random machines with random parameters under random load: nothing is lost, nothing goes wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from flatboot.campaign import fuzz_judge
from flatboot.campaign.fuzz import PASSED, Fuzzer
from flatboot.campaign.fuzz_draw import RandomBoot
from flatboot.cli import fuzz_cli
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName

OUTPUT = Path("out/fuzz")
#: First seeds of the short and of the long tests, and how many they try. Boots of the debug kernel
#: meet the poisoned memory map; the others, which take less time, are compared with stock.
SHORT = {"debug": (1522, 2), "users": (1526, 4)}
LONG = {"debug": (1000, 50), "users": (2000, 150)}
#: A case without anything random, whose memory can be known.
PLAIN = RandomBoot(
    0, machine(memory="512M"), "Intel, below 4 GiB", (), (), "lazy", ("churn 0 4k:1:5",)
)


@pytest.mark.parametrize("config", SHORT)
def test_random_boots(config: str) -> None:
    first, count = SHORT[config]
    fuzz_cli.fuzz(boots=count, seed=first, one=None, config=config, output=OUTPUT)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("config", LONG)
def test_two_hundred_random_boots(config: str) -> None:
    first, count = LONG[config]
    fuzz_cli.fuzz(boots=count, seed=first, one=None, config=config, output=OUTPUT)


def test_a_guest_with_less_memory_than_it_should_have_is_found() -> None:
    fuzzer = Fuzzer(KernelName, "users")
    whole = fuzzer.run(PLAIN)
    assert whole.verdict == PASSED, whole.problems
    less = fuzzer.run(dataclasses.replace(PLAIN, parameters=("memmap=1M$300M",)))
    assert less.verdict == PASSED, less.problems
    problems = fuzz_judge.judge(PLAIN, less.records["flatboot"], whole.records["reference"])
    assert any("MemTotal" in problem for problem in problems)
