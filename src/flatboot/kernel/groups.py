"""Groups: the features of the kernel part, a folder each, and what each of them needs.

kernel/<group>/ holds all of one: its hook patches in hooks/<base>/, its new files in overlay/, its
options in options*.config, and group.toml. kernel/groups.toml names the groups in the order in
which they are applied.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import paths, typed
from flatboot.common.errors import FlatbootError, UsageError, check_known
from flatboot.common.git import git


@dataclass(frozen=True)
class Group:
    """A group of topics, which is taken whole.

    Attributes:
        title: what it is for, a few words.
        gives: what that gives, with a figure of its cover letter.
        needs: the groups without which it does not apply, build or work, by name.
        needs_on: those that it needs on single bases besides.
        parameters: the boot parameters that it brings.
        sent_to: the lists of the maintainers that it would be sent to.
        name: its name here, and that of its folder.
        only: the names of those of its patches that are taken; empty for all.
    """

    title: str
    gives: str
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    sent_to: tuple[str, ...]
    needs_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = ""
    only: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The folder of all that belongs to it."""
        return paths.kernel_dir() / self.name

    @property
    def overlay(self) -> Path:
        """The folder of the files that no base has."""
        return self.folder / "overlay"

    def needed(self, base: str) -> tuple[str, ...]:
        """Return the names of the groups that it needs on *base*."""
        return (*self.needs, *self.needs_on.get(base, ()))

    def hooks(self, base: str) -> Path:
        """Return the folder of its patches for *base*."""
        return self.folder / "hooks" / base

    def serves(self, base: str) -> bool:
        """Return whether it has patches for *base*."""
        return (self.hooks(base) / "series").is_file()


@dataclass(frozen=True)
class _GroupsFile:
    groups: tuple[str, ...]


def names() -> tuple[str, ...]:
    """Return the names of all groups, in the order in which they are applied."""
    return typed.load(_order(), _GroupsFile).groups


def every() -> tuple[Group, ...]:
    """Return all groups, in the order in which they are applied.

    Raises:
        FlatbootError: a group that is listed has no folder, or needs one that does not come before;
            or a group is not listed.
    """
    found: list[Group] = []
    for name in names():
        file = paths.kernel_dir() / name / "group.toml"
        if not file.is_file():
            raise FlatbootError(f"{_order()} lists {name}, but there is no {file}: write it")
        group = dataclasses.replace(typed.load(file, Group), name=name)
        for need in (*group.needs, *itertools.chain(*group.needs_on.values())):
            if need not in [earlier.name for earlier in found]:
                raise FlatbootError(
                    f"{file} needs {need}, which does not come before {name} in {_order()}:"
                    " list it there, or need it no longer"
                )
        found.append(group)
    there = {file.parent.name for file in paths.kernel_dir().glob("*/group.toml")}
    if unlisted := sorted(there.difference(group.name for group in found)):
        raise FlatbootError(f"{_order()} does not list {', '.join(unlisted)}: add or remove it")
    return tuple(found)


def chosen(base: str, wanted: Sequence[str] = ()) -> tuple[Group, ...]:
    """Return the groups *wanted* and those that they need, in the order in which they are applied.

    Args:
        base: the name of a base.
        wanted: names of groups; none for all that *base* has.

    Raises:
        UsageError: there is no such group, or not for this base.
        FlatbootError: as ``every`` does.
    """
    known = {group.name: group for group in every()}
    for name in wanted:
        check_known("group", name, known)
    there = [name for name, group in known.items() if group.serves(base)]
    taken = set(wanted or there)
    for name in reversed(known):
        if name in taken:
            taken.update(known[name].needed(base))
    if lacking := [name for name in known if name in taken and name not in there]:
        raise UsageError(
            f"the group {lacking[0]} has no patches for {base}, which has"
            f" {', '.join(there) or 'none'}: choose of those, or another base"
        )
    return tuple(group for name, group in known.items() if name in taken)


def parts(base: str, wanted: Sequence[str]) -> tuple[Group, ...]:
    """Return what ``chosen`` does, where a name may also be GROUP/PATCH, for single patches.

    Raises:
        UsageError: as ``chosen`` does, or a group has no such patch.
        FlatbootError: as ``every`` does.
    """
    single: dict[str, set[str]] = {}
    for name in wanted:
        group_name, _, patch = name.partition("/")
        single.setdefault(group_name, set()).add(patch)
    taken = []
    for group in chosen(base, list(single)):
        only = single.get(group.name, {""})
        there = {path.stem for path in group.hooks(base).glob("*.patch")}
        for patch in sorted(only - {""}):
            check_known(f"patch of the group {group.name},", patch, sorted(there))
        taken.append(group if "" in only else dataclasses.replace(group, only=frozenset(only)))
    return tuple(taken)


def without(group: str, taken: Sequence[Group], base: str) -> list[str]:
    """Return the names of those of *taken* that do without *group* on *base*."""
    tied = {group}
    for each in taken:
        if tied.intersection(each.needed(base)):
            tied.add(each.name)
    return [each.name for each in taken if each.name not in tied]


def commit(root: Path) -> str:
    """Return the last commit that changed hooks, overlays or configs, and + for changes since."""
    where = ("--", "kernel/*/hooks/*", "kernel/*/overlay/*", "kernel/configs")
    last = git(root, "log", "-1", "--format=%h", *where).strip()
    changed = git(root, "status", "--porcelain", *where).strip()
    return f"{last}+" if changed else last


def _order() -> Path:
    return paths.kernel_dir() / "groups.toml"
