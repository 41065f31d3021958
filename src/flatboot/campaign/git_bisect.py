"""git's side of a bisection: the range, a clone to work in, and ``git bisect``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import atomic, progress
from flatboot.common.errors import UsageError
from flatboot.common.git import git
from flatboot.common.processes import CommandFailed

#: What a judge answers: git's words.
GOOD, BAD, SKIP = "good", "bad", "skip"
_SHORT = 12
_FIRST_BAD = re.compile(r"^# (?:possible )?first bad commit: \[(\w+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, which makes it equal to another, author, date (ISO 8601) and subject."""

    hash: str
    author: str = field(compare=False)
    date: str = field(compare=False)
    subject: str = field(compare=False)

    @property
    def short(self) -> str:
        """The start of the hash."""
        return self.hash[:_SHORT]

    @property
    def title(self) -> str:
        """The start of the hash, and the subject."""
        return f"{self.short} {self.subject}"


def commit(tree: Path, name: str) -> Commit:
    """Return the commit that *name* stands for in the repository *tree*.

    Raises:
        UsageError: git knows no such commit.
    """
    try:
        found = git(
            tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
    except CommandFailed as error:
        raise UsageError(
            f"git knows no commit {name!r} in {tree}: give a hash, a tag or a branch"
        ) from error
    return _read(tree, found.strip())


def _read(tree: Path, name: str) -> Commit:
    options = ("-1", "--no-show-signature", "--format=%H%n%an <%ae>%n%aI%n%s")
    text = git(tree, "log", *options, name)
    return Commit(*text.split("\n")[:4])


def ends(tree: Path, good: str, bad: str) -> tuple[Commit, Commit]:
    """Return the commits at the two ends of the range, checked; *tree* is only read.

    Raises:
        UsageError: *tree* is no repository, has uncommitted changes, or *bad* does not build on
            *good*.
    """
    if not (tree / ".git").exists():
        raise UsageError(f"{tree} is no git tree: name the top of a clone of the kernel")
    changes = git(
        tree, "status", "--porcelain", "--untracked-files=no", env={"GIT_OPTIONAL_LOCKS": "0"}
    ).splitlines()
    if changes:
        raise UsageError(
            f"{tree} has uncommitted changes ({len(changes)} files, first {changes[0][3:]}), which"
            " no commit has: commit or stash them"
        )
    first, last = commit(tree, good), commit(tree, bad)
    if first == last:
        raise UsageError(f"{good} and {bad} are the same commit, {first.title}: name two")
    if not _is_ancestor(tree, first, last):
        hint = "name a good commit that the bad one builds on"
        if _is_ancestor(tree, last, first):
            hint = "it is the other way round, so swap them"
        raise UsageError(f"{good} is no ancestor of {bad} in {tree}: {hint}")
    return first, last


def _is_ancestor(tree: Path, older: Commit, newer: Commit) -> bool:
    try:
        git(tree, "merge-base", "--is-ancestor", older.hash, newer.hash)
    except CommandFailed as error:
        if error.status == 1:
            return False
        raise
    return True


def clone(tree: Path, folder: Path, commits: tuple[Commit, ...]) -> None:
    """Make *folder* a clone of *tree* that holds *commits*, or leave it if it is one.

    It borrows the objects of *tree*, which is never written to.
    """
    try:
        if not (folder / ".git").exists():
            raise FileNotFoundError(folder)
        for wanted in commits:
            git(folder, "cat-file", "-e", f"{wanted.hash}^{{commit}}")
    except (FileNotFoundError, CommandFailed):
        shutil.rmtree(folder, ignore_errors=True)
        with progress.step(f"cloning {tree}"), atomic.new_dir(folder) as new:
            options = ("--quiet", "--shared", "--no-checkout")
            git(new.parent, "clone", *options, tree, new)
    # What a git that was killed left behind.
    (folder / ".git" / "index.lock").unlink(missing_ok=True)


def checkout(folder: Path, wanted: Commit) -> None:
    """Make the files of the clone *folder* those of *wanted*."""
    with progress.step(f"checking out {wanted.short}"):
        git(folder, "checkout", "--quiet", "--force", "--detach", wanted.hash)


def parents(folder: Path, wanted: Commit) -> list[Commit]:
    """Return the parents of a commit, the first parent first."""
    names = git(folder, "rev-list", "--parents", "-1", wanted.hash).split()
    return [_read(folder, name) for name in names[1:]]


def count(folder: Path, good: Commit, bad: Commit) -> int:
    """Return how many commits *bad* has and *good* has not."""
    return int(git(folder, "rev-list", "--count", bad.hash, f"^{good.hash}"))


@dataclass(frozen=True)
class Bisected:
    """How ``git bisect`` ended.

    Attributes:
        candidates: the first bad commit, or all that may be it where git cannot tell further.
        log: git's log of the bisection, which ``git bisect replay`` reads.
    """

    candidates: list[Commit]
    log: str


def run(folder: Path, good: Commit, bad: Commit, judge: Callable[[Commit], str]) -> Bisected:
    """Bisect in the clone *folder* without touching its files.

    Args:
        folder: the clone.
        good: a commit known to be good.
        bad: a commit known to be bad.
        judge: called with each commit that git asks for; returns GOOD, BAD or SKIP.
    """
    git(folder, "bisect", "reset")
    git(folder, "bisect", "start", "--no-checkout", bad.hash, good.hash)
    while not _candidates(folder):
        verdict = judge(_read(folder, "BISECT_HEAD"))
        try:
            git(folder, "bisect", verdict)
        except CommandFailed:
            # That is git's status also where only skipped commits are left.
            if not _candidates(folder):
                raise
    log = git(folder, "bisect", "log")
    found = [_read(folder, name) for name in _FIRST_BAD.findall(log)]
    git(folder, "bisect", "reset")
    return Bisected(found, log)


def _candidates(folder: Path) -> list[str]:
    return _FIRST_BAD.findall(git(folder, "bisect", "log"))
