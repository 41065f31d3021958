"""``flatboot bisect``: the commit that made boot slower, by building and booting in between."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flatboot.analysis.compare import (
    REGRESSION,
    TOTAL,
    Comparison,
    PhaseChange,
    SizeChange,
    compare,
)
from flatboot.bootlog import log_gap
from flatboot.bootlog.log_gap import WiderGap
from flatboot.campaign import git_bisect
from flatboot.campaign.bisect_state import State
from flatboot.campaign.git_bisect import BAD, GOOD, SKIP, Commit
from flatboot.common import progress
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.processes import CommandFailed
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import Image
from flatboot.guest.machine import Machine
from flatboot.record import phases
from flatboot.record.record import Record

# A size shows a change clearly if the change is so many times the smallest that could be told.
_CLEAR = 3.0
# A boot between the ends may take so many seconds, and so many times as long as the slower end.
_STEP_S, _STEP_TIMES = 30.0, 10.0


class Lab(Protocol):
    """What builds and boots; tests have one that does neither."""

    def build(self, folder: Path) -> Image:
        """Build the kernel tree *folder*."""

    def boot(self, image: Image, machine: Machine, timeout_s: float) -> Record:
        """Boot *image* on *machine*."""


@dataclass(frozen=True)
class Above:
    """How much more than the good end is bad: a share of its cost, or units of the clock."""

    amount: float
    share: bool

    def limit(self, good: float) -> float:
        """Return the largest cost that is good, where the good end costs *good*."""
        return good * (1 + self.amount) if self.share else good + self.amount


def parse_above(text: str) -> Above:
    """Return what ``--above`` asks for: ``5%``, or instructions such as ``300000``, ``20M``.

    Raises:
        UsageError: it is neither.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG%]?)", text)
    if not match:
        raise UsageError(f"{text!r} is no limit: write 5%, or instructions such as 20M")
    factor = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01}[match[2]]
    return Above(float(match[1]) * factor, match[2] == "%")


@dataclass(frozen=True)
class BisectionSpec:
    """A bisection that is asked for.

    Attributes:
        good: the commit before the regression.
        bad: the commit with it.
        machines: the machines on which both ends are booted, smallest first.
        above: what is bad; None for what is nearer to the bad end than to the good one.
        timeout_s: host seconds that a boot of an end may take.
    """

    good: Commit
    bad: Commit
    machines: tuple[Machine, ...]
    above: Above | None
    timeout_s: float


@dataclass(frozen=True)
class Choice:
    """What tells good from bad: a phase on a machine, and the cost above which it is bad."""

    phase: str
    machine: Machine
    good: float
    bad: float
    limit: float


@dataclass(frozen=True)
class Trial:
    """A commit that git asked for.

    Attributes:
        commit: the commit.
        verdict: GOOD, BAD or SKIP.
        cost: instructions of the chosen phase; None where they could not be measured.
        seconds: how long it took to build and boot.
    """

    commit: Commit
    verdict: str
    cost: float | None
    seconds: float


@dataclass(frozen=True)
class CommitCost:
    """What the first bad commit costs, against the commit before it.

    Attributes:
        before: the commit before it.
        after: the first bad commit; where git cannot tell it, the last that may be it.
        total: the whole boot over the machines.
        change: the chosen phase.
        gap: where the kernel log shows it, on the largest machine; None if it does not.
    """

    before: Commit
    after: Commit
    total: PhaseChange
    change: PhaseChange
    gap: WiderGap | None


@dataclass(frozen=True)
class Culprit:
    """What a bisection found.

    Attributes:
        choice: what told good from bad.
        steps: what was tried, in order.
        candidates: the first bad commit, or all that may be it.
        cost: what it costs; None if the commit before it does not build or boot.
    """

    choice: Choice
    steps: list[Trial]
    candidates: list[Commit]
    cost: CommitCost | None


class Unmeasured(FlatbootError):
    """A commit could not be built or booted.

    Attributes:
        log: the end of the compiler's or the guest's output.
    """

    def __init__(self, why: str, log: str) -> None:
        """Say *why* in a few words."""
        self.log = log
        super().__init__(why)


class Bisection:
    """Builds, boots and bisects in one clone, with what it learns in a ``State``."""

    def __init__(self, wanted: BisectionSpec, folder: Path, lab: Lab, state: State) -> None:
        """Bisect as *wanted* in the clone *folder*."""
        self.wanted = wanted
        self._folder = folder
        self._lab = lab
        self._state = state

    def ends(self) -> Comparison:
        """Build and boot both ends on all machines and compare them.

        Raises:
            FlatbootError: one of them does not build or boot.
        """
        boots = []
        for name, commit in (("good", self.wanted.good), ("bad", self.wanted.bad)):
            try:
                boots.append(self._measure(commit, self.wanted.machines, self.wanted.timeout_s))
            except Unmeasured as error:
                raise FlatbootError(
                    f"the {name} end {commit.title} {error}: name another\n{error.log}"
                ) from error
        return compare(*boots)

    def search(self, choice: Choice, on_step: Callable[[Trial], None]) -> Culprit:
        """Find the first bad commit.

        Args:
            choice: what tells good from bad.
            on_step: called with each step as it is done.
        """
        steps: list[Trial] = []

        def judge(commit: Commit) -> str:
            steps.append(self._step(choice, commit))
            on_step(steps[-1])
            return steps[-1].verdict

        good, bad = self.wanted.good, self.wanted.bad
        between = git_bisect.count(self._folder, good, bad) - 1
        with progress.step(f"bisecting {between} commits"):
            ended = git_bisect.run(self._folder, good, bad, judge)
        self._state.keep_log(ended.log)
        last = {step.commit for step in steps if step.verdict == BAD} | {bad}
        after = next(commit for commit in ended.candidates if commit in last)
        cost = self._cost(choice, ended.candidates, after)
        return Culprit(choice, steps, ended.candidates, cost)

    def _step(self, choice: Choice, commit: Commit) -> Trial:
        cost: float | None = None
        verdict = SKIP
        if not self._state.failure(commit.hash):
            try:
                cost = self._cost_of(choice, commit)
                verdict = BAD if cost > choice.limit else GOOD
            except Unmeasured as error:
                self._state.fail(commit.hash, str(error), error.log)
        return Trial(commit, verdict, cost, self._state.seconds(commit.hash))

    def _cost_of(self, choice: Choice, commit: Commit) -> int:
        ends = (self.wanted.good, self.wanted.bad)
        known = [self._state.record(end.hash, choice.machine) for end in ends]
        slower = max(boot.wall_s for boot in known if boot is not None)
        boot = self._measure(commit, [choice.machine], _STEP_S + _STEP_TIMES * slower)[0]
        if choice.phase == TOTAL:
            return boot.to_init
        # A boot without idle time is no boot whose marks were missed.
        if choice.phase != phases.IDLE and choice.phase not in phases.by_name(boot.phases):
            raise Unmeasured(f"does not show the phase {choice.phase}", "\n".join(boot.notes))
        return boot.phase(choice.phase)

    def _cost(
        self, choice: Choice, candidates: Sequence[Commit], after: Commit
    ) -> CommitCost | None:
        before = next(
            parent
            for candidate in candidates
            for parent in git_bisect.parents(self._folder, candidate)
            if parent not in candidates
        )
        try:
            boots = [
                self._measure(commit, self.wanted.machines, self.wanted.timeout_s)
                for commit in (before, after)
            ]
        except Unmeasured as error:
            progress.warn(f"{before.short} or {after.short} {error}, so there is no cost")
            return None
        changes = {phase.name: phase for phase in compare(*boots).phases}
        gap = log_gap.growth(boots[0][-1].log, boots[1][-1].log)
        return CommitCost(before, after, changes[TOTAL], changes[choice.phase], gap)

    def _measure(
        self, commit: Commit, machines: Sequence[Machine], timeout_s: float
    ) -> list[Record]:
        """Return the boots of *commit* on *machines*, doing those that the state does not have.

        Raises:
            Unmeasured: it does not build or boot.
        """
        missing = [m for m in machines if self._state.record(commit.hash, m) is None]
        if missing:
            began = time.monotonic()
            try:
                git_bisect.checkout(self._folder, commit)
                image = self._built()
                for machine in missing:
                    with progress.step(f"booting {commit.short}, {machine.title}"):
                        boot = self._booted(image, machine, timeout_s)
                    named = dataclasses.replace(
                        boot.kernel, base=f"{boot.kernel.base} {commit.short}"
                    )
                    boot = dataclasses.replace(boot, kernel=named)
                    self._state.add(commit.hash, machine, boot)
            finally:
                self._state.spend(commit.hash, time.monotonic() - began)
        boots = (self._state.record(commit.hash, machine) for machine in machines)
        return [boot for boot in boots if boot is not None]

    def _built(self) -> Image:
        try:
            return self._lab.build(self._folder)
        except UsageError:
            raise
        except FlatbootError as error:
            if isinstance(error.__cause__, OSError) or _disk_is_full(error):
                raise
            raise Unmeasured(f"does not build ({_cause(error)})", str(error)) from error

    def _booted(self, image: Image, machine: Machine, timeout_s: float) -> Record:
        try:
            return self._lab.boot(image, machine, timeout_s)
        except GuestFailed as error:
            if error.kind == "qemu":
                raise
            raise Unmeasured(f"does not boot ({_cause(error)})", str(error)) from error


def choose(ends: Comparison, machines: Sequence[Machine], above: Above | None) -> Choice | None:
    """Return what tells good from bad, or None if no machine shows a regression.

    The phase is the one that grew by most, or the whole boot if no phase has half of its growth;
    the machine is the smallest that shows it clearly.
    """
    shown = {phase.name: _shown(phase, above) for phase in ends.phases}
    growth = {name: max(map(_growth, sizes)) for name, sizes in shown.items() if sizes}
    if not growth:
        return None
    parts = [name for name in growth if name != TOTAL]
    phase = max(parts, key=lambda name: growth[name], default=TOTAL)
    if growth[phase] < growth.get(TOTAL, 0) / 2:
        phase = TOTAL
    sizes = shown[phase]
    clear = [size for size in sizes if _growth(size) >= _CLEAR * size.smallest]
    size = clear[0] if clear else max(sizes, key=lambda size: _growth(size) / max(size.before, 1))
    machine = next(
        m for m in machines if (m.memory_bytes, m.cpus) == (size.memory_bytes, size.cpus)
    )
    limit = above.limit(size.before) if above else (size.before + size.after) / 2
    return Choice(phase, machine, size.before, size.after, limit)


def _shown(phase: PhaseChange, above: Above | None) -> list[SizeChange]:
    if above is None:
        return [size for size in phase.sizes if size.verdict == REGRESSION]
    return [size for size in phase.sizes if size.after > above.limit(size.before)]


def _growth(size: SizeChange) -> float:
    return size.after - size.before


def _cause(error: FlatbootError) -> str:
    """Return the line of an error that says most: the compiler's, else the first."""
    lines = [line.strip() for line in str(error).splitlines()]
    first = lines[0].partition("; the ")[0]
    return next((line for line in lines if "error: " in line), first)


def _disk_is_full(error: FlatbootError) -> bool:
    return isinstance(error, CommandFailed) and "No space left on device" in error.output
