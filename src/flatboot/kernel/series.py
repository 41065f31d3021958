"""Overlay and hooks as commits: a git tree to edit in, its way back, and the mailable series."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import arches, atomic, paths, processes, progress
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.git import git
from flatboot.kernel import bases, build, checkpatch, groups, kconfig, layer, make, topics, tree
from flatboot.kernel.checkpatch import Report
from flatboot.kernel.groups import Group
from flatboot.kernel.layer import File
from flatboot.kernel.sources import Source, kernel_version
from flatboot.kernel.topics import Topic

BASE_TAG = "base"
#: Marks of COVER.md around tables, with the line behind them.
_MARK = re.compile(r"^<!-- .* -->\n\n?", re.MULTILINE)
_TRAILER = re.compile(r"^Topic: (\S+)\n?", re.MULTILINE)
_DIFF = (
    "diff-tree",
    "-p",
    "-U1",
    "--no-renames",
    "--diff-algorithm=histogram",
    "--indent-heuristic",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--no-ext-diff",
    "--no-textconv",
)


@dataclass(frozen=True)
class _Taken:
    """Groups as they are applied: their topics, the patch of each, and the files of the overlay."""

    groups: tuple[Group, ...]
    topics: list[Topic]
    patches: list[Path]
    overlay: dict[str, File]


def _taken(source: Source, group: str | None = None) -> _Taken:
    """Return *group* and what it needs, or all groups that there are for *source*."""
    base = source.base()
    chosen = groups.chosen(base, [group] if group else ())
    return _Taken(
        chosen, topics.read(chosen, base), layer.patches(chosen, base), layer.overlay(chosen, base)
    )


def make_tree(source: Source, folder: Path) -> int:
    """Make *folder* a git tree: one commit for the base (tag ``base``), then one for each topic.

    A line "Topic: GROUP/NAME" at the end of a message ties the commit to its patch, through rebases
    and rewording.

    Returns:
        The number of topics.

    Raises:
        UsageError: *folder* exists and is not empty.
        FlatbootError: a hook does not apply, or overlay.toml is wrong.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already: name a new or empty folder")
    taken = _taken(source)
    with atomic.new_dir(folder.resolve()) as new:
        tree.copy(source, new, "--reflink=auto")
        _unhide(new / ".gitignore")
        with progress.step("committing the base"):
            _init(new, f"Linux {source.version()}")
        with progress.step("committing the topics", len(taken.topics)) as step:
            for number, topic in enumerate(taken.topics):
                message = f"{topic.message}\nTopic: {topic.path}\n"
                _commit(new, taken, number, message)
                step.update(number + 1)
    return len(taken.topics)


def refresh(folder: Path) -> list[Path]:
    """Write the commits of the git tree *folder* since its tag ``base`` back to hooks and overlay.

    A file that the base does not have goes to the overlay, whole, as the last commit of its group
    leaves it; a change of a file of the base, or of an earlier group, goes to the hook patch of its
    commit. A commit without a "Topic:" line may change nothing but overlay files of earlier topics
    that no later group changes: those simply take it in.

    Returns:
        The files that were written or removed; none where nothing changed.

    Raises:
        UsageError: *folder* is no tree that ``flatboot kernel tree`` made.
        FlatbootError: there are uncommitted changes, a merge, a topic in two commits, a commit of
            no group, or one that comes after a later group.
    """
    folder = folder.resolve()
    if not (folder / ".git").exists() or not git(folder, "tag", "--list", BASE_TAG).strip():
        raise UsageError(
            f"{folder} has no git tag {BASE_TAG}: make such a tree with `flatboot kernel tree`"
        )
    if changes := git(folder, "status", "--porcelain").splitlines():
        raise FlatbootError(
            f"{folder} has uncommitted changes ({len(changes)} files, first {changes[0][3:]}): "
            "commit or stash them"
        )
    version = kernel_version(folder, folder)
    names = bases.with_hooks()
    name = next((n for n in names if version.startswith(f"{n}.")), None)
    if name is None:
        raise FlatbootError(
            f"{folder} is Linux {version}, which is none of the bases {', '.join(names)}"
        )
    in_base = set(git(folder, "ls-tree", "-r", "-z", "--name-only", BASE_TAG).split("\0"))
    series, hooked_at = _topics_of(folder, in_base)
    listed = git(folder, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    overlay = {
        path: _file(folder, f"{hooked_at[path]}^", path)
        if path in hooked_at
        else File.read(folder / path)
        for path in listed
        if path and path not in in_base
    }
    return topics.write(name, series, overlay)


def _file(folder: Path, commit: str, path: str) -> File:
    """Return the file *path* of *folder* as *commit* leaves it."""
    mode = git(folder, "ls-tree", commit, "--", path).partition(" ")[0]
    return File(git(folder, "show", f"{commit}:{path}").encode(), mode == "100755")


def _topics_of(folder: Path, in_base: set[str]) -> tuple[list[Topic], dict[str, str]]:
    """Return the commits of *folder* since its base as topics.

    Returns:
        The topics in order, and the first commit to change each file that an earlier group brings.
    """
    if merges := git(folder, "rev-list", "--merges", f"{BASE_TAG}..HEAD").split():
        raise FlatbootError(f"{folder} has a merge ({merges[0][:12]}): rebase it into a line")
    at_head = set(git(folder, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0"))
    user = identity(folder)
    found: list[Topic] = []
    owned: dict[str, str] = {}
    hooked_at: dict[str, str] = {}
    for commit in git(folder, "rev-list", "--reverse", f"{BASE_TAG}..HEAD").split():
        author, _, message = git(
            folder, "show", "--no-patch", "--format=%an <%ae>%n%B", commit
        ).partition("\n")
        tied = _TRAILER.findall(message)
        subject, _, body = _TRAILER.sub("", message).strip("\n").partition("\n")
        names = git(folder, "diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit)
        paths_changed = [path for path in names.split("\0") if path]
        group, _, name = tied[0].partition("/") if tied else ("", "", "")
        new = {p for p in paths_changed if p not in in_base and p in at_head} - owned.keys()
        others = [path for path in paths_changed if owned.get(path, group) != group]
        if not tied and not new and in_base.union(hooked_at).isdisjoint(paths_changed):
            continue
        owned |= dict.fromkeys(new, group)
        hooked_at = dict.fromkeys(others, commit) | hooked_at
        if not tied:
            raise FlatbootError(
                f"the commit {subject!r} belongs to no group: end its message with a line"
                " 'Topic: GROUP/NAME'"
            )
        if "---" in body.splitlines():
            raise FlatbootError(
                f"the message of {subject!r} has a line '---', where git am would end it: reword it"
            )
        found.append(
            Topic(
                group=group,
                name=name,
                author="" if author == user else author,
                subject=subject,
                body=body.strip("\n"),
                diff=_diff(folder, commit, [p for p in paths_changed if p in in_base] + others),
                overlay=tuple(sorted(new)),
            )
        )
    ties = [topic.path for topic in found]
    for tie in ties:
        if ties.count(tie) > 1:
            raise FlatbootError(
                f"two commits are the topic {tie}: squash them, or give one another name"
            )
    _check_order(found)
    return found, hooked_at


def _check_order(series: Sequence[Topic]) -> None:
    """Check that topics come group by group, in the order of the groups."""
    order = groups.names()
    last = 0
    for topic in series:
        if topic.group not in order:
            raise FlatbootError(
                f"the topic {topic.path} is of no group that there is: {', '.join(order)}"
            )
        if order.index(topic.group) < last:
            raise FlatbootError(
                f"the topic {topic.path} comes after one of {order[last]}: move its commit before"
                " that group's with git rebase -i"
            )
        last = order.index(topic.group)


def _diff(folder: Path, commit: str, names: Sequence[str]) -> str:
    """Return the diff of *commit* in the files *names*, without hashes."""
    if not names:
        return ""
    text = git(folder, *_DIFF, "--no-commit-id", commit, "--", *names)
    return re.sub(r"^index [0-9a-f]+\.\.[0-9a-f]+.*\n", "", text, flags=re.MULTILINE)


def identity(folder: Path) -> str:
    """Return git's user in *folder* as "Name <address>"; empty where git has none."""
    values = []
    for key in ("user.name", "user.email"):
        try:
            values.append(git(folder, "config", key).strip())
        except processes.CommandFailed:
            return ""
    return f"{values[0]} <{values[1]}>"


def _init(folder: Path, message: str) -> None:
    """Make *folder* a repository with its files as the base commit, in the checkout's user's name.

    Where git has no user, commits get a local name; the mailable series asks for a real one.
    """
    name, _, address = (identity(paths.repo()) or "local <local@localhost>").rpartition(" ")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", name)
    git(folder, "config", "user.email", address.strip("<>"))
    git(folder, "-c", "core.compression=1", "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", message)
    git(folder, "tag", BASE_TAG)


def _unhide(ignores: Path) -> None:
    """Take out of *ignores* the lines of Debian's packaging that hide every new file from git."""
    lines = ignores.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if line.strip() not in ("/*", "!/debian/"))
    File(kept.encode()).write(ignores)


def _commit(folder: Path, taken: _Taken, number: int, message: str) -> None:
    """Commit topic *number* of *taken* in the repository *folder*."""
    topic = taken.topics[number]
    if topic.diff:
        layer.apply(taken.patches[number], folder, "--index")
    for path in topic.overlay:
        taken.overlay[path].write(folder / path)
    if topic.overlay:
        git(folder, "add", "--force", "--", *topic.overlay)
    author = ("--author", topic.author) if topic.author else ()
    command = ("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", *author, "--file=-")
    git(folder, *command, stdin=message)


@dataclass(frozen=True)
class Series:
    """The written series: its patch files, and what checkpatch says of them."""

    patches: list[Path]
    reports: list[Report]


def write_series(source: Source, output: Path, *, group: str | None = None) -> Series:
    """Write the topics as a mailable git series to the folder *output* and check each patch.

    With a *group* the series holds its patches alone, which apply to a tree with those of the
    groups that it needs, and its COVER.md as the cover letter. The commits are signed off by git's
    user in the checkout. Patches of an earlier series in *output* are removed.

    Raises:
        FlatbootError: git has no user, or a hook does not apply.
    """
    if not identity(paths.repo()):
        raise FlatbootError(
            "git has no user to sign the series off: set git config user.name and user.email"
        )
    taken = _taken(source, group)
    with tempfile.TemporaryDirectory(prefix="flatboot-series-") as scratch:
        folder = Path(scratch)
        hooked = {name for topic in taken.topics for name in layer.touched(topic.diff)}
        for name in {"Makefile", *hooked} - taken.overlay.keys():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.directory() / name, folder / name)
        _init(folder, f"Linux {source.version()}")
        first = BASE_TAG
        for number, topic in enumerate(taken.topics):
            _commit(folder, taken, number, topic.message)
            if group and topic.group != group:
                first = git(folder, "rev-parse", "HEAD").strip()
        command = ["format-patch", "--quiet", "--signoff", "--output-directory=.out"]
        if group:
            git(folder, "config", "branch.main.description", _letter(taken.groups[-1]))
            command += ["--cover-letter", "--cover-from-description=subject"]
        git(folder, *command, f"{first}..main")
        output.mkdir(parents=True, exist_ok=True)
        for old in output.glob("[0-9][0-9][0-9][0-9]-*.patch"):
            old.unlink()
        written = sorted((folder / ".out").glob("*.patch"))
        patches = [Path(shutil.move(path, output / path.name)) for path in written]
    checked = [path.name for path in patches if not path.name.startswith("0000-")]
    with progress.step("checkpatch", None):
        reports = checkpatch.check(source.directory(), output.resolve(), checked)
    return Series(patches, reports)


def _letter(group: Group) -> str:
    """Return the cover letter of *group*: its subject, an empty line, and its text.

    Raises:
        FlatbootError: it has none.
    """
    file = group.folder / "COVER.md"
    if not file.is_file():
        raise FlatbootError(f"the group {group.name} has no cover letter: write {file}")
    return _MARK.sub("", file.read_text()).removeprefix("# ")


def build_each(
    source: Source, config: str, arch: str, cc: str, *, group: str | None = None
) -> None:
    """Build the tree after each topic, in order: of all groups, or of *group* and what it needs.

    Options that a later topic brings do not take before it; after the last topic all must.

    Raises:
        FlatbootError: a step does not build; the sentence names its topic.
    """
    taken = _taken(source, group)
    loaded = arches.load(arch)
    resolved = kconfig.resolve(config, taken.groups, loaded)
    wanted = build.Request(source, "flatboot", taken.groups, resolved, loaded, cc)
    for number, topic in enumerate(taken.topics, 1):
        done = taken.topics[:number]
        step = topics.layer_after(done, taken.patches, taken.overlay, source.directory())
        with tree.work_tree(source, "series", step) as where:
            maker = make.Make(where, where / wanted.objects_name, wanted.arch, cc)
            kconfig.configure(maker, wanted.config, check=number == len(taken.topics))
            title = f"step {number} of {len(taken.topics)}, {topic.path}"
            build.compile_kernel(maker, title, "vmlinux", Path(loaded.image).name)
