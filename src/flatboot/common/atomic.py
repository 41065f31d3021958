"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def new_file(final: Path) -> Iterator[Path]:
    """Yield a temporary sibling of *final* to write to; it takes the name *final* on success.

    On any exception, Ctrl-C included, the temporary file is removed and *final* is untouched.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", dir=final.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_dir(final: Path) -> Iterator[Path]:
    """Yield a temporary sibling folder of *final*; it takes the name *final* on success.

    Where *final* exists by then (another process was quicker), the finished twin wins and ours is
    removed. On any exception, Ctrl-C included, the temporary folder is removed.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.rename(final)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        if temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)
