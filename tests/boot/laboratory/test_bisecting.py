"""Bisection for real: a kernel that loses the deferral of its memory map above a size."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import history
import pytest

from flatboot.common import paths
from flatboot.common.git import git

BASE = "7.3"
CULPRIT = "mm: memmap_init: set up large zones in pieces"
BROKEN = "mm: vmstat: say thousandths by name"
LADDER = "2G,16G,32G"
#: Of each 8 GiB piece but the last, 2,097,152 struct pages of some 40 instructions.
PER_GIB_M = (8, 14)


@pytest.fixture(scope="module")
def linux() -> Iterator[Path]:
    """A kernel tree with both histories."""
    with tempfile.TemporaryDirectory(prefix="flatboot-history-") as folder:
        tree = Path(folder) / "linux"
        history.make(tree, BASE, "series", "series-neighbours")
        yield tree


@pytest.fixture(scope="module")
def environment(linux: Path) -> dict[str, str]:
    """A cache of their own, so that the user's does not grow; the compiler's cache is shared."""
    ccache = os.environ.get("CCACHE_DIR", str(paths.cache().parent / "ccache"))
    return {**os.environ, "XDG_CACHE_HOME": str(linux.parent / "cache"), "CCACHE_DIR": ccache}


def bisection(linux: Path, environment: dict[str, str], bad: str) -> subprocess.Popen[str]:
    script = "from flatboot.cli.cli import main; main()"
    state = linux.parent / f"state-{bad}"
    return subprocess.Popen(
        [
            *(sys.executable, "-c", script, "bisect", "good", bad),
            *("--tree", linux, "--memory", LADDER, "--state", state),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def measured(linux: Path, bad: str) -> set[str]:
    """Return the commits that were booted."""
    records = (linux.parent / f"state-{bad}" / "records").iterdir()
    return {path.name.partition("-")[0] for path in records}


def working_in(folder: Path) -> list[str]:
    """Return the command lines of processes that work in *folder* or name it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in f"{line} {(process / 'cwd').readlink()}":
                found.append(line)
        except OSError:
            continue
    return found


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_culprit_is_found_after_an_interruption(
    linux: Path, environment: dict[str, str]
) -> None:
    before = git(linux, "show-ref", "--head")
    first = bisection(linux, environment, "series")
    assert first.stdout is not None
    # In the second step: a verdict has been given, and the next kernel is being built.
    said = []
    for line in first.stdout:
        said.append(line)
        if line.startswith("building") and any(" instructions, " in text for text in said):
            break
    first.send_signal(signal.SIGINT)
    said += list(first.stdout)
    assert first.wait() == 130, "".join(said)
    assert working_in(linux.parent) == []
    output, _ = bisection(linux, environment, "series").communicate()
    print(output)
    assert "The two ends" in output
    assert f"{BROKEN}: does not build (../mm/vmstat.c:" in "".join([*said, output])
    found = output.partition("The first bad commit:")[2].splitlines()
    assert found[2].strip() == CULPRIT
    assert "In the log of 32 GiB" in output
    assert "zone Normal" in output
    cost = re.search(r"It costs ([\d.]+) M instructions .* for each GiB, from 16 GiB on", output)
    assert cost is not None, output
    assert PER_GIB_M[0] < float(cost[1]) < PER_GIB_M[1]
    # Beside the ends; and one of them did not build.
    assert len(measured(linux, "series")) - 2 + 1 <= 6
    assert git(linux, "show-ref", "--head") == before
    assert git(linux, "status", "--porcelain") == ""
    assert not (linux / ".git/worktrees").exists()


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_beside_one_that_does_not_build_both_are_named(
    linux: Path, environment: dict[str, str]
) -> None:
    output, _ = bisection(linux, environment, "series-neighbours").communicate()
    print(output)
    found = output.partition("The first bad commit is one of these")[2]
    named = [line.strip() for line in found.splitlines() if line.startswith("    ")]
    assert {CULPRIT, BROKEN} == {line for line in named if line.startswith("mm: ")}
    assert len(measured(linux, "series-neighbours")) - 2 + 1 <= 6
