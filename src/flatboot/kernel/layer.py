"""What the flatboot flavour adds to a kernel tree: hooks and overlay of groups, as one layer."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import processes, typed
from flatboot.common.errors import FlatbootError
from flatboot.common.git import git
from flatboot.kernel.groups import Group


class DoesNotApply(FlatbootError):
    """A hook patch does not apply to a tree.

    Attributes:
        group: the name of the group that it belongs to.
    """

    def __init__(self, patch: Path, reason: str) -> None:
        """Say that *patch* does not apply, and which hunk of which file is the *reason*."""
        self.group = patch.parents[2].name
        super().__init__(
            f"hook {patch.parent.name}/{patch.name} of the group {self.group} does not apply:"
            f" {reason}; write the hook anew for this tree"
        )


@dataclass(frozen=True)
class File:
    """A file's content and whether it is executable."""

    content: bytes
    executable: bool = False

    @property
    def digest(self) -> str:
        """A hash of content and mode."""
        return hashlib.sha256(b"x" * self.executable + b"\0" + self.content).hexdigest()

    @classmethod
    def read(cls, path: Path) -> File:
        """Read *path*."""
        return cls(path.read_bytes(), bool(path.stat().st_mode & 0o100))

    def write(self, path: Path) -> None:
        """Write to *path* as a new file, so that hard links of an old one keep their content."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(self.content)
        path.chmod(0o755 if self.executable else 0o644)


@dataclass(frozen=True)
class Layer:
    """The files in which a tree differs from its source; None stands for a removed file."""

    files: dict[str, File | None] = field(default_factory=dict)


def series(hooks: Path) -> list[Path]:
    """Return the hook patches in *hooks* in the order of its ``series`` file.

    Raises:
        FlatbootError: a listed patch is missing, or a patch is not listed.
    """
    file = hooks / "series"
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.strip() for line in lines if line.strip()]
    there = {path.name for path in hooks.glob("*.patch")}
    for name in names:
        if name not in there:
            raise FlatbootError(f"{file} lists {name}, which is not there: write it or take it out")
    if unlisted := sorted(there.difference(names)):
        raise FlatbootError(f"{file} does not list {', '.join(unlisted)}: add or remove it")
    return [hooks / name for name in names]


def patches(groups: Sequence[Group], base: str) -> list[Path]:
    """Return the hook patches of *groups* for *base*, in the order in which they are applied.

    Raises:
        FlatbootError: as ``series`` does.
    """
    return [
        patch
        for group in groups
        for patch in series(group.hooks(base))
        if not group.only or patch.stem in group.only
    ]


@dataclass(frozen=True)
class _Overlay:
    topics: dict[str, tuple[str, ...]] = field(default_factory=dict)


def owners(group: Group) -> dict[str, tuple[str, ...]]:
    """Return which topic of *group* brings which files of its overlay, as overlay.toml says."""
    file = group.folder / "overlay.toml"
    return typed.load(file, _Overlay).topics if file.is_file() else {}


def files(group: Group) -> dict[str, Path]:
    """Return all files in the overlay of *group* by their path in a kernel tree, sorted."""
    paths = sorted(path for path in group.overlay.rglob("*") if path.is_file())
    return {str(path.relative_to(group.overlay)): path for path in paths}


def overlay(groups: Sequence[Group], base: str) -> dict[str, File]:
    """Return the overlay files of *groups* for *base* by their path in a kernel tree.

    What topics bring that *base* has not is left out.

    Raises:
        FlatbootError: two groups bring the same file.
    """
    found: dict[str, File] = {}
    for group in groups:
        there = {patch.stem for patch in series(group.hooks(base))}
        others = {
            name for topic, names in owners(group).items() if topic not in there for name in names
        }
        for name, path in files(group).items():
            if name in others:
                continue
            if name in found:
                raise FlatbootError(f"{path} is in the overlay of another group, too: drop one")
            found[name] = File.read(path)
    return found


def inputs_digest(groups: Sequence[Group], base: str) -> str:
    """Return a hash of what a layer is made of: the patches in order, and the overlay.

    What the patches say in their messages is no part of it.
    """
    total = hashlib.sha256()
    for patch in patches(groups, base):
        _, *change = re.split(rb"^diff --git ", patch.read_bytes(), flags=re.MULTILINE)
        total.update(hashlib.sha256(b"\0".join(change)).digest())
    for name, file in sorted(overlay(groups, base).items()):
        total.update(f"\n{name} {file.digest}".encode())
    return total.hexdigest()


def touched(patch: str) -> list[str]:
    """Return the paths of the files that the text of a *patch* changes."""
    return re.findall(r"^diff --git a/(\S+) b/\S+$", patch, re.MULTILINE)


def make(tree: Path, patches: Sequence[Path], files: dict[str, File]) -> Layer:
    """Return the layer of *patches*, applied in order to *tree* with the overlay's *files*.

    *tree* is only read. A patch may change an overlay file of an earlier group.

    Raises:
        DoesNotApply: a patch does not apply (which one, which file, which hunk).
        FlatbootError: an overlay file would hide a file of the tree.
    """
    for name in files:
        if (tree / name).exists():
            raise FlatbootError(
                f"{tree} has the file {name} of the overlay already: a tree that has the topics "
                "builds with --flavour stock"
            )
    with tempfile.TemporaryDirectory(prefix="flatboot-hooks-") as folder:
        scratch = Path(folder)
        names = sorted({name for patch in patches for name in touched(patch.read_text())})
        for name in names:
            if name in files:
                files[name].write(scratch / name)
            elif (tree / name).is_file():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(tree / name, scratch / name)
        for patch in patches:
            if touched(patch.read_text()):
                apply(patch, scratch)
        changed = {
            name: File.read(scratch / name) if (scratch / name).exists() else None for name in names
        }
    return Layer({**files, **changed})


def of(tree: Path, groups: Sequence[Group], base: str) -> Layer:
    """Return the layer of *groups* for *base* on *tree*, which is only read.

    Raises:
        DoesNotApply, FlatbootError: as ``make`` does.
    """
    return make(tree, patches(groups, base), overlay(groups, base))


def apply(patch: Path, folder: Path, *options: str) -> None:
    """Apply *patch* to the tree *folder* with git, with further *options* of ``git apply``.

    Raises:
        DoesNotApply: which patch, which file, which hunk.
    """
    command = ("apply", "--whitespace=nowarn", "--reject", "--verbose", *options)
    try:
        git(folder, *command, patch.resolve())
    except processes.CommandFailed as error:
        raise DoesNotApply(patch, _reason(error.output)) from error


def _reason(output: str) -> str:
    """Say which files and hunks the output of ``git apply --reject --verbose`` complains of."""
    failed: list[str] = []
    name = ""
    for line in output.splitlines():
        if match := re.match(r"(?:Applying|Checking) patch (\S+?)(?:\.\.\.| with|$)", line):
            name = match[1]
        elif match := re.match(r"Rejected hunk #(\d+)\.", line):
            failed.append(f"{name} hunk {match[1]}")
    missing = re.findall(r"^error: (\S+): (?:No such file|does not exist)", output, re.MULTILINE)
    failed += [f"{name} is not in the tree" for name in missing]
    errors = re.findall(r"^error: (.*)$", output, re.MULTILINE)
    return ", ".join(failed) or "; ".join(errors) or output.strip()
