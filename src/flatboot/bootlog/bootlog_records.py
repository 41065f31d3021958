"""Forms that spread a message over several lines: what of journalctl and dmesg is so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: A field of ``journalctl -o export``, and of ``-o verbose``, which is indented.
_FIELD = re.compile(r" {0,4}([A-Z_][A-Z0-9_]*)=(.*)")
_FIRST = "__CURSOR"
_VERBOSE = re.compile(r"\w{3} \d{4}-\d\d-\d\d [\d:.]+ \S+ \[s=[0-9a-f]+;")
#: A member of an object of JSON that stands on a line of its own.
_MEMBER = re.compile(r'\s*"(\w+)"\s*:\s*(.+?),?$')
_OPEN, _CLOSE = re.compile(r"\s*(?:\[\s*)?(?:\}\s*,\s*)?\{$"), re.compile(r"\s*\}[\s,\]}]*$")


class Records:
    """Puts the lines of a message together.

    ``add`` says whether a line is a part of one; ``taken`` then has the messages that are whole, as
    the fields that they have.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._whole: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {}
        #: How the message that is open is written: "", "fields" or "json".
        self._form = ""

    def add(self, text: str) -> bool:
        """Return whether *text* is a part of such a message, and take it."""
        if text.startswith(_FIRST) or _VERBOSE.match(text):
            self._begin("fields")
        elif _OPEN.match(text):
            self._begin("json")
            return True
        if self._form == "fields":
            return self._add_field(text)
        return self._form == "json" and self._add_member(text)

    @property
    def open(self) -> bool:
        """Whether a message has begun and may go on."""
        return bool(self._form)

    def end(self) -> Iterator[dict[str, Any]]:
        """Yield what is left when there are no more lines."""
        self._begin("")
        yield from self.taken()

    def taken(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that are whole, once each."""
        while self._whole:
            yield self._whole.pop(0)

    def _begin(self, form: str) -> None:
        if self._fields:
            self._whole.append(self._fields)
        self._fields, self._form = {}, form

    def _add_field(self, text: str) -> bool:
        if match := _FIELD.match(text):
            self._fields[match[1]] = match[2]
        elif not _VERBOSE.match(text):
            self._begin("")
            return False
        return True

    def _add_member(self, text: str) -> bool:
        if _CLOSE.match(text):
            self._begin("")
        elif match := _MEMBER.match(text):
            try:
                self._fields[match[1]] = json.loads(match[2])
            except ValueError:  # an object or a list that goes on in the next line
                return True
        else:
            self._begin("")
            return False
        return True
