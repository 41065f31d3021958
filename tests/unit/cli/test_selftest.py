"""``flatboot test``: which tests run, and what is kept of a long run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from fakes import git, write

from flatboot.cli import selftest, selftest_groups, selftest_plan
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import build, groups
from flatboot.kernel.build import KernelName

TESTS = """
import pytest

def test_quick():
    pass

@pytest.mark.long
def test_slow():
    pytest.skip("no time")
"""

KERNELS = """
[[kernel]]
flavour = "stock"
config = "users"
why = "the other side"
minutes = 5

[[kernel]]
flavour = "flatboot"
config = "users"
why = "the features"
minutes = 9

[[kernel]]
flavour = "flatboot"
config = "bench"
arch = "arm64"
why = "the other"
minutes = 8
"""


@pytest.fixture(autouse=True)
def tests(checkout: Path) -> Path:
    write(
        checkout,
        {
            "pytest.ini": "[pytest]\nmarkers = long: slow\n",
            "tests/unit/test_u.py": TESTS,
            "tests/boot/test_b.py": TESTS.replace("quick", "boot"),
        },
    )
    return checkout / "tests"


def test_unit_tests_come_first_and_long_ones_stay_out(capfd: pytest.CaptureFixture[str]) -> None:
    selftest.test(pytest_arguments=["-v", "-n1"])
    output = capfd.readouterr().out
    assert output.index("test_quick") < output.index("test_boot")
    assert "test_slow" not in output
    lines = output.strip().splitlines()
    assert lines[-1].startswith(
        "flatboot: 2 tests passed, 0 failed, 0 skipped; 0 boots made, 0 taken from the store;"
    )
    assert lines[:2] == [
        "flatboot: 1 unit test, about 1 minute",
        "flatboot: 1 boot test, about 1 minute",
    ]


def test_those_of_a_group(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Kernels are built as tests ask for them."""
    table = {
        "tests/boot/kernels.toml": KERNELS,
        "tests/boot/conftest.py": (
            "def pytest_addoption(parser):\n    parser.addoption('--group')\n"
            "def pytest_configure(config):\n    print('group', config.getoption('--group'))\n"
        ),
    }
    write(checkout, table)
    selftest.test(group="second", pytest_arguments=["-v", "-n0"])
    output = capfd.readouterr().out
    assert "group second" in output
    assert "test_boot" in output
    assert "test_quick" not in output
    assert "0 kernels built" in output
    assert not (checkout / "bench").exists()


def test_those_of_a_base(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another base than the default; what becomes of a group there has a row of its own."""
    table = {
        "tests/boot/conftest.py": (
            "def pytest_addoption(parser):\n"
            "    parser.addoption('--group')\n    parser.addoption('--base')\n"
            "def pytest_configure(config):\n    print('base', config.getoption('--base'))\n"
        ),
        "kernel/bases.toml": (checkout / "kernel/bases.toml").read_text()
        + '[bases."6.12"]\npackage = "p"\nsuite = "s"\nversion = "1"\nsha256 = ""\naccepts = "1"\n',
    }
    write(checkout, table)
    with pytest.raises(UsageError, match=r"first has no patches for 6\.12"):
        selftest.test(group="first", base="6.12")
    shutil.copytree(checkout / "kernel/first/hooks/7.3", checkout / "kernel/first/hooks/6.12")
    selftest.test(group="first", base="6.12")
    output = capfd.readouterr().out
    assert "base 6.12" in output
    assert "test_quick" not in output
    assert list(selftest_groups.outcomes(checkout)) == ["first, 6.12"]
    rows = selftest_groups.table(selftest_groups.outcomes(checkout))
    assert list(rows.columns[0].cells) == ["first", "second", "first, 6.12"]
    assert list(rows.columns[5].cells) == ["", "", "no"]


def test_what_became_of_a_group_is_kept_by_its_name(checkout: Path) -> None:
    """With the long tests that the run takes because the kernels are there."""
    alone = "\n@pytest.mark.long\n@pytest.mark.alone\ndef test_alone():\n    pass\n"
    write(
        checkout,
        {
            "pytest.ini": "[pytest]\nmarkers =\n    long: slow\n    alone: not with others\n",
            "tests/boot/test_b.py": TESTS + alone,
            "tests/boot/conftest.py": "def pytest_addoption(parser): parser.addoption('--group')",
        },
    )
    selftest.test(group="second")
    selftest.test(group="first", long=True)
    kept = selftest_groups.outcomes(checkout)
    assert not (checkout / "bench/long-test.json").exists()
    assert (kept["second"].passed, kept["second"].failed, kept["second"].skipped) == (2, 0, 0)
    assert (kept["first"].passed, kept["first"].failed, kept["first"].skipped) == (2, 0, 1)
    assert kept["first"].commit == groups.commit(checkout)


def test_a_group_that_changed_since_its_tests_is_told(checkout: Path) -> None:
    for name in ("first", "second"):
        selftest_groups.keep(checkout, "7.3", name, {"passed": 2, "failed": 0, "skipped": 0})

    def changed() -> list[str]:
        table = selftest_groups.table(selftest_groups.outcomes(checkout))
        return [str(cell) for cell in table.columns[5].cells]

    assert changed() == ["no", "no"]
    overlay = checkout / "kernel/second/overlay/mm/later.c"
    overlay.parent.mkdir(parents=True, exist_ok=True)
    overlay.write_text("later\n")
    assert changed() == ["no", "yes"]
    (checkout / "bench/group-tests.json").unlink()
    assert changed() == ["", ""]


@pytest.mark.parametrize("group", [None, "second"])
def test_nothing_is_kept_of_a_part_of_the_tests(checkout: Path, group: str | None) -> None:
    options = "def pytest_addoption(parser): parser.addoption('--group')"
    (checkout / "tests/boot/conftest.py").write_text(options)
    selftest.test(group=group, long=True, keyword="boot")
    selftest.test(group=group, long=True, arm64=False)
    assert not (checkout / "bench").exists()


def test_an_unknown_group() -> None:
    with pytest.raises(UsageError, match="unknown group 'third'"):
        selftest.test(group="third")


def test_a_group_has_no_unit_tests() -> None:
    with pytest.raises(UsageError, match="--unit"):
        selftest.test(group="second", unit=True)


def test_unit_tests_alone(capfd: pytest.CaptureFixture[str]) -> None:
    selftest.test(unit=True)
    output = capfd.readouterr().out
    assert "flatboot: 1 tests passed" in output
    assert "boot test" not in output


COUNTED = """
from flatboot.guest import stored
from flatboot.kernel import build

def test_one():
    stored.tally.made += 2

def test_two():
    stored.tally.taken += 3
    build.tally.built += 1
"""


def test_all_processes_are_added_up(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tests / "boot/test_b.py").write_text(COUNTED)
    selftest.test()
    last = capfd.readouterr().out.strip().splitlines()[-1]
    assert "; 2 boots made, 3 taken from the store; 1 kernel built;" in last


def test_what_tests_took_is_the_next_estimate(tests: Path) -> None:
    name = "tests/boot/test_b.py::test_boot"
    selftest_plan.remember({name: 1200.0})
    assert selftest_plan.minutes([name], 2) == 10
    assert selftest_plan.minutes([name, "tests/boot/test_c.py::test_new"], 1) == 20.1


def test_missing_kernels_are_built_first(
    tests: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tests / "boot/kernels.toml").write_text(KERNELS)
    built: list[KernelName] = []
    monkeypatch.setattr(build, "is_built", lambda name: name.flavour == "stock")
    monkeypatch.setattr(build, "has_objects", lambda name: False)
    monkeypatch.setattr(KernelName, "image", lambda name: built.append(name))
    selftest.test()
    assert built == [KernelName("flatboot", "users"), KernelName("flatboot", "bench", "arm64")]
    lines = capfd.readouterr().out.splitlines()
    assert lines[:3] == [
        "flatboot: 2 kernels to build, about 17 minutes:",
        "flatboot:   flatboot, users, x86_64: the features",
        "flatboot:   flatboot, bench, arm64: the other",
    ]
    assert "flatboot: kernel 2 of 2: flatboot, bench, arm64" in lines
    built.clear()
    selftest.test(arm64=False)
    assert built == [KernelName("flatboot", "users")]
    built.clear()
    selftest.test(unit=True)
    selftest.test(keyword="boot")
    assert built == []


def test_long_run_is_kept_with_its_commit(checkout: Path) -> None:
    selftest.test(long=True)
    kept = json.loads((checkout / "bench/long-test.json").read_text())
    assert (kept["passed"], kept["failed"], kept["skipped"]) == (2, 0, 2)
    assert kept["commit"] == git(checkout, "rev-parse", "HEAD").strip() + "-dirty"


def test_failure_is_passed_on(tests: Path, checkout: Path) -> None:
    (tests / "boot/test_b.py").write_text("def test_bad():\n    assert False\n")
    with pytest.raises(typer.Exit) as caught:
        selftest.test(long=True)
    assert caught.value.exit_code == 1
    assert json.loads((checkout / "bench/long-test.json").read_text())["failed"] == 1


def test_nothing_is_kept_of_a_run_that_was_interrupted(tests: Path, checkout: Path) -> None:
    (tests / "boot/test_b.py").write_text("def test_stopped():\n    raise KeyboardInterrupt\n")
    with pytest.raises(typer.Exit):
        selftest.test(long=True)
    assert not (checkout / "bench/long-test.json").exists()


def test_empty_folder_is_no_error(tests: Path) -> None:
    (tests / "boot/test_b.py").unlink()
    selftest.test()


def test_no_test_at_all_is_an_error() -> None:
    with pytest.raises(FlatbootError, match="no test was collected"):
        selftest.test(keyword="nothing_is_called_so")
