"""A log without names, addresses, serial numbers and keys, so that it can be shown to others."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import typed


@dataclass(frozen=True)
class RedactionRule:
    """An entry of redact.toml, which says what each field means."""

    kind: str
    pattern: re.Pattern[str]
    by: str
    keep: re.Pattern[str] | None = None


RULES = typed.load(Path(__file__).with_name("redact.toml"), dict[str, tuple[RedactionRule, ...]])[
    "rules"
]


class Redactor:
    """Replaces secrets, equal ones by equal words.

    Attributes:
        counts: how many different secrets of each kind were found.
    """

    def __init__(self) -> None:
        """Begin with no secrets."""
        self._known: dict[str, dict[str, str]] = {}
        # Of what replaces secrets nothing is replaced again.
        self._made: set[str] = set()

    @property
    def counts(self) -> dict[str, int]:
        """How many different secrets of each kind there are."""
        return {kind: len(found) for kind, found in self._known.items()}

    def lines(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield *texts*, lines of a log, without their secrets."""
        return map(self.line, texts)

    def line(self, text: str) -> str:
        """Return a line of a log without its secrets."""
        for rule in RULES:
            text = rule.pattern.sub(functools.partial(self._replaced, rule), text)
        return text

    def _replaced(self, rule: RedactionRule, match: re.Match[str]) -> str:
        group = "secret" if "secret" in rule.pattern.groupindex else 0
        secret, whole = match[group], match[0]
        if secret in self._made or (rule.keep and rule.keep.match(secret)):
            return whole
        known = self._known.setdefault(rule.kind, {})
        word = known.setdefault(secret.lower(), rule.by.format(n=len(known) + 1))
        self._made.add(word)
        start = match.start(group) - match.start()
        return f"{whole[:start]}{word}{whole[start + len(secret) :]}"
