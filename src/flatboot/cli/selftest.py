"""``flatboot test``: the kernels, then the project's own tests, and what they came to."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Annotated

import typer

from flatboot.cli import selftest_groups, selftest_mutants, selftest_plan
from flatboot.common import atomic, host, paths, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.git import git
from flatboot.guest import stored
from flatboot.kernel import bases, groups

_FOLDERS = ("unit", "boot")
#: Exit statuses of pytest at which all tests ran to their end.
_RAN = (0, 1)
#: The kernels that the default tests boot, and what each is there for.
_KERNELS = Path("tests") / "boot" / "kernels.toml"
_PLUGIN = "flatboot.cli.selftest_tally"

#: Host memory that the guests of one process of tests may take.
_PROCESS_BYTES = 4 << 30


def test(
    unit: Annotated[bool, typer.Option("--unit", help="No kernel, no boot: two minutes.")] = False,
    arm64: Annotated[bool, typer.Option(help="Also the arm64 kernel and its boots.")] = True,
    long: Annotated[
        bool, typer.Option("--long", help="Also what takes longer; the result goes to bench/.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Boot also what the store of records has.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Only boot tests of this group, on kernels with it and its needs."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Only boot tests of the groups that this base has.", show_default="7.3"),
    ] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="See which test catches each of tests/mutants/.")
    ] = False,
    keyword: Annotated[
        str | None, typer.Option("-k", help="Only tests (or mutants) whose names match.")
    ] = None,
    pytest_arguments: Annotated[
        list[str] | None, typer.Argument(help="Further arguments for pytest, after --.")
    ] = None,
) -> None:
    """Build the kernels, then run the tests: unit tests first, then those that boot."""
    root = paths.repo()
    if mutants:
        selftest_mutants.run(root, keyword)
        return
    began = time.monotonic()
    # That a group builds and boots alone is long, unless its kernels are built anyway.
    short = "not long or alone" if group else "not long"
    marks = [] if long else ["-m", short]
    words = [f"({keyword})"] if keyword else []
    words += [] if arm64 else ["not arm64"]
    selection = [*marks, *(["-k", " and ".join(words)] if words else [])]
    some = group is not None or base is not None
    if some and unit:
        raise UsageError("--group and --base are for boot tests, which --unit leaves out")
    if some:
        groups.chosen(base or bases.default(), [group] if group else [])
    selection += [f"--group={group}"] if group else []
    selection += [f"--base={base}"] if base else []
    wanted = _FOLDERS[:1] if unit else _FOLDERS[1:] if some else _FOLDERS
    folders = [str(Path("tests") / name) for name in wanted if (root / "tests" / name).is_dir()]
    tests = selftest_plan.collect(root, selection, folders)
    if not tests:
        raise FlatbootError("no test was collected in tests/: check -k and the arguments")
    # A few tests build what they need.
    all_boots = not unit and keyword is None and not some
    kernels = selftest_plan.kernels(root / _KERNELS) if all_boots else []
    kernels = [kernel for kernel in kernels if arm64 or kernel.name.arch != "arm64"]
    processes = max(1, min(host.cores(), host.available_memory() // _PROCESS_BYTES))
    for line in selftest_plan.lines(tests, kernels, processes):
        _say(line)
    missing = [kernel for kernel in kernels if kernel.missing]
    for number, kernel in enumerate(missing, 1):
        _say(f"kernel {number} of {len(missing)}: {kernel.title}")
        kernel.name.image()
    with tempfile.TemporaryDirectory(prefix="flatboot-test-") as scratch:
        report, tally = Path(scratch) / "report.xml", Path(scratch) / "tally.json"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", "-p", _PLUGIN]
        command += [f"--tally={tally}", f"--numprocesses={processes}", "--dist=worksteal"]
        command += ["-o", "console_output_style=count", *selection]
        status = _run([*command, *(pytest_arguments or ()), *folders], root, fresh)
        done = json.loads(tally.read_text()) if tally.is_file() else {"seconds": {}}
        selftest_plan.remember(done["seconds"])
        if status in _RAN:
            counts = _counts(report)
            if keyword is None and arm64 and not pytest_arguments:
                if group:
                    selftest_groups.keep(root, base or bases.default(), group, counts)
                elif long and not base:
                    _keep(counts, root / "bench" / "long-test.json", root)
            _say(_sum(counts, done, len(missing), time.monotonic() - began))
    if status != 0:
        raise typer.Exit(status)


def _say(line: str) -> None:
    print(f"flatboot: {line}", flush=True)


def _sum(counts: dict[str, float], done: dict[str, int], built: int, seconds: float) -> str:
    """Return what a run came to, as one line."""
    tests = f"{counts['passed']:,.0f} tests passed, {counts['failed']:.0f} failed"
    tests += f", {counts['skipped']:.0f} skipped"
    boots = f"{units.many(done['made'], 'boot')} made, {done['taken']} taken from the store"
    kernels = f"{units.many(built + done['built'], 'kernel')} built"
    return f"{tests}; {boots}; {kernels}; {seconds / 60:.1f} minutes"


def _run(command: list[str], root: Path, fresh: bool) -> int:
    """Return the exit status of pytest, which hears of Ctrl-C by itself and cleans up after it."""
    environment = {**os.environ, **({stored.FRESH: "1"} if fresh else {})}
    with subprocess.Popen(command, cwd=root, env=environment) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue
            except SystemExit:
                child.send_signal(signal.SIGINT)
                child.wait()
                raise


def _counts(report: Path) -> dict[str, float]:
    """Return how many tests of a JUnit report passed, failed and were skipped, and their time."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    names = ("tests", "failures", "errors", "skipped")
    of = {name: sum(int(suite.get(name, "0")) for suite in suites) for name in names}
    failed = of["failures"] + of["errors"]
    return {
        "passed": of["tests"] - failed - of["skipped"],
        "failed": failed,
        "skipped": of["skipped"],
        "seconds": round(sum(float(suite.get("time", "0")) for suite in suites)),
    }


def _keep(counts: dict[str, float], kept: Path, root: Path) -> None:
    changed = bool(git(root, "status", "--porcelain").strip())
    result = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": git(root, "rev-parse", "HEAD").strip() + ("-dirty" if changed else ""),
        **counts,
    }
    with atomic.new_file(kept) as new:
        new.write_text(json.dumps(result, indent=2) + "\n")
