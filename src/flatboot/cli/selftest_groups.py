"""What became of the boot tests of each group, on kernels with it and its needs alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from flatboot.common import rows
from flatboot.kernel import bases, groups, layer

_OUTCOMES = Path("bench") / "group-tests.json"


@dataclass(frozen=True)
class GroupOutcome:
    """A run of all boot tests of a group.

    Attributes:
        passed: how many passed.
        failed: how many did not.
        skipped: how many were skipped.
        commit: the last one that changed what the kernels are made of, with a + if there are
            changes since.
        digest: of the patches and files of the group, and of those that it needs.
    """

    passed: int
    failed: int
    skipped: int
    commit: str
    digest: str


def keep(root: Path, base: str, group: str, counts: dict[str, float]) -> None:
    """Keep in the checkout *root* what a run of the tests of *group* on *base* came to."""
    passed, failed, skipped = (int(counts[name]) for name in ("passed", "failed", "skipped"))
    # Read anew: another run may try another group.
    outcome = GroupOutcome(passed, failed, skipped, groups.commit(root), digest(base, group))
    rows.write(root / _OUTCOMES, {**outcomes(root), title(base, group): outcome})


def outcomes(root: Path) -> dict[str, GroupOutcome]:
    """Return what the checkout *root* keeps of earlier runs, by ``title``."""
    return rows.read(root / _OUTCOMES, dict[str, GroupOutcome])


def title(base: str, group: str) -> str:
    """Return what *group* on *base* is called: by its name alone on the default base."""
    return group if base == bases.default() else f"{group}, {base}"


def digest(base: str, group: str) -> str:
    """Return a hash of the patches and files of *group* for *base*, and of what it needs."""
    return layer.inputs_digest(groups.chosen(base, [group]), base)[:16]


def table(kept: dict[str, GroupOutcome]) -> Table:
    """Return what became of the tests of each group, in the order of the groups."""
    made = Table(title="Boot tests of each group alone", title_justify="left")
    made.add_column("group")
    for heading in ("passed", "failed", "skipped"):
        made.add_column(heading, justify="right")
    made.add_column("at")
    made.add_column("changed since")
    for base, group in ((base, group) for base in bases.with_hooks() for group in groups.every()):
        if not group.serves(base):
            continue
        name = title(base, group.name)
        if outcome := kept.get(name):
            numbers = (outcome.passed, outcome.failed, outcome.skipped)
            changed = "no" if outcome.digest == digest(base, group.name) else "yes"
            made.add_row(name, *(f"{number:,}" for number in numbers), outcome.commit, changed)
        else:
            made.add_row(name, "not run", "", "", "", "")
    return made
