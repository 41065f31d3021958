"""The errors that end a command with one sentence instead of a traceback."""

from __future__ import annotations

from collections.abc import Collection


class FlatbootError(Exception):
    """A failure that the user can act on; its text is one sentence: what, where, what to do."""


class UsageError(FlatbootError):
    """A request that cannot be carried out as it was written, such as an unknown base or size."""


def check_known(what: str, name: str, names: Collection[str]) -> None:
    """Check that *name* is one of *names*, each of which is a *what*.

    Raises:
        UsageError: it is not; the error lists them.
    """
    if name not in names:
        raise UsageError(f"unknown {what} {name!r}: choose one of {', '.join(names)}")
