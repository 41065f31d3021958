"""The errors that end a command with one sentence instead of a traceback."""

from __future__ import annotations


class FlatbootError(Exception):
    """A failure that the user can act on; its text is one sentence: what, where, what to do."""


class UsageError(FlatbootError):
    """A request that cannot be carried out as it was written, such as an unknown base or size."""
