"""What the disk says, as one sentence."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from flatboot.common import paths
from flatboot.common.errors import FlatbootError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def full_is_an_error() -> Iterator[None]:
    """Turn "no space left" within the body into a FlatbootError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        folder = paths.cache()
        free = shutil.disk_usage(folder).free
        where = f" to write {error.filename}" if error.filename else ""
        raise FlatbootError(
            f"no space left{where} ({free / 1e9:.1f} GB are free in {folder}): make room, or set "
            "XDG_CACHE_HOME to a folder on another disk"
        ) from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system within the body into a sentence about *path*."""
    try:
        yield
    except OSError as error:
        raise FlatbootError(f"cannot write {path}: {error.strerror}") from error


@contextlib.contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turn an error of the file system within the body into a sentence about the file *name*."""
    try:
        yield
    except OSError as error:
        raise FlatbootError(f"cannot read {name}: {error.strerror}") from error
