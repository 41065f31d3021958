"""``flatboot test``: which tests run, and what is kept of a long run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from fakes import git, write

from flatboot.cli import selftest
from flatboot.common.errors import FlatbootError

TESTS = """
import pytest

def test_quick():
    pass

@pytest.mark.long
def test_slow():
    pytest.skip("no time")
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
    assert "2 passed in" in output.strip().splitlines()[-1]


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
