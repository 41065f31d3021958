"""``flatboot sweep``: boots over memory sizes, CPU counts, parameters and kernels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from flatboot.analysis import cpu_work
from flatboot.campaign import matrix, sweep
from flatboot.campaign.matrix import Matrix
from flatboot.common import disk, progress, screen, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record.results import Results
from flatboot.show import cpu_work_tables, sweep_tables


@disk.full_is_an_error()
def run(
    matrix_file: Annotated[
        Path | None,
        typer.Argument(metavar="[MATRIX]", help="A TOML file, in place of the options below."),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="The results file; boots that it holds are not done again.")
    ] = Path("out/results.sqlite"),
    memory: Annotated[
        str | None, typer.Option(help="Memory sizes, such as 2G,16G,64G.", show_default="2G")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(help="Numbers of virtual CPUs, such as 1,4.", show_default="1")
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers of NUMA nodes, such as 1,2; or SIZE[:CPUS] of each, such as 2G:2,6G,"
            " once for each machine.",
            show_default="1",
        ),
    ] = None,
    cmdline: Annotated[
        list[str] | None,
        typer.Option(help="More kernel parameters; may be given several times, also empty."),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Kernel bases, such as 6.12,7.3.", show_default="7.3")
    ] = None,
    flavour: Annotated[
        str | None, typer.Option(help="Flavours: stock,flatboot.", show_default="flatboot")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="Configs, such as bench,debug.", show_default="bench"),
    ] = None,
    arch: Annotated[
        str | None, typer.Option(help="Architectures: x86_64,arm64.", show_default="x86_64")
    ] = None,
    tree: Annotated[
        list[Path] | None,
        typer.Option(help="A kernel tree or tarball of your own; may be given several times."),
    ] = None,
    kernel: Annotated[
        list[Path] | None,
        typer.Option(help="A built kernel of your own; may be given several times."),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            help="exact: counts instructions; wall: time, one boot at a time.", show_default="exact"
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="How often each cell is booted.", show_default="1")
    ] = None,
    phases: Annotated[
        bool | None,
        typer.Option(
            "--phases/--no-phases",
            help="Find out where the time went; takes about twice as long.",
            show_default="phases",
        ),
    ] = None,
    trace: Annotated[
        bool | None,
        typer.Option(
            "--trace",
            help="Trace the callbacks of CPU bring-up; on the exact clock, count its work.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds that each guest may take.", show_default="600"),
    ] = None,
    scheduler: Annotated[
        str, typer.Option(help="Boot on the workers of the Dask scheduler at this address.")
    ] = "",
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw cost against size (SVG).")
    ] = None,
) -> None:
    """Boot kernels over memory sizes, CPU counts and parameters: a table, and exponents.

    A matrix of cells, each a boot. Interrupted or failed, it goes on where it was when it is run
    again with the same results file.
    """
    options = {
        "memory": _listed(memory),
        "cpus": [_number(word) for word in _listed(cpus) or ()] or None,
        "nodes": [item for text in nodes or () for item in _node_words(text)] or None,
        "cmdline": {text or matrix.PLAIN: text for text in cmdline or ()} or None,
        "kernels": _kernels(base, flavour, config, arch, tree, kernel),
        "clock": clock,
        "repetitions": repetitions,
        "phases": phases,
        "trace": trace,
        "timeout": timeout,
    }
    wanted = _matrix(
        matrix_file, {key: value for key, value in options.items() if value is not None}
    )
    if plot_file is not None and plot_file.suffix != ".svg":
        raise UsageError(f"--plot draws SVG: name a file that ends in .svg, not {plot_file}")
    jobs = sweep.plan(wanted)
    with Results.open(output, create=True) as results:
        done = len({job.key for job in jobs} & results.keys())
        count = units.many(len(jobs), "boot")
        progress.console.print(
            f"{count}: {done} are in {output}, {len(jobs) - done} to do",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        sweep.run(jobs, results, scheduler=scheduler)
        held = results.by_key({job.key for job in jobs})
        failures = results.failures()
    records = [held[job.key] for job in jobs if job.key in held]
    failed = [job for job in jobs if job.key not in held]
    console = screen.console()
    if records:
        for table in sweep_tables.tables(records):
            console.print(table)
        if counted := cpu_work.boots(records):
            console.print(cpu_work_tables.work_table(counted))
        if plot_file is not None:
            sweep_tables.draw(records, plot_file)
    for job in failed:
        reason = failures[job.key].splitlines()[0].removesuffix("; the end of its console:")
        console.print(f"failed: {job.cell.title}: {reason}", markup=False, soft_wrap=True)
    if failed:
        raise FlatbootError(
            f"{len(failed)} of {len(jobs)} boots failed: run the same again to try them once more"
        )


def _matrix(file: Path | None, options: Mapping[str, Any]) -> Matrix:
    if file is None:
        return matrix.parse(options, "the options", Path())
    if options:
        raise UsageError(
            f"{file} says what is booted: leave out the options for {', '.join(options)}"
        )
    return matrix.load(file)


def _kernels(
    base: str | None,
    flavour: str | None,
    config: str | None,
    arch: str | None,
    tree: list[Path] | None,
    kernel: list[Path] | None,
) -> dict[str, dict[str, str]] | None:
    """Return every combination of the kernels that the options name, by what tells them apart."""
    axes = {
        "base": _listed(base),
        "flavour": _listed(flavour),
        "config": _listed(config),
        "arch": _listed(arch),
        "tree": [str(path) for path in tree or ()],
        "kernel": [str(path) for path in kernel or ()],
    }
    given = {axis: values for axis, values in axes.items() if values}
    if not given:
        return None
    telling = [axis for axis, values in given.items() if len(values) > 1] or list(given)[:1]
    combined = (
        dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())
    )
    return {" ".join(fields[axis] for axis in telling): fields for fields in combined}


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(f"--cpus: {word!r} is not a number of CPUs")
    return int(word)


def _node_words(text: str) -> list[str]:
    """Return the machines that one --nodes names: counts with commas, or the nodes of one."""
    return text.split(",") if text.replace(",", "").isdecimal() else [text]
