"""What a projection takes for granted, and what was published: projection*.toml as objects."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flatboot.analysis.cpu_work import Part
from flatboot.common import typed
from flatboot.common.errors import UsageError

Runs = Literal["once", "prepare", "online", "set up", "beside"]
Over = Literal["possible", "online"]
Column = Literal["before", "after"]


@dataclass(frozen=True)
class Term:
    """What the exact clock cannot see; see projection.toml.

    Attributes:
        what: what it is.
        unit: of the value, such as "s".
        low: the lower end of its range; a factor of the value if it follows from a *row*.
        high: the upper end, likewise.
        source: why it is that.
        value: in the unit; 0 if it follows from a *row*.
        row: the published row from which it follows; "" for none.
    """

    what: str
    unit: str
    low: float
    high: float
    source: str
    value: float = 0
    row: str = ""


@dataclass(frozen=True)
class Way:
    """A way to boot; see projection.toml.

    Attributes:
        name: kernel or parameter.
        base: the base of the records that it goes by.
        kernel: their flavour.
        parameter: what those have on their command line, and no others; "" for nothing.
        group: whether the CPUs of boot run their online callbacks at the same time.
        tree: whether CPUs that are up prepare and release others.
        online: how many CPUs boot brings up; 0 for all.
        published: which column of the published figures is of such a kernel, if one is.
    """

    name: str
    base: str
    kernel: str
    group: bool = False
    tree: bool = False
    online: int = 0
    parameter: str = ""
    published: Column | None = None

    @property
    def boots(self) -> str:
        """The name of the boots that it goes by."""
        return f"{self.kernel} {self.parameter}".strip()


@dataclass(frozen=True)
class Rule:
    """Who runs some parts, and what may run at the same time; see projection.toml."""

    kind: str
    phase: str
    runs: Runs
    reason: str
    functions: tuple[str, ...] = ()
    over: Over = "possible"
    parallel: bool = False
    at_once: int = 0
    spread: bool = False
    grouped: bool = False
    per_node: float = 0
    handshakes: float = 0
    errands: float = 0
    turns: float = 0
    exits: float = 0


@dataclass(frozen=True)
class Row:
    """A published figure; see projection_published.toml.

    Attributes:
        name: as published.
        cpus: CPUs of the machine.
        nodes: its NUMA nodes.
        before: seconds without the fixes; None if there is no such figure.
        after: seconds with them; likewise.
        phases: the phases that it is.
        without: functions that are not in it although their phase is.
        functions: the functions that it is.
    """

    name: str
    cpus: int
    nodes: int
    before: float | None = None
    after: float | None = None
    phases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    def seconds(self, column: Column | None) -> float | None:
        """Return the figure of *column*; None if there is none."""
        return {"before": self.before, "after": self.after, None: None}[column]

    @property
    def here(self) -> bool:
        """Whether the kernels of the records have it."""
        return bool(self.phases or self.functions)

    def has(self, function: str, phase: str) -> bool:
        """Return whether *function*, which belongs to *phase*, is part of it."""
        return function in self.functions or (phase in self.phases and function not in self.without)


@dataclass(frozen=True)
class Rules:
    """projection.toml.

    Attributes:
        terms: by name.
        phases: of a boot, in their order.
        ways: how to boot; from the first follow the terms that go by published rows.
        parts: who runs which.
        assumed: what is taken for granted without a number: a word, and a text.
        targets: what is asked for: "bring_up" of the ways with groups to the first one, and
            "to_init" of the ways that bring up few CPUs to a machine that has no more.
    """

    terms: dict[str, Term]
    phases: tuple[str, ...]
    ways: tuple[Way, ...]
    parts: tuple[Rule, ...]
    assumed: dict[str, str]
    targets: dict[str, float]

    def of(self, part: Part) -> Rule:
        """Return the rule for *part*.

        Raises:
            KeyError: there is none for its kind.
        """
        named = (rule for rule in self.parts if part.function in rule.functions)
        kinds = (rule for rule in self.parts if not rule.functions)
        for rule in (*named, *kinds):
            if rule.kind == part.kind:
                return rule
        raise KeyError(f"projection.toml has no rule for parts that are {part.kind!r}")


@functools.cache
def rules(base: str = "") -> Rules:
    """Return projection.toml, with the ways to boot *base*, or that of the first way.

    Raises:
        UsageError: there is none.
    """
    every = typed.load(Path(__file__).with_name("projection.toml"), Rules)
    base = base or every.ways[0].base
    ways = tuple(way for way in every.ways if way.base == base)
    if not ways:
        names = ", ".join(dict.fromkeys(way.base for way in every.ways))
        raise UsageError(f"no projection is known for the base {base}: choose one of {names}")
    return dataclasses.replace(every, ways=ways)


@functools.cache
def published() -> tuple[Row, ...]:
    """Return the rows of projection_published.toml."""
    path = Path(__file__).with_name("projection_published.toml")
    return typed.load(path, dict[str, tuple[Row, ...]])["rows"]
