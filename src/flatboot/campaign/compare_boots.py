"""The boots of a comparison: two kernels, and a control of the first, taking turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatboot.campaign import matrix, sweep
from flatboot.campaign.jobs import Measure
from flatboot.campaign.matrix import Matrix
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import stored
from flatboot.record.record import Record
from flatboot.record.results import Results

# The config whose code lies at other addresses than that of the config of the same options.
_CONTROLLED, _CONTROL = matrix.CONFIG, "control"
_SIDES = ("A", "B", _CONTROL)


@dataclass(frozen=True)
class Named:
    """A kernel as the command line names it: where it is, and its own parameters."""

    table: dict[str, str]
    cmdline: str


def named(text: str, arch: str) -> Named:
    """Return the kernel that *text* names: ``SOURCE:FLAVOUR[:CONFIG]`` or a built kernel's folder.

    SOURCE is a base or the folder of a tree. Words after it are kernel parameters.

    Raises:
        UsageError: it is neither.
    """
    if not text.split():
        raise UsageError("a kernel without a name cannot be booted: name one, such as 7.3:stock")
    source, *parameters = text.split()
    name, *rest = source.split(":")
    cmdline = " ".join(parameters)
    if not rest and Path(source).exists():
        return Named({"kernel": str(Path(source).resolve()), "arch": arch}, cmdline)
    if not 1 <= len(rest) <= 2:
        raise UsageError(
            f"{source!r} is neither a built kernel nor SOURCE:FLAVOUR, such as 7.3:stock: name one"
        )
    key = "tree" if "/" in name else "base"
    where = str(Path(name).resolve()) if key == "tree" else name
    table = {key: where, "flavour": rest[0], "arch": arch}
    if rest[1:]:
        table["config"] = rest[1]
    return Named(table, cmdline)


def control_of(kernel: Named) -> Named | None:
    """Return *kernel* with its code at other addresses; None where flatboot cannot build that."""
    if "kernel" in kernel.table or kernel.table.get("config", _CONTROLLED) != _CONTROLLED:
        return None
    return dataclasses.replace(kernel, table={**kernel.table, "config": _CONTROL})


def run(
    kernels: Sequence[Named],
    machines: dict[str, Any],
    path: Path,
    measure: Measure = stored.measure,
) -> list[list[Record]]:
    """Boot *kernels*, A, B and perhaps a control, and return the records of each.

    Args:
        kernels: what to boot.
        machines: memory, cpus, nodes, repetitions, clock and timeout, as in a sweep's matrix.
        path: the results file that keeps the records; boots that it holds are not done again.
        measure: carries out a boot.

    Raises:
        UsageError: the kernels are the same, or a machine is impossible.
        FlatbootError: a kernel cannot be built, or a boot failed.
    """
    matrices = [
        matrix.parse(
            {"kernels": {side: kernel.table}, "cmdline": {"own": kernel.cmdline}, **machines},
            "the comparison",
            Path(),
        )
        for side, kernel in zip(_SIDES, kernels, strict=False)
    ]
    jobs = sweep.plan(_taking_turns(matrices))
    with Results.open(path, create=True) as results:
        sweep.run(jobs, results, measure=measure)
        kept = results.by_key({job.key for job in jobs})
        failures = results.failures()
    for job in jobs:
        if job.key not in kept:
            raise FlatbootError(
                f"{job.cell.title} failed, so there is nothing to compare: {failures[job.key]}"
            )
    return [
        [kept[job.key] for job in jobs if job.cell.kernel.name == side]
        for side in _SIDES[: len(kernels)]
    ]


def _taking_turns(matrices: Sequence[Matrix]) -> Matrix:
    """Return one matrix in which every machine is booted with one kernel after the other."""
    turns = zip(*(one.cells for one in matrices), strict=True)
    return dataclasses.replace(matrices[0], cells=tuple(cell for turn in turns for cell in turn))
