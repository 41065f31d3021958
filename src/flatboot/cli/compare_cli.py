"""``flatboot compare``: two kernels, or a kernel against its history, and a verdict for CI."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_json
from rich.text import Text

from flatboot.analysis import history, junit, verdict
from flatboot.analysis.compare import ALPHA, THRESHOLD, Comparison, compare
from flatboot.campaign import compare_boots
from flatboot.common import atomic, disk, screen
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import kernel_names, results
from flatboot.record.record import Record

_STYLES = {"regression": "bold red", "improvement": "green", "undecided": "yellow"}
# On the wall clock the runs of a side that find a change of one phase in ten at once, and some
# more; on the exact one a second run says nothing new.
_RUNS = {"exact": 1, "wall": 10}


def run(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Kernel A: a record, a folder of records, or a results file of sweep;"
            " FILE#WORD,... takes the boots of one kernel in it.",
        ),
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="B", help="Kernel B; not with --history.")
    ] = None,
    history_file: Annotated[
        Path | None,
        typer.Option("--history", help="Compare A with the earlier kernels in this results file."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(help="Boots of A rebuilt without a change, which show the noise of layout."),
    ] = None,
    boot: Annotated[
        bool,
        typer.Option(
            "--boot",
            help="Boot now: A and B are SOURCE:FLAVOUR[:CONFIG] or folders of built kernels, with"
            " kernel parameters after a space.",
        ),
    ] = False,
    memory: Annotated[str, typer.Option(help="With --boot: sizes such as 2G,16G.")] = "2G,16G,64G",
    cpus: Annotated[str, typer.Option(help="With --boot: numbers of CPUs such as 1,4.")] = "1",
    arch: Annotated[str, typer.Option(help="With --boot: the architecture.")] = "x86_64",
    clock: Annotated[str, typer.Option(help="With --boot: exact or wall.")] = "exact",
    runs: Annotated[
        int | None,
        typer.Option(help="With --boot: boots of each.", show_default="1, wall clock 10"),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="With --boot: the results file that keeps the boots.")
    ] = Path("out/compare.sqlite"),
    alpha: Annotated[
        float, typer.Option(help="Wall clock: how often equal kernels may be told apart.")
    ] = ALPHA,
    threshold: Annotated[
        float, typer.Option(help="The least share of a phase that counts.")
    ] = THRESHOLD,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", help="Write JUnit XML, a test case a phase.")
    ] = None,
) -> None:
    """Say which phase of the boot changed between two kernels, from which size on, how much.

    Exit status: 0 the same or better, 1 a regression, 2 it could not be told.
    """
    with _one_is_a_regression():
        if boot:
            if control or history_file:
                raise UsageError("--boot boots a control itself: leave out --control and --history")
            machines = _machines(memory, cpus, clock, runs)
            sides = _booted(before, after, arch, machines, output)
        elif history_file is not None:
            sides = _against_history(before, after, control, history_file)
        else:
            sides = _recorded(before, after, control)
        comparison = compare(
            sides.before, sides.after, control=sides.control, alpha=alpha, threshold=threshold
        )
        if sides.past:
            notes = [*comparison.notes, *history.notes(comparison, sides.past)]
            comparison = dataclasses.replace(comparison, notes=notes)
        if junit_file is not None:
            text = junit.text(comparison, datetime.datetime.now(datetime.UTC))
            with disk.writing(junit_file), atomic.new_file(junit_file) as new:
                new.write_text(text)
        if json_output:
            # What is infinite is null, as JSON has no notion of it.
            print(to_json(_data(comparison), indent=1, inf_nan_mode="null").decode())
        else:
            _show(comparison)
        sys.stdout.flush()
    raise typer.Exit(comparison.exit_status)


@contextlib.contextmanager
def _one_is_a_regression() -> Iterator[None]:
    """Keep exit status 1 for a regression: whatever fails within the body ends with 2."""
    try:
        with disk.full_is_an_error():
            yield
    except UsageError:
        raise
    except FlatbootError as error:
        raise UsageError(str(error)) from error
    except Exception as error:
        traceback.print_exc()
        raise typer.Exit(2) from error


@dataclass(frozen=True)
class _Sides:
    """What is compared: boots of A, of B and of the control, and of the kernels before A."""

    before: Sequence[Record]
    after: Sequence[Record]
    control: Sequence[Record] = ()
    past: Sequence[Sequence[Record]] = ()


def _recorded(before: str, after: str | None, control: str | None) -> _Sides:
    if after is None:
        raise UsageError("name two kernels, A and B, or one and --history")
    return _Sides(read(before), read(after), read(control) if control else ())


def _against_history(new: str, other: str | None, control: str | None, file: Path) -> _Sides:
    if other is not None:
        raise UsageError("--history compares one kernel with earlier ones: leave out B")
    after = read(new)
    past = history.earlier(after, results.read([file]))
    return _Sides(past[-1], after, read(control) if control else (), past)


def _booted(
    before: str, after: str | None, arch: str, machines: dict[str, Any], output: Path
) -> _Sides:
    if after is None:
        raise UsageError("name two kernels to boot, A and B")
    kernels = [compare_boots.named(text, arch) for text in (before, after)]
    control = compare_boots.control_of(kernels[0]) if machines["clock"] == "exact" else None
    wanted = kernels if control is None else [*kernels, control]
    first, second, *rest = compare_boots.run(wanted, machines, output)
    return _Sides(first, second, rest[0] if rest else ())


def _machines(memory: str, cpus: str, clock: str, runs: int | None) -> dict[str, Any]:
    """Return the keys of a sweep's matrix that the options name."""
    numbers = cpus.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--cpus {cpus} are no numbers: write them such as 1,4")
    return {
        "memory": memory.split(","),
        "cpus": [int(number) for number in numbers],
        "clock": clock,
        "repetitions": _RUNS.get(clock, 1) if runs is None else runs,
    }


def read(text: str) -> list[Record]:
    """Return the records that *text* names: a path, or ``PATH#WORD,...`` for some of them.

    A record is taken if every word is its kernel's base, version, flavour or config, its
    architecture or clock, or one of its kernel parameters; a word after a minus must not be.

    Raises:
        UsageError: there is no such record.
        FlatbootError: the file cannot be read.
    """
    name, mark, words = text.rpartition("#")
    if not mark or Path(text).exists():
        return results.read([Path(text)])
    found = results.read([Path(name)])
    wanted = words.replace(",", " ").split()
    chosen = [record for record in found if _chosen(record, wanted)]
    if not chosen:
        kernels = ", ".join(dict.fromkeys(kernel_names.names(found)))
        raise UsageError(f"{name} has no boots of {words!r}: it has those of {kernels}")
    return chosen


def _chosen(record: Record, wanted: Sequence[str]) -> bool:
    kernel = record.kernel
    has = {kernel.base, kernel.version, kernel.flavour, kernel.config}
    has |= {record.machine.arch, record.clock, *record.cmdline.split()}
    return all(word[1:] not in has if word.startswith("-") else word in has for word in wanted)


def _show(comparison: Comparison) -> None:
    console = screen.console()
    console.print(Text(verdict.sentence(comparison), _STYLES.get(comparison.verdict, "bold")))
    console.print(f"A is {comparison.before}, B {comparison.after}.\n", markup=False)
    for table in verdict.tables(comparison):
        console.print(table)
        console.print()
    for note in comparison.notes:
        console.print(f"note: {note}", markup=False)


def _data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data, with what each phase is made of in A and in B."""
    data = dataclasses.asdict(comparison)
    for phase, fields in zip(comparison.phases, data["phases"], strict=True):
        fields["before"] = dataclasses.asdict(phase.before)
        fields["after"] = dataclasses.asdict(phase.after)
    return {
        "sentence": verdict.sentence(comparison),
        "exit_status": comparison.exit_status,
        **data,
    }
