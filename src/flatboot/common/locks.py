"""Locks between processes that share the cache folder."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from flatboot.common import progress


@contextlib.contextmanager
def exclusive(path: Path, doing: str) -> Iterator[None]:
    """Hold the lock file *path*, waiting for the process that holds it, if any.

    The lock goes with the process, however it ends. *doing* is what the holder does, for the line
    that tells of the wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another flatboot: {doing}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
