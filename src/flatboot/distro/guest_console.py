"""A guest whose console is a file, and what is said of it when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flatboot.common import processes
from flatboot.common.errors import FlatbootError

_LAST_LINES = 10


def run(command: Sequence[str], what: str, console: Path, limit_s: float) -> None:
    """Run QEMU, as *command*, to the end of the guest, which writes to *console*.

    Raises:
        FlatbootError: QEMU failed, or the guest did not end within *limit_s* seconds.
    """
    try:
        processes.run(command, what=what, limit_s=limit_s)
    except processes.TookTooLong as error:
        raise failed(str(error), console) from error


def failed(what: str, console: Path) -> FlatbootError:
    """Return an error that says *what* failed, with the last lines of the guest's console."""
    text = console.read_text(errors="replace") if console.is_file() else ""
    return FlatbootError("\n".join([f"{what}; its last words:", *text.splitlines()[-_LAST_LINES:]]))
