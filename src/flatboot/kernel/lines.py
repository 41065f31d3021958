"""Lines of code of a group: what its files hold and what its hooks add, without what is no code."""

from __future__ import annotations

import re

from flatboot.kernel import layer
from flatboot.kernel.groups import Group

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
#: Neither tests nor tracepoints, nor what stands in for the kernel in a program of its own.
_LEFT_OUT = re.compile(r"(_test|_kunit)\.c$|^include/trace/|^tools/")


def own_files(group: Group, base: str) -> int:
    """Return the lines of C in the overlay of *group* for *base*.

    Without comments, empty lines, tests and tracepoints.
    """
    return sum(
        _code(file.content.decode())
        for name, file in layer.overlay([group], base).items()
        if _counts(name)
    )


def hooks(group: Group, base: str) -> int:
    """Return the lines of C that the hooks of *group* for *base* add, counted alike."""
    total = 0
    for patch in layer.series(group.hooks(base)):
        for part in re.split(r"^diff --git ", patch.read_text(), flags=re.MULTILINE)[1:]:
            if _counts(part.split()[0].removeprefix("a/")):
                total += sum(_code(hunk) for hunk in _added(part))
    return total


def _counts(name: str) -> bool:
    return name.endswith((".c", ".h", ".S")) and not _LEFT_OUT.search(name)


def _added(diff: str) -> list[str]:
    """Return each run of added lines; a comment that is added in part may begin or end outside."""
    runs = re.findall(r"(?:^\+(?!\+\+ ).*\n?)+", diff, re.MULTILINE)
    texts = (re.sub(r"^\+", "", run, flags=re.MULTILINE) for run in runs)
    return [re.sub(r"\A(?:[ \t]+\*(?:[ \t/].*)?\n)+", "", text) for text in texts]


def _code(text: str) -> int:
    without = re.sub(r"/\*(?:(?!\*/).)*\Z", "", _COMMENT.sub("", text), flags=re.DOTALL)
    return sum(1 for line in without.splitlines() if line.strip())
