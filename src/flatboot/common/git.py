"""git, independent of the user's settings and of the repository around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flatboot.common import processes

_PLAIN = {
    "commit.gpgsign": "false",
    "core.autocrlf": "false",
    "core.hooksPath": "/dev/null",
    "core.quotePath": "false",
    "format.signature": "",
    "gc.auto": "0",
    "advice.detachedHead": "false",
}
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")


def git(
    folder: Path,
    *arguments: str | Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run git in *folder*, never in a repository above it, and return its output.

    Raises:
        processes.CommandFailed: git's status is not 0.
    """
    settings = [word for name, value in _PLAIN.items() for word in ("-c", f"{name}={value}")]
    return processes.run(
        ["git", *settings, *arguments],
        what=f"git {arguments[0]} in {folder}",
        cwd=folder,
        stdin=stdin,
        env={**(env or {}), "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)},
        without=_INHERITED,
    )
