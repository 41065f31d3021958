"""``flatboot kernel check``: does it compile wherever a build robot would try?"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flatboot.common import disk, paths, progress, rows, screen, workers
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import bases, groups, make, sources, targets
from flatboot.kernel.check import Compilation, Robot

_OUTCOMES = Path("bench") / "kernel-check.json"
#: Debian's compilers; every one that the base takes.
_COMPILERS = ("gcc", "clang-19")
_SEEDS, _LONG_SEEDS = 60, 400
#: How many are compiled at once, at most: each keeps less than two CPUs busy most of the time.
_AT_ONCE = 4


@dataclass(frozen=True)
class Tried:
    """What came of a compilation.

    Attributes:
        row: the row of the table in which it counts.
        files: how many files were compiled.
        objections: what is said that stock does not have.
        base_fails: whether stock does not compile either.
        seconds: how long it took.
        version: the version of the base.
        commit: the last one that changed what is compiled, with a + if there are changes since.
    """

    row: str
    files: int
    objections: tuple[str, ...]
    base_fails: bool
    seconds: int
    version: str
    commit: str


@disk.full_is_an_error()
def check(
    base: Annotated[
        str | None, typer.Option(help="Kernel base, of those in kernel/bases.toml.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="This group, and what it needs.", show_default="all groups")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Only what has this in its title, such as 'chance 17'.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="How many random configs.", min=0, show_default=str(_SEEDS)),
    ] = None,
    first: Annotated[int, typer.Option(help="The seed of the first of them.")] = 1,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help=f"Also whole folders, linked kernels, and {_LONG_SEEDS} random configs; a day.",
        ),
    ] = False,
) -> None:
    """Compile what the groups touch as a build robot would; an hour or two on two cores.

    After each patch; each group alone; nothing, the usual and everything configured, and random
    configs, by each compiler for each architecture; sparse. What stock says as well is left out.
    """
    name = base or bases.default()
    count = seeds if seeds is not None else _LONG_SEEDS if long else _SEEDS
    robot = Robot(
        sources.resolve(name),
        groups.chosen(name, [group] if group else []),
        targets.every(),
        _COMPILERS,
        range(first, first + count),
        long=long,
    )
    for target in robot.targets:
        for cc in robot.compilers:
            make.compiler_version(target, cc)
    every = list(robot.trials())
    titles = {trial.title for trial in every}
    trials = [trial for trial in every if only is None or only in trial.title]
    if not trials:
        raise UsageError(f"nothing that is tried has {only!r} in its title")
    # What is kept is of the default base.
    default = name == bases.default() and group is None
    short_form = default and seeds is None and first == 1 and not long
    tried: dict[str, Tried] = {}
    for title, outcome in _tried(robot, trials):
        tried[title] = outcome
        if short_form:
            _keep(paths.repo(), title, outcome, titles)
    screen.console().print(table(tried))
    if failed := [title for title, outcome in tried.items() if outcome.objections]:
        raise FlatbootError(
            f"{len(failed)} of {len(tried)} found what stock does not have (above):"
            f" repeat one with --only, such as --only '{failed[0]}'"
        )


def kept(root: Path) -> dict[str, Tried]:
    """Return what the checkout *root* keeps of earlier runs, by title."""
    return rows.read(root / _OUTCOMES, dict[str, Tried])


def _keep(root: Path, title: str, outcome: Tried, titles: Collection[str]) -> None:
    """Keep *outcome* in the checkout *root*, and of what it has those of *titles*."""
    outcomes = {**kept(root), title: outcome}
    every = {name: one for name, one in outcomes.items() if name in titles}
    rows.write(root / _OUTCOMES, every)


def table(tried: dict[str, Tried]) -> Table:
    """Return how many compilations were clean in each row, of how many, of how many files."""
    made = Table(title="Compiled as a build robot would", title_justify="left")
    for heading in ("what", "clean", "base fails, too", "files", "at"):
        made.add_column(heading, justify="left" if heading in ("what", "at") else "right")
    for row in sorted({outcome.row for outcome in tried.values()}):
        some = [outcome for outcome in tried.values() if outcome.row == row]
        judged = [outcome for outcome in some if outcome.objections or not outcome.base_fails]
        clean = [outcome for outcome in judged if not outcome.objections]
        made.add_row(
            row,
            f"{len(clean)} of {len(judged)}",
            str(len(some) - len(judged)),
            f"{sum(outcome.files for outcome in judged):,}",
            ", ".join(sorted({f"{each.version} {each.commit}" for each in some})),
        )
    return made


def _tried(robot: Robot, trials: Sequence[Compilation]) -> Iterator[tuple[str, Tried]]:
    """Make the *trials*, and tell what each finds as it comes."""
    commit = groups.commit(paths.repo())

    def judged(trial: Compilation) -> Tried:
        began = time.monotonic()
        found = trial.judge(robot.source)
        return Tried(
            trial.row,
            found.files,
            found.objections,
            found.base_fails,
            round(time.monotonic() - began),
            robot.source.version(),
            commit,
        )

    lanes = [
        [trial for trial in trials if trial.lane == lane]
        for lane in dict.fromkeys(trial.lane for trial in trials)
    ]
    children = min(_AT_ONCE, len(os.sched_getaffinity(0)))
    with (
        workers.sharing(lanes, judged, children) as ended,
        progress.step("kernel check", total=len(trials)) as step,
    ):
        for number, (trial, outcome) in enumerate(ended, 1):
            note = ", and the base fails, too" if outcome.base_fails else ""
            lines = [f"{trial.title}: {outcome.files} files, {outcome.seconds} s{note}"]
            lines += [f"  {objection}" for objection in outcome.objections]
            progress.console.print("\n".join(lines), markup=False, highlight=False)
            step.update(number, trial.title)
            yield trial.title, outcome
