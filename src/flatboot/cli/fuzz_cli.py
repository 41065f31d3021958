"""``flatboot fuzz``: random machines, parameters and load; nothing may be lost or go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from flatboot.campaign import fuzz_draw
from flatboot.campaign.fuzz import FAILED, PASSED, REFUSED, Fuzzer, Outcome
from flatboot.campaign.fuzz_draw import RandomBoot
from flatboot.common import disk, progress, screen, units
from flatboot.common.errors import FlatbootError, UsageError, check_known
from flatboot.kernel import bases, build

_CONFIGS = ("debug", "users")
_STYLES = {PASSED: "green", FAILED: "bold red", REFUSED: "yellow"}
#: Of so many cases one may be refused by stock; the rest is there to be tested.
_REFUSED_OF = 10


@disk.full_is_an_error()
def fuzz(
    boots: Annotated[int, typer.Option(help="How many cases.")] = 10,
    seed: Annotated[int, typer.Option(help="The first one's seed; the others' follow.")] = 1,
    one: Annotated[
        int | None, typer.Option(help="Only the case of this seed, in place of the two above.")
    ] = None,
    config: Annotated[
        str,
        typer.Option(help="debug: compared with the same kernel waiting; users: with stock."),
    ] = "debug",
    base: Annotated[
        str, typer.Option(help="Kernel base, of those in kernel/bases.toml.", show_default="7.3")
    ] = "",
    output: Annotated[
        Path, typer.Option(help="Folder for the records and consoles of failures.")
    ] = Path("out/fuzz"),
) -> None:
    """Boot random machines with random parameters under random load, and judge each."""
    check_known("config", config, _CONFIGS)
    if boots < 1:
        raise UsageError(f"{boots} boots are none: ask for at least one")
    seeds = range(seed, seed + boots) if one is None else range(one, one + 1)
    again = f"./flatboot fuzz --config {config}{f' --base {base}' if base else ''} --one"
    base = base or bases.default()
    fuzzer = Fuzzer(lambda flavour, name: build.kernel(base, flavour, name, "x86_64"), config)
    outcomes = []
    console = screen.console()
    with progress.step(f"fuzzing {units.many(len(seeds), 'boot')}", total=len(seeds)) as step:
        for number, one_seed in enumerate(seeds):
            case = fuzz_draw.draw(one_seed)
            step.update(number, f"seed {one_seed}: {case.machine.title}")
            outcome = fuzzer.run(case)
            outcomes.append(outcome)
            if outcome.verdict != PASSED:
                with disk.writing(output):
                    outcome.save(output)
                _tell(outcome, again)
    console.print(table(outcomes))
    counts = Counter(outcome.verdict for outcome in outcomes)
    console.print(", ".join(f"{number} {verdict}" for verdict, number in counts.items()))
    failed = [outcome.case.seed for outcome in outcomes if outcome.verdict == FAILED]
    if failed:
        raise FlatbootError(
            f"{len(failed)} of {units.many(len(outcomes), 'boot')} failed, records and consoles are"
            f" in {output}: reproduce the first by {again} {failed[0]}"
        )
    if counts[REFUSED] * _REFUSED_OF > max(len(outcomes), _REFUSED_OF):
        raise FlatbootError(
            f"stock refuses {counts[REFUSED]} of {units.many(len(outcomes), 'boot')}, which tests"
            f" nothing: see their consoles in {output}"
        )


def _tell(outcome: Outcome, again: str) -> None:
    seed = outcome.case.seed
    text = "\n".join([f"seed {seed} {outcome.verdict} ({again} {seed})", *outcome.problems])
    progress.console.print(text, markup=False, highlight=False, soft_wrap=True)


def describe(case: RandomBoot) -> str:
    """Return the machine of *case* in a few words."""
    nodes = " ".join(
        f"{units.short_size(node.memory_bytes)}:{node.cpus}" for node in case.machine.nodes
    )
    size = units.short_size(case.machine.memory_bytes)
    machine = f"{size}, {units.many(case.machine.cpus, 'CPU')}, {case.layout}"
    return f"{machine}, nodes {nodes}" if nodes else machine


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return the outcomes, one a row."""
    made = Table(title="Random boots", title_justify="left")
    made.add_column("seed", justify="right")
    made.add_column("machine")
    made.add_column("parameters")
    made.add_column("load")
    made.add_column("s", justify="right")
    made.add_column("verdict")
    for outcome in outcomes:
        case = outcome.case
        load = "; ".join(command.split(" ", 2)[2] for command in case.load)
        made.add_row(
            str(case.seed),
            describe(case),
            " ".join((case.mode, *case.parameters)),
            load,
            f"{outcome.wall_s:.0f}",
            Text(outcome.verdict, _STYLES[outcome.verdict]),
        )
    return made
