"""``flatboot test``: the project's own tests, unit tests first, then those that boot kernels."""

from __future__ import annotations

import datetime
import json
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Annotated

import typer

from flatboot.common import atomic, host, paths
from flatboot.common.errors import FlatbootError
from flatboot.common.git import git

_FOLDERS = ("unit", "boot")
_COUNTS = ("tests", "failures", "errors", "skipped")
#: Exit statuses of pytest: all tests ran to their end, or there were none.
_RAN, _NONE_COLLECTED = (0, 1), 5

#: Host memory that the guests of one process of tests may take.
_PROCESS_BYTES = 4 << 30


def test(
    long: Annotated[
        bool, typer.Option("--long", help="Also what takes longer; the result goes to bench/.")
    ] = False,
    keyword: Annotated[
        str | None, typer.Option("-k", help="Only tests whose names match the expression.")
    ] = None,
    pytest_arguments: Annotated[
        list[str] | None, typer.Argument(help="Further arguments for pytest, after --.")
    ] = None,
) -> None:
    """Run the tests, a file on each core: unit tests, then boot tests."""
    root = paths.repo()
    selection = [] if long else ["-m", "not long"]
    if keyword is not None:
        selection += ["-k", keyword]
    folders = [str(Path("tests") / name) for name in _FOLDERS if (root / "tests" / name).is_dir()]
    with tempfile.TemporaryDirectory(prefix="flatboot-test-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *_spread(), *selection]
        status = _run([*command, *(pytest_arguments or ()), *folders], root)
        if long and status in _RAN:
            _keep(report, root / "bench" / "long-test.json", root, selection)
    if status == _NONE_COLLECTED:
        raise FlatbootError("no test was collected in tests/: check -k and the arguments")
    if status != 0:
        raise typer.Exit(status)


def _spread() -> list[str]:
    """Have each core work at a file, as memory allows; the tests of one file share boots."""
    processes = max(1, min(host.cores(), host.available_memory() // _PROCESS_BYTES))
    return [f"--numprocesses={processes}", "--dist=loadfile", "--no-loadscope-reorder"]


def _run(command: list[str], root: Path) -> int:
    """Return the exit status of pytest, which hears of Ctrl-C by itself and cleans up after it."""
    with subprocess.Popen(command, cwd=root) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue
            except SystemExit:
                child.send_signal(signal.SIGINT)
                child.wait()
                raise


def _keep(report: Path, kept: Path, root: Path, selection: list[str]) -> None:
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {name: sum(int(suite.get(name, "0")) for suite in suites) for name in _COUNTS}
    seconds = sum(float(suite.get("time", "0")) for suite in suites)
    changed = bool(git(root, "status", "--porcelain").strip())
    result = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": git(root, "rev-parse", "HEAD").strip() + ("-dirty" if changed else ""),
        "selection": selection,
        "passed": counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"],
        "failed": counts["failures"] + counts["errors"],
        "skipped": counts["skipped"],
        "seconds": round(seconds),
    }
    with atomic.new_file(kept) as new:
        new.write_text(json.dumps(result, indent=2) + "\n")
