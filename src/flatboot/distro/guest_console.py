"""What is said of a guest that came to its end too early."""

from __future__ import annotations

from pathlib import Path

from flatboot.common.errors import FlatbootError

_LAST_LINES = 10


def ended_early(what: str, console: Path) -> FlatbootError:
    """Return an error that says *what* the guest did not do, with the last lines of its console."""
    last = console.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return FlatbootError("\n".join([f"the guest ended before it {what}; its last words:", *last]))
