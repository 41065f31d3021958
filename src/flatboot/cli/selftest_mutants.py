"""``flatboot test --mutants``: which test catches each plausible mistake of tests/mutants/."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from flatboot.common import disk, host, progress, rows, screen, typed
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.git import git
from flatboot.kernel import bases, groups

_FOLDER = Path("tests") / "mutants"
_OUTCOME = Path("bench") / "mutants.json"
#: Host seconds after which a guest that a mutant hangs is given up.
_BOOT_S = 150
_NOBODY, _BROKEN, _UNTRIED = "nobody", "does not build", "not tried"


@dataclass(frozen=True)
class Mutant:
    """A mistake, made on purpose.

    Attributes:
        feature: the feature that it is in.
        mistake: what is wrong, and what follows.
        tests: what may catch it: FILE::TEST, or FILE for all tests of tests/boot/*/test_FILE.py.
        name: the name of its patch.
    """

    feature: str
    mistake: str
    tests: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Caught:
    """What became of a mutant: the test that caught it, and how long that took, in seconds."""

    caught_by: str
    seconds: float


def mutants(root: Path, keyword: str | None) -> list[Mutant]:
    """Return the mutants whose names hold *keyword*, in the order of their table.

    Raises:
        UsageError: there is none.
    """
    table = typed.load(root / _FOLDER / "mutants.toml", dict[str, Mutant])
    found = [
        dataclasses.replace(mutant, name=name)
        for name, mutant in table.items()
        if keyword is None or keyword in name
    ]
    if not found:
        raise UsageError(f"no mutant is called {keyword!r}: see {_FOLDER / 'mutants.toml'}")
    return found


@disk.full_is_an_error()
def run(root: Path, keyword: str | None) -> None:
    """Build each mutant, run its tests until one fails, and print which did.

    A test that fails on the kernel without the mutant as well has caught nothing. The outcomes go
    to bench/mutants.json as they come in.

    Raises:
        UsageError: no mutant has such a name.
        FlatbootError: a mutant does not apply, or nobody caught it.
    """
    wanted = mutants(root, keyword)
    with progress.step("mutants", total=len(wanted)) as step:
        for number, mutant in enumerate(wanted):
            step.update(number, mutant.name)
            outcome = _outcome(root, mutant)
            progress.console.print(
                f"{mutant.name}: {outcome.caught_by}", markup=False, highlight=False
            )
            # Read anew: another run may try other mutants.
            kept = {**outcomes(root), mutant.name: outcome}
            rows.write(root / _OUTCOME, kept)
    kept = outcomes(root)
    screen.console().print(table(wanted, kept))
    missed = [mutant.name for mutant in wanted if kept[mutant.name].caught_by == _NOBODY]
    if missed:
        raise FlatbootError(f"nobody catches {', '.join(missed)}: write a test")


def table(wanted: list[Mutant], tried: dict[str, Caught]) -> Table:
    """Return the mutants and who caught them, a row each."""
    made = Table(title="Mutants", title_justify="left")
    for heading in ("mutant", "feature", "caught by"):
        made.add_column(heading, overflow="fold")
    for mutant in wanted:
        outcome = tried.get(mutant.name)
        caught = _short(outcome.caught_by) if outcome else _UNTRIED
        # Parameters of a test stand in brackets, which would be markup.
        made.add_row(mutant.name, mutant.feature, Text(caught))
    return made


def _short(test: str) -> str:
    """Return the name of a test as mutants.toml has it, or a word as it is."""
    return re.sub(r"^.*/test_(\w+)\.py", r"\1", test)


def outcomes(root: Path) -> dict[str, Caught]:
    """Return what became of the mutants that were tried."""
    return rows.read(root / _OUTCOME, dict[str, Caught])


def _outcome(root: Path, mutant: Mutant) -> Caught:
    with tempfile.TemporaryDirectory(prefix="flatboot-mutant-") as folder:
        copy = Path(folder) / "checkout"
        _copy(root, copy)
        _apply(root / _FOLDER / f"{mutant.name}.patch", copy)
        taken = 0.0
        for name in mutant.tests:
            failed, seconds = _failed(copy, _named(copy, name))
            taken += seconds
            if failed == _BROKEN:
                return Caught(_BROKEN, round(taken))
            if failed and not _failed(root, [failed])[0]:
                return Caught(failed, round(taken))
    return Caught(_NOBODY, round(taken))


def _named(root: Path, name: str) -> list[str]:
    """Return what pytest calls the tests that a mutant names."""
    file, mark, test = name.partition("::")
    found = list((root / "tests" / "boot").rglob(f"test_{file}.py"))
    function = test.partition("[")[0]
    if not found or not all(f"def {function}" in path.read_text() for path in found):
        raise FlatbootError(f"there is no {name} in tests/boot: mend mutants.toml")
    return [f"{path.relative_to(root)}{mark}{test}" for path in found]


def _copy(root: Path, copy: Path) -> None:
    """Copy what git tracks, or would track, from *root*."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)


def _apply(patch: Path, checkout: Path) -> None:
    """Make the mistake by a hook that comes last."""
    hooks = checkout / "kernel" / groups.names()[-1] / "hooks" / bases.default()
    shutil.copy2(patch, hooks)
    series = hooks / "series"
    series.write_text(f"{series.read_text().rstrip()}\n{patch.name}\n")


def _failed(checkout: Path, tests: list[str]) -> tuple[str, float]:
    """Return the first of *tests* that fails in *checkout*, or "", and the seconds it took."""
    with tempfile.TemporaryDirectory(prefix="flatboot-mutant-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}"]
        command += [f"--numprocesses={host.cores()}", "--dist=worksteal", "-m", "not long"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout / "src"),
            "FLATBOOT_BOOT_TIMEOUT_S": str(_BOOT_S),
        }
        ran = subprocess.run(
            [*command, "-k", "not arm64", *tests],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
        )
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
        seconds = float(suite.get("time", "0"))
        if ran.returncode == 0:
            return "", seconds
        for case in suite.iter("testcase"):
            if (problem := case.find("failure")) is not None or (
                problem := case.find("error")
            ) is not None:
                if "CommandFailed" in (problem.text or "") and "building" in (problem.text or ""):
                    return _BROKEN, seconds
                path = f"{str(case.get('classname')).replace('.', '/')}.py"
                return f"{path}::{case.get('name')}", seconds
    raise FlatbootError(f"the tests of a mutant did not run:\n{ran.stdout[-2000:]}{ran.stderr}")
