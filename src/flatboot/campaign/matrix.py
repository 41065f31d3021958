"""A matrix of boots, as a TOML file or options name it: kernels, parameters and machines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from flatboot.common import typed, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import machine
from flatboot.guest.boot_spec import Clock
from flatboot.guest.machine import Machine
from flatboot.kernel import bases

_SHOWN = 3
#: The name of the empty command line where none is named.
PLAIN = "plain"
#: The config of a kernel that names none.
CONFIG = "bench"


@dataclass(frozen=True)
class MatrixKernel:
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

    kernel: MatrixKernel
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


def _nodes(value: Any) -> Any:
    text = str(value) if type(value) is int else value
    if isinstance(text, str):
        machine.parse_nodes(text)
    return text


def _values(value: Any) -> Any:
    """Return a value alone as a list of one."""
    return tuple(value) if isinstance(value, list) else (value,)


_Cpus = Annotated[tuple[int, ...], BeforeValidator(_values)]
_Memory = Annotated[
    tuple[Annotated[int, BeforeValidator(units.size)], ...], BeforeValidator(_values)
]
_Names = Annotated[tuple[str, ...], BeforeValidator(_values)]
_Nodes = Annotated[tuple[Annotated[str, BeforeValidator(_nodes)], ...], BeforeValidator(_values)]
_Some = Field(min_length=1)


@dataclass(frozen=True)
class _KernelTable:
    base: str | None = None
    tree: str | None = None
    kernel: str | None = None
    flavour: str | None = None
    config: str | None = None
    arch: str = "x86_64"


@dataclass(frozen=True)
class _Exclude:
    """Excludes the cells that have, on each axis that is named, one of the values listed."""

    kernel: _Names = ()
    cmdline: _Names = ()
    memory: _Memory = ()
    cpus: _Cpus = ()
    nodes: _Nodes = ()

    def axes(self) -> dict[str, tuple[Hashable, ...]]:
        return {axis: values for axis, values in vars(self).items() if values}


@dataclass(frozen=True)
class _File:
    """The keys of a matrix file, as docs/sweep.md has them."""

    kernels: Annotated[dict[str, _KernelTable], _Some] = field(
        default_factory=lambda: {"flatboot": _KernelTable()}
    )
    cmdline: Annotated[dict[str, str], _Some] = field(default_factory=lambda: {PLAIN: ""})
    memory: Annotated[_Memory, _Some] = (2 << 30,)
    cpus: Annotated[_Cpus, _Some] = (1,)
    nodes: Annotated[_Nodes, _Some] = ("1",)
    exclude: tuple[_Exclude, ...] = ()
    repetitions: Annotated[int, Field(ge=1)] = 1
    clock: Clock = "exact"
    phases: bool = True
    trace: bool = False
    timeout: Annotated[float, Field(gt=0)] = 600


def load(path: Path) -> Matrix:
    """Read a matrix file; relative paths in it are relative to its folder.

    Raises:
        FlatbootError: it cannot be read.
        UsageError: it is no TOML, or ``parse`` does not take it.
    """
    return parse(typed.toml(path), str(path), path.parent)


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
        return _matrix(typed.check(data, _File), folder)
    except FlatbootError as error:
        raise UsageError(f"{where}: {error}") from error


def _matrix(file: _File, folder: Path) -> Matrix:
    kernels = {name: _kernel(name, table, folder) for name, table in file.kernels.items()}
    cmdlines = {name: text.strip() for name, text in file.cmdline.items()}
    _unique("cmdline", tuple(cmdlines.values()))
    axes: dict[str, dict[Any, Any]] = {"kernel": kernels, "cmdline": cmdlines}
    for axis in ("memory", "cpus", "nodes"):
        values: tuple[Hashable, ...] = getattr(file, axis)
        _unique(axis, values)
        axes[axis] = {value: value for value in values}
    _check_exclude(file.exclude, axes)
    return Matrix(
        cells=_cells(axes, file.exclude, file.repetitions),
        clock=file.clock,
        phases=file.phases,
        trace=file.trace,
        timeout_s=file.timeout,
    )


def _cells(
    axes: Mapping[str, Mapping[Hashable, Any]],
    excluded: Sequence[_Exclude],
    repetitions: int,
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    impossible: list[str] = []
    # The last axis changes fastest.
    order = ("memory", "cpus", "nodes", "cmdline", "kernel")
    machines = itertools.product(*(axes[axis] for axis in order))
    named = [dict(zip(order, values, strict=True)) for values in machines]
    rules = [rule.axes().items() for rule in excluded]
    for names in named:
        if any(all(names[axis] in values for axis, values in rule) for rule in rules):
            continue
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


def _kernel(name: str, table: _KernelTable, folder: Path) -> MatrixKernel:
    title = f"kernels.{name}"
    if sum(source is not None for source in (table.base, table.tree, table.kernel)) > 1:
        raise UsageError(f"{title} has more than one of base, tree and kernel: leave one")
    if table.kernel and (table.flavour or table.config):
        raise UsageError(f"{title}.kernel is built already: leave out flavour and config")
    config = table.config or CONFIG
    if (folder / config).is_file():
        config = str((folder / config).resolve())
    paths = {
        key: (folder / Path(text).expanduser()).resolve()
        for key, text in (("tree", table.tree), ("kernel", table.kernel))
        if text is not None
    }
    for key, path in paths.items():
        if not path.exists():
            raise UsageError(f"{title}.{key}: there is no {path}")
    built = paths.get("kernel")
    source = str(paths["tree"]) if "tree" in paths else table.base or bases.default()
    return MatrixKernel(
        name=name,
        source="" if built else source,
        flavour=table.flavour or "flatboot",
        config=config,
        arch=table.arch,
        built=built,
    )


def _unique(axis: str, values: Sequence[Hashable]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UsageError(f"{axis} has {_shown(axis, value)!r} twice: leave one out")


def _check_exclude(rules: Sequence[_Exclude], axes: Mapping[str, Mapping[Hashable, Any]]) -> None:
    for number, rule in enumerate(rules, 1):
        if not rule.axes():
            raise UsageError(f"exclude rule {number} names nothing: name an axis, or leave it out")
        for axis, values in rule.axes().items():
            for value in values:
                if value not in axes[axis]:
                    raise UsageError(
                        f"exclude rule {number} names {axis} {_shown(axis, value)!r}, which is not"
                        " in the matrix"
                    )
