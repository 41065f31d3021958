"""flatboot fuzz: verdicts, what is kept of failures, and what the command says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boots import record

from flatboot.campaign import fuzz, fuzz_judge
from flatboot.campaign.fuzz_draw import RandomBoot, draw
from flatboot.cli import fuzz_cli
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import stored
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import BootSpec
from flatboot.kernel import build
from flatboot.record.record import Record

GOOD = record("flatboot", "1G", 1000)
PANIC = GuestFailed("panic", "the guest panicked: out of cheese", "Kernel panic - not syncing")
#: What stands for a kernel here: its flavour and config.
Kernel = tuple[str, str]
Answer = Callable[[Kernel, str], Record]


class Boots:
    """Stands for the boots: answers each one, and notes what was booted."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.done: list[tuple[Kernel, str]] = []

    def __call__(self, spec: BootSpec) -> Record:
        image: Kernel = spec.kernel  # type: ignore[assignment]
        mode = next((w for w in spec.cmdline.split() if w.startswith("deferred_init")), "")
        self.done.append((image, mode))
        return self.answer(image, mode)


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], Boots]:
    """Puts made-up boots in place of real ones; the judge finds nothing, whatever the record."""

    def use(answer: Answer) -> Boots:
        made = Boots(answer)
        monkeypatch.setattr(stored, "boot", made)
        monkeypatch.setattr(build, "kernel", lambda base, flavour, config, arch: (flavour, config))
        monkeypatch.setattr(
            fuzz_judge, "judge", lambda case, ours, reference, witness: [witness] if witness else []
        )
        return made

    return use


def fuzzer(config: str) -> fuzz.Fuzzer:
    return fuzz.Fuzzer(lambda flavour, name: (flavour, name), config)  # type: ignore[arg-type, return-value]


def run(tmp_path: Path, **options: Any) -> None:
    defaults = {
        "boots": 3,
        "seed": 1,
        "one": None,
        "config": "users",
        "base": "",
        "output": tmp_path / "out",
    }
    fuzz_cli.fuzz(**{**defaults, **options})


def case(mode: str = "lazy") -> RandomBoot:
    return dataclasses.replace(draw(1), mode=mode)


def test_users_are_compared_with_stock(boots: Callable[[Answer], Boots]) -> None:
    made = boots(lambda image, mode: GOOD)
    assert fuzzer("users").run(case()).verdict == fuzz.PASSED
    assert made.done == [
        (("stock", "users"), ""),
        (("flatboot", "users"), "deferred_init=lazy"),
    ]


def test_debug_is_compared_with_itself_waiting(boots: Callable[[Answer], Boots]) -> None:
    made = boots(lambda image, mode: GOOD)
    assert fuzzer("debug").run(case("background")).verdict == fuzz.PASSED
    assert made.done == [
        (("flatboot", "debug"), "deferred_init=wait"),
        (("flatboot", "debug"), "deferred_init=background"),
    ]


def test_a_panic_of_ours_fails(boots: Callable[[Answer], Boots], tmp_path: Path) -> None:
    def answer(image: Kernel, mode: str) -> Record:
        if mode == "deferred_init=lazy":
            raise PANIC
        return GOOD

    boots(answer)
    outcome = fuzzer("debug").run(case())
    assert outcome.verdict == fuzz.FAILED
    assert "out of cheese" in outcome.problems[0]
    outcome.save(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "1-flatboot.console",
        "1-reference.console",
        "1-reference.json",
    ]


def test_waiting_that_fails_where_stock_boots_is_a_failure(
    boots: Callable[[Answer], Boots],
) -> None:
    def answer(image: Kernel, mode: str) -> Record:
        if image[0] == "flatboot":
            raise PANIC
        return GOOD

    made = boots(answer)
    outcome = fuzzer("debug").run(case())
    assert outcome.verdict == fuzz.FAILED
    assert made.done[-1] == (("stock", "users"), "")


@pytest.mark.parametrize("config", ["debug", "users"])
def test_what_stock_refuses_is_not_passed(boots: Callable[[Answer], Boots], config: str) -> None:
    def answer(image: Kernel, mode: str) -> Record:
        raise PANIC

    boots(answer)
    assert fuzzer(config).run(case()).verdict == fuzz.REFUSED


def test_a_report_of_the_waiting_kernel_fails(boots: Callable[[Answer], Boots]) -> None:
    bad = dataclasses.replace(GOOD, console="BUG: KASAN: use-after-free in foo")
    boots(lambda image, mode: bad if mode == "deferred_init=wait" else GOOD)
    assert "KASAN" in fuzzer("debug").run(case()).problems[0]


def test_stock_is_a_witness_when_ours_complains(boots: Callable[[Answer], Boots]) -> None:
    """What it says is for the judge: here any word of a witness is a problem."""
    bad, said = (
        dataclasses.replace(GOOD, console=text) for text in ("BUG: KASAN: use-after-free", "fine")
    )

    def answer(image: Kernel, mode: str) -> Record:
        return said if image[0] == "stock" else bad if mode == "deferred_init=lazy" else GOOD

    made = boots(answer)
    assert fuzzer("debug").run(case()).problems == ["fine"]
    assert made.done[-1] == (("stock", "debug"), "")


def test_a_machine_that_cannot_be_booted_at_all_is_an_error(
    boots: Callable[[Answer], Boots],
) -> None:
    def answer(image: Kernel, mode: str) -> Record:
        raise FlatbootError("QEMU is not there")

    boots(answer)
    with pytest.raises(FlatbootError, match="QEMU is not there"):
        fuzzer("users").run(case())


def test_the_command_prints_each_case(
    boots: Callable[[Answer], Boots], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boots(lambda image, mode: GOOD)
    run(tmp_path)
    printed = capsys.readouterr().out
    assert "3 passed" in printed
    assert not (tmp_path / "out").exists()


def test_the_command_names_what_reproduces_a_failure(
    boots: Callable[[Answer], Boots], tmp_path: Path
) -> None:
    def answer(image: Kernel, mode: str) -> Record:
        if image[0] == "flatboot":
            raise PANIC
        return GOOD

    boots(answer)
    with pytest.raises(FlatbootError, match=r"3 of 3 boots failed.*fuzz --config users --one 7$"):
        run(tmp_path, seed=7)
    assert (tmp_path / "out" / "7-flatboot.console").read_text() == PANIC.console


def test_one_seed_is_one_boot(boots: Callable[[Answer], Boots], tmp_path: Path) -> None:
    made = boots(lambda image, mode: GOOD)
    run(tmp_path, one=42)
    assert len(made.done) == 2


def test_few_may_be_refused_and_not_many(boots: Callable[[Answer], Boots], tmp_path: Path) -> None:
    left = 1

    def answer(image: Kernel, mode: str) -> Record:
        nonlocal left
        left -= 1
        if left == 0:
            raise PANIC
        return GOOD

    boots(answer)
    run(tmp_path, boots=10)

    def never(image: Kernel, mode: str) -> Record:
        raise PANIC

    boots(never)
    with pytest.raises(FlatbootError, match="stock refuses 3 of 3 boots"):
        run(tmp_path)


def test_a_wrong_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown config 'bench'"):
        run(tmp_path, config="bench")
    with pytest.raises(UsageError, match="at least one"):
        run(tmp_path, boots=0)
