"""``flatboot project``: CPU bring-up of a machine that is larger than any that was booted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from flatboot.analysis import projection, projection_rules
from flatboot.analysis.projection import MachineSize, Projection
from flatboot.common import paths, screen, units
from flatboot.common.errors import UsageError
from flatboot.record import results
from flatboot.show import projection_tables


def run(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Record files, folders of them, and results files of sweep --trace.",
            show_default="bench/results/cpu_bring_up.json",
        ),
    ] = None,
    base: Annotated[str, typer.Option(help="Kernel base of the records.", show_default="7.3")] = "",
    cpus: Annotated[int, typer.Option(help="CPUs of the machine.")] = 1780,
    nodes: Annotated[int, typer.Option(help="Its NUMA nodes.")] = 16,
    assumptions: Annotated[
        bool,
        typer.Option(
            "--assumptions",
            help="Also what it takes for granted, the dearest parts, how well the fit meets boots"
            " that it did not see, and published figures.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, times in seconds.")] = False,
) -> None:
    """Project the CPU bring-up of a large machine from boots of smaller ones, and say how sure."""
    rules = projection_rules.rules(base)
    published = projection_rules.published()
    if cpus <= (few := max(1, *(way.online for way in rules.ways))):
        raise UsageError(
            f"--cpus {cpus}: a boot brings up {units.many(few, 'CPU')} before others, so name"
            f" {few + 1} or more"
        )
    if not 1 <= nodes <= cpus:
        raise UsageError(f"--nodes {nodes}: name at least 1, and no more than the {cpus} CPUs")
    records = results.read(files or [paths.repo() / "bench/results/cpu_bring_up.json"])
    machine = MachineSize(cpus, nodes)
    found = Projection(projection.kernels(records, rules.ways), rules, published)
    if as_json:
        typer.echo(json.dumps(projection_tables.document(found, machine, published), indent=1))
        return
    console = screen.console()
    console.print(projection_tables.answer(found, machine))
    console.print()
    shown = [projection_tables.ways(found, machine)]
    if found.verdicts(machine):
        shown.append(projection_tables.verdicts(found, machine))
    if assumptions:
        shown += [
            projection_tables.dearest(found, machine),
            projection_tables.terms(found),
            projection_tables.assumed(found),
            projection_tables.parts(found),
            projection_tables.check(found),
            projection_tables.published(found, published),
        ]
    for made in shown:
        console.print(made)
        console.print()
    if not assumptions:
        console.print("--assumptions adds what this takes for granted, and how well it fits.")
