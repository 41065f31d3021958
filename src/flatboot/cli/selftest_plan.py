"""What a run of the tests will build and boot, and how long that should take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic, paths, typed, units
from flatboot.common.errors import FlatbootError
from flatboot.kernel import build
from flatboot.kernel.build import KernelName

#: Seconds that a test takes of which no earlier run tells, by folder.
_SECONDS = {"unit": 0.3, "boot": 6.0}
#: Minutes for a kernel whose objects are there: some are compiled anew, and it is linked.
_REBUILD_MINUTES = 1.5
#: Exit status of pytest: there were no tests.
_NONE_COLLECTED = 5


@dataclass(frozen=True)
class WantedKernel:
    """A kernel that the default tests boot.

    Attributes:
        name: the kernel.
        why: what it is there for.
        minutes: what it takes on two cores with nothing compiled.
        missing: whether it has to be built.
    """

    name: KernelName
    why: str
    minutes: float
    missing: bool

    @property
    def title(self) -> str:
        """The kernel in a few words."""
        return f"{self.name.flavour}, {self.name.config}, {self.name.arch}"

    @property
    def left_minutes(self) -> float:
        """Minutes that are left to build it."""
        if not self.missing:
            return 0.0
        return min(self.minutes, _REBUILD_MINUTES) if build.has_objects(self.name) else self.minutes


@dataclass(frozen=True)
class _Line:
    flavour: str
    config: str
    why: str
    minutes: float
    arch: str = "x86_64"


@dataclass(frozen=True)
class _Table:
    kernel: tuple[_Line, ...]


def kernels(table: Path) -> list[WantedKernel]:
    """Return the kernels of the file *table*, in its order; none if there is no such file."""
    if not table.is_file():
        return []
    wanted = []
    for line in typed.load(table, _Table).kernel:
        name = KernelName(line.flavour, line.config, line.arch)
        wanted.append(WantedKernel(name, line.why, line.minutes, not build.is_built(name)))
    return wanted


def collect(root: Path, selection: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Return the names of the tests that *selection*, arguments of pytest, leaves.

    Raises:
        FlatbootError: they cannot be collected.
    """
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *selection, *folders]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if ran.returncode not in (0, _NONE_COLLECTED):
        raise FlatbootError(f"the tests cannot be collected:\n{ran.stdout}{ran.stderr}")
    return [line for line in ran.stdout.splitlines() if "::" in line]


def minutes(tests: Sequence[str], processes: int) -> float:
    """Return how long *tests* should take, by what they took last here."""
    known = _times()
    alone = sum(known.get(test, _SECONDS.get(Path(test).parts[1], 1.0)) for test in tests)
    return alone / processes / 60


def remember(seconds: dict[str, float]) -> None:
    """Keep what tests took, for the next estimate."""
    with atomic.new_file(_file()) as new:
        rounded = {test: round(took, 2) for test, took in seconds.items()}
        new.write_text(json.dumps({**_times(), **rounded}, indent=0))


def lines(tests: Sequence[str], wanted: Sequence[WantedKernel], processes: int) -> list[str]:
    """Return what is about to happen, a line for each part."""
    found = []
    missing = [kernel for kernel in wanted if kernel.missing]
    if missing:
        took = sum(kernel.left_minutes for kernel in missing)
        found.append(f"{units.many(len(missing), 'kernel')} to build, {_about(took)}:")
        found += [f"  {kernel.title}: {kernel.why}" for kernel in missing]
    elif wanted:
        found.append(f"{units.many(len(wanted), 'kernel')} from the cache")
    for folder, what in (("unit", "unit test"), ("boot", "boot test")):
        some = [test for test in tests if test.startswith(f"tests/{folder}/")]
        if some:
            count = units.many(len(some), what)
            found.append(f"{count}, {_about(minutes(some, processes))}")
    return found


def _about(minutes: float) -> str:
    return f"about {units.many(max(1, round(minutes)), 'minute')}"


def _times() -> dict[str, float]:
    try:
        times: dict[str, float] = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return times


def _file() -> Path:
    return paths.cache() / "test-times.json"
