"""A matrix of boots, as a TOML file or options name it: kernels, parameters and machines."""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from flatboot.common import disk, units
from flatboot.common.errors import UsageError
from flatboot.guest import machine
from flatboot.guest.boot_spec import CLOCKS, Clock
from flatboot.guest.machine import Machine
from flatboot.kernel import bases

_AXES = ("kernel", "cmdline", "memory", "cpus", "nodes")
_KEYS = ("kernels", *_AXES[1:], "exclude", "repetitions", "clock", "phases", "trace", "timeout")
_SHOWN = 3
#: The name of the empty command line where none is named.
PLAIN = "plain"
#: The config of a kernel that names none.
CONFIG = "bench"

_T = TypeVar("_T", bool, int, str)


@dataclass(frozen=True)
class Kernel:
    """A kernel of the matrix.

    Attributes:
        name: its name in the matrix.
        source: a base's name, or the absolute path of a tree or tarball; "" if it is built.
        flavour: "stock" or "flatboot".
        config: name of a config, or the path of a full .config.
        arch: name of the architecture.
        built: the folder of a kernel that is built already, or its vmlinux.
    """

    name: str
    source: str
    flavour: str
    config: str
    arch: str
    built: Path | None


@dataclass(frozen=True)
class Cell:
    """One boot of the matrix.

    Attributes:
        kernel: the kernel.
        parameters: the name of its command line.
        cmdline: the kernel parameters.
        machine: the machine.
        repetition: 1 for the first time that this is booted, 2 for the second ...
    """

    kernel: Kernel
    parameters: str
    cmdline: str
    machine: Machine
    repetition: int

    @property
    def title(self) -> str:
        """The cell in a few words, for people."""
        name = self.kernel.name + f" {self.parameters}" * bool(self.cmdline)
        again = f", run {self.repetition}" if self.repetition > 1 else ""
        return f"{name}, {self.machine.title}{again}"


@dataclass(frozen=True)
class Matrix:
    """The boots that are asked for.

    Attributes:
        cells: the boots in the order in which they are done: each repetition of all comes before
            the next, and the kernels take turns on each machine.
        clock: "exact" or "wall".
        phases: whether to find out where the time goes.
        trace: whether to trace the callbacks of CPU bring-up.
        timeout_s: host seconds that each run of a guest may take.
    """

    cells: tuple[Cell, ...]
    clock: Clock
    phases: bool
    trace: bool
    timeout_s: float


def load(path: Path) -> Matrix:
    """Read a matrix file; relative paths in it are relative to its folder.

    Raises:
        FlatbootError: it cannot be read.
        UsageError: it is no TOML, or ``parse`` does not take it.
    """
    try:
        with disk.reading(path):
            data = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    return parse(data, str(path), path.parent)


def parse(data: Mapping[str, Any], where: str, folder: Path) -> Matrix:
    """Return the matrix that *data* describes; docs/sweep.md has the keys.

    Args:
        data: the keys and values, as of a TOML file.
        where: what they come from, for the errors.
        folder: what relative paths start from.

    Raises:
        UsageError: a key is unknown, a value makes no sense or comes twice, a list is empty, or a
            machine cannot be made; the sentence says which.
    """
    try:
        return _parse(data, folder)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _parse(data: Mapping[str, Any], folder: Path) -> Matrix:
    _known("key", data, _KEYS)
    kernels = _kernels(data.get("kernels", {"flatboot": {}}), folder)
    axes: dict[str, dict[Hashable, Any]] = {
        "kernel": {kernel.name: kernel for kernel in kernels},
        "cmdline": _cmdlines(data.get("cmdline", {PLAIN: ""})),
        "memory": _axis("memory", data.get("memory", "2G")),
        "cpus": _axis("cpus", data.get("cpus", 1)),
        "nodes": _axis("nodes", data.get("nodes", 1)),
    }
    excluded = _exclude(data.get("exclude", []), axes)
    repetitions = _is(int, "repetitions", data.get("repetitions", 1))
    if repetitions < 1:
        raise UsageError(f"repetitions = {repetitions}: ask for at least one")
    clock = data.get("clock", "exact")
    if clock not in CLOCKS:
        raise UsageError(f"unknown clock {clock!r}: choose one of {', '.join(CLOCKS)}")
    timeout = data.get("timeout", 600)
    if not isinstance(timeout, int | float) or timeout <= 0:
        raise UsageError(f"timeout = {timeout!r}: give the seconds that a boot may take")
    return Matrix(
        cells=_cells(axes, excluded, repetitions),
        clock=CLOCKS[clock],
        phases=_is(bool, "phases", data.get("phases", True)),
        trace=_is(bool, "trace", data.get("trace", False)),
        timeout_s=timeout,
    )


def _cells(
    axes: Mapping[str, Mapping[Hashable, Any]],
    excluded: Callable[[Mapping[str, Hashable]], bool],
    repetitions: int,
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    impossible: list[str] = []
    # The last axis changes fastest.
    order = ("memory", "cpus", "nodes", "cmdline", "kernel")
    machines = itertools.product(*(axes[axis] for axis in order))
    named = [dict(zip(order, values, strict=True)) for values in machines]
    for names in (names for names in named if not excluded(names)):
        kernel = axes["kernel"][names["kernel"]]
        try:
            made = machine.machine(
                kernel.arch,
                axes["memory"][names["memory"]],
                axes["cpus"][names["cpus"]],
                machine.parse_nodes(axes["nodes"][names["nodes"]]),
            )
        except UsageError as error:
            shown = ", ".join(f"{axis} {_shown(axis, names[axis])}" for axis in reversed(order))
            impossible.append(f"the cell {shown} is impossible: {error}")
            continue
        cmdline = axes["cmdline"][names["cmdline"]]
        cells.append(Cell(kernel, str(names["cmdline"]), cmdline, made, 1))
    if impossible:
        rest = len(impossible) - _SHOWN
        more = f"; and {rest} more" if rest > 0 else ""
        raise UsageError("; ".join(impossible[:_SHOWN]) + more + "; change or exclude")
    if not cells:
        raise UsageError("all cells are excluded: nothing is left to boot")
    return tuple(
        dataclasses.replace(cell, repetition=repetition)
        for repetition in range(1, repetitions + 1)
        for cell in cells
    )


def _shown(axis: str, value: Hashable) -> str:
    return units.short_size(value) if axis == "memory" and isinstance(value, int) else str(value)


def _kernels(data: Any, folder: Path) -> list[Kernel]:
    if not isinstance(data, dict) or not data:
        raise UsageError("kernels must be tables, such as [kernels.stock]")
    return [_kernel(name, table, folder) for name, table in data.items()]


def _kernel(name: str, data: Any, folder: Path) -> Kernel:
    title = f"kernels.{name}"
    if not isinstance(data, dict):
        raise UsageError(f"{title} must be a table")
    _known(f"{title} key", data, ("base", "tree", "kernel", "flavour", "config", "arch"))
    fields = {key: _is(str, f"{title}.{key}", value) for key, value in data.items()}
    if len({"base", "tree", "kernel"} & fields.keys()) > 1:
        raise UsageError(f"{title} has more than one of base, tree and kernel: leave one")
    if "kernel" in fields and {"flavour", "config"} & fields.keys():
        raise UsageError(f"{title}.kernel is built already: leave out flavour and config")
    config = fields.get("config", CONFIG)
    if (folder / config).is_file():
        config = str((folder / config).resolve())
    paths = {
        key: (folder / Path(fields[key]).expanduser()).resolve()
        for key in ("tree", "kernel")
        if key in fields
    }
    for key, path in paths.items():
        if not path.exists():
            raise UsageError(f"{title}.{key}: there is no {path}")
    built = paths.get("kernel")
    source = str(paths["tree"]) if "tree" in paths else fields.get("base", bases.default())
    return Kernel(
        name=name,
        source="" if built else source,
        flavour=fields.get("flavour", "flatboot"),
        config=config,
        arch=fields.get("arch", "x86_64"),
        built=built,
    )


def _cmdlines(data: Any) -> dict[Hashable, str]:
    if not isinstance(data, dict) or not data:
        raise UsageError('cmdline must be a table, such as lazy = "deferred_init=lazy"')
    named = {name: _is(str, f"cmdline.{name}", text).strip() for name, text in data.items()}
    _unique("cmdline", list(named.values()))
    return dict(named)


def _axis(name: str, value: Any) -> dict[Hashable, Any]:
    """Return the values of an axis, by themselves; a value alone is a list of one."""
    values = _values(name, value)
    if not values:
        raise UsageError(f"{name} is an empty list: give it a value")
    _unique(name, values)
    return {item: item for item in values}


def _values(axis: str, value: Any) -> list[Hashable]:
    return [_read(axis, item) for item in (value if isinstance(value, list) else [value])]


def _read(axis: str, value: Any) -> Hashable:
    if axis == "memory":
        return units.size(value)
    if axis == "cpus":
        return _is(int, axis, value)
    if axis == "nodes":
        text = value if isinstance(value, str) else str(_is(int, axis, value))
        machine.parse_nodes(text)
        return text
    return _is(str, axis, value)


def _unique(axis: str, values: Sequence[Hashable]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UsageError(f"{axis} has {_shown(axis, value)!r} twice: leave one out")


def _exclude(
    rules: Any, axes: Mapping[str, Mapping[Hashable, Any]]
) -> Callable[[Mapping[str, Hashable]], bool]:
    """Return what tells whether a cell, by its value on each axis, is excluded by one of *rules*.

    A rule excludes the cells that have, on each axis that it names, one of the values it lists.
    """
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and rule for rule in rules):
        raise UsageError("exclude must be tables with something in them, written [[exclude]]")
    parsed: list[dict[str, list[Hashable]]] = []
    for number, rule in enumerate(rules, 1):
        _known(f"key in exclude rule {number}", rule, _AXES)
        parsed.append({axis: _values(axis, value) for axis, value in rule.items()})
        for axis, values in parsed[-1].items():
            for value in values:
                if value not in axes[axis]:
                    raise UsageError(
                        f"exclude rule {number} names {axis} {_shown(axis, value)!r}, which is not"
                        " in the matrix"
                    )
    return lambda cell: any(
        all(cell[axis] in values for axis, values in rule.items()) for rule in parsed
    )


def _known(what: str, data: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in data:
        if key not in allowed:
            raise UsageError(f"unknown {what} {key!r}: there are {', '.join(allowed)}")


def _is(kind: type[_T], name: str, value: Any) -> _T:
    # A truth value is an int to Python, but not to whoever writes a matrix.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {bool: "true or false", int: "a whole number", str: "a text in quotes"}
        raise UsageError(f"{name} = {value!r}: write {words[kind]}")
    return value
