"""``flatboot parameters``: the boot parameters for a kind of machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flatboot.common import paths, screen
from flatboot.common.errors import UsageError
from flatboot.kernel import parameters, series


def run(
    profile: Annotated[
        str | None, typer.Argument(help="For which machine; without it, what there is.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="What each gives and costs, and the group it is of.")
    ] = False,
    deb: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Make a Debian package there that has GRUB add them."),
    ] = None,
) -> None:
    """Print the boot parameters for a kind of machine as a line for the kernel's command line."""
    if profile is None:
        if why or deb:
            raise UsageError("name a profile with --why and --deb")
        screen.console().print(_profiles())
        return
    chosen = parameters.profile(profile)
    if deb is not None:
        user = series.identity(paths.repo()) or parameters.NOBODY
        print(parameters.deb(profile, user, deb))
    elif why:
        screen.console().print(_parameters(chosen))
    else:
        print(chosen.line)


def _profiles() -> Table:
    made = Table(title="Boot parameters by machine")
    for heading in ("profile", "machine", "parameters"):
        made.add_column(heading)
    for name, profile in parameters.profiles().items():
        made.add_row(name, profile.machine, profile.line)
    return made


def _parameters(profile: parameters.Profile) -> Table:
    made = Table(title=f"For {profile.machine}")
    for heading in ("parameter", "group", "gives", "costs"):
        made.add_column(heading)
    for parameter in profile.parameters:
        made.add_row(parameter.text, parameter.group, parameter.why, parameter.costs)
    return made
