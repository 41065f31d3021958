"""Topics: a hook patch, with its message, and the overlay files that come with it.

A topic is one commit of the mailable series, and belongs to a group. Its patch in the group's
hooks/<base>/ is a mail-style patch: an optional From line (left out where the author is the
checkout's own git user), the subject, the body, a line "---", and the diff of the files that the
base or an earlier group has. The files that nobody had before are whole in the group's overlay/;
overlay.toml beside it says which topic brings which.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic
from flatboot.common.errors import FlatbootError
from flatboot.kernel import groups, layer
from flatboot.kernel.groups import Group
from flatboot.kernel.layer import File, Layer

_HEADER = """\
# Which topic (a patch in hooks/<base>/, without its .patch) brings which files of overlay/: they
# form one commit of the series together. `flatboot kernel refresh` rewrites this file.

[topics]
"""


@dataclass(frozen=True)
class Topic:
    """One commit of the series.

    Attributes:
        group: the name of the group that it belongs to.
        name: the patch's file name without ``.patch``.
        author: "Name <address>", or empty for the checkout's own git user.
        subject: the subject without ``[PATCH]``.
        body: the rest of the message, without blank lines around it.
        diff: the diff of files that the base or an earlier group has; may be empty.
        overlay: the paths of the overlay files, sorted.
    """

    group: str
    name: str
    author: str
    subject: str
    body: str
    diff: str
    overlay: tuple[str, ...]

    @property
    def path(self) -> str:
        """What ties a commit to it, such as "memory-map/deferred-init"."""
        return f"{self.group}/{self.name}"

    @property
    def message(self) -> str:
        """The commit message."""
        return f"{self.subject}\n\n{self.body}\n" if self.body else f"{self.subject}\n"

    def format(self) -> str:
        """Return the patch file's text."""
        author = f"From: {self.author}\n" if self.author else ""
        body = f"{self.body}\n" if self.body else ""
        return f"{author}Subject: {self.subject}\n\n{body}---\n{self.diff}"


def parse(group: str, name: str, text: str, overlay: Sequence[str]) -> Topic:
    """Return the topic of *group* that a patch file's *text* is.

    Raises:
        FlatbootError: it has no subject, or no line "---" before the diff.
    """
    head, _, rest = text.partition("\n\n")
    body, separator, diff = ("\n" + rest).partition("\n---\n")
    fields = dict(re.findall(r"^(From|Subject): (.*)$", re.sub(r"\n[ \t]+", " ", head), re.M))
    subject = re.sub(r"^\[PATCH[^]]*\] *", "", fields.get("Subject", ""))
    if not subject or not separator:
        raise FlatbootError(
            f"{name}.patch must have a Subject line, a blank line, the message, a line '---' and "
            "the diff"
        )
    start = diff.find("diff --git ")
    return Topic(
        group=group,
        name=name,
        author=fields.get("From", ""),
        subject=subject,
        body=body.strip("\n"),
        diff=diff[start:] if start >= 0 else "",
        overlay=tuple(sorted(overlay)),
    )


def read(taken: Sequence[Group], base: str) -> list[Topic]:
    """Return the topics of the groups *taken* for *base*, in order.

    Raises:
        FlatbootError: an overlay file belongs to no topic or to two, or overlay.toml names a file
            or a topic that is not there.
    """
    return [topic for group in taken for topic in _of_group(group, base)]


def _of_group(group: Group, base: str) -> list[Topic]:
    owners = layer.owners(group)
    patches = layer.series(group.hooks(base))
    names = {path.stem for path in group.folder.glob("hooks/*/*.patch")}
    there = layer.files(group)
    where = group.folder / "overlay.toml"
    listed = [path for files in owners.values() for path in files]
    problems = [
        *(f"topic {name} has no patch" for name in owners if name not in names),
        *(f"{path} is not in overlay/" for path in listed if path not in there),
        *(
            f"{path} belongs to two topics"
            for path in sorted(set(listed))
            if listed.count(path) > 1
        ),
        *(f"{path} belongs to no topic" for path in there if path not in listed),
    ]
    if problems:
        raise FlatbootError(f"{where} is wrong: {'; '.join(problems)}")
    return [
        parse(group.name, path.stem, path.read_text(), owners.get(path.stem, ()))
        for path in patches
    ]


def layer_after(
    done: Sequence[Topic], patches: Sequence[Path], overlay: dict[str, File], tree: Path
) -> Layer:
    """Return the layer of the topics *done*, the first of those that *patches* belong to.

    Args:
        done: topics in order.
        patches: the patch of each topic, and of those that come later.
        overlay: the files that all topics bring.
        tree: the base.

    Raises:
        FlatbootError: as ``layer.make`` does.
    """
    files = {path: overlay[path] for topic in done for path in topic.overlay}
    return layer.make(tree, patches[: len(done)], files)


def write(base: str, topics: Sequence[Topic], overlay: dict[str, File]) -> list[Path]:
    """Make hooks for *base*, overlay.toml and overlay/ of each group what is given.

    Files that are so already are left alone; patches and overlay files of no topic are removed.
    Groups, and topics of them, that only other bases have keep what they have.

    Returns:
        The files that were written or removed.
    """
    changed = []
    for group in groups.every():
        own = [topic for topic in topics if topic.group == group.name]
        if own or group.serves(base):
            changed += _write_group(group, base, own, overlay)
    return changed


def _write_group(
    group: Group, base: str, topics: Sequence[Topic], overlay: dict[str, File]
) -> list[Path]:
    hooks = group.hooks(base)
    there = set(layer.files(group).values())
    there.update(hooks.glob("*.patch"), hooks.glob("series"), group.folder.glob("overlay.toml"))
    elsewhere = {
        path.stem for path in group.folder.glob("hooks/*/*.patch") if path.parent != hooks
    } - {topic.name for topic in topics}
    kept = {name: paths for name, paths in layer.owners(group).items() if name in elsewhere}
    there -= {group.overlay / path for paths in kept.values() for path in paths}
    brought = {topic.name: topic.overlay for topic in topics if topic.overlay}
    wanted = {
        **{hooks / f"{topic.name}.patch": File(topic.format().encode()) for topic in topics},
        **{
            group.overlay / path: overlay[path]
            for paths in brought.values()
            for path in paths
            if path in overlay
        },
    }
    if topics:
        wanted[hooks / "series"] = File("".join(f"{t.name}.patch\n" for t in topics).encode())
    if brought or kept:
        wanted[group.folder / "overlay.toml"] = File(_overlay_toml(brought | kept).encode())
    changed = []
    for path in sorted(there - wanted.keys()):
        path.unlink()
        changed.append(path)
    for path, file in wanted.items():
        if not path.is_file() or File.read(path) != file:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic.new_file(path) as new:
                new.write_bytes(file.content)
            path.chmod(0o755 if file.executable else 0o644)
            changed.append(path)
    return changed


def _overlay_toml(owners: dict[str, tuple[str, ...]]) -> str:
    parts = [_HEADER]
    for name, paths in sorted(owners.items()):
        files = "".join(f"  {_quoted(path)},\n" for path in paths)
        parts.append(f"{_quoted(name)} = [\n{files}]\n")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    """Return *text* as a TOML string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
