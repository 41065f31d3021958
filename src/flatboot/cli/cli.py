"""The command line: ``flatboot``, made of one module a command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable

import typer
from rich.markup import escape

from flatboot.common import processes, screen
from flatboot.common.errors import FlatbootError, UsageError

#: The commands in the order of --help, and what each is: MODULE:FUNCTION of this package, or a
#: group of commands. Only the module of the command that runs is imported.
COMMANDS = {
    "boot": "boot_cli:boot",
    "demo": "boot_cli:run_demo",
    "distro": "distro_cli:distro",
    "analyze": "analyze_cli:analyze",
    "compare": "compare_cli:run",
    "bisect": "bisect_cli:bisect",
    "sweep": "sweep_cli:run",
    "project": "project_cli:run",
    "report": "report_cli:run_report",
    "bench": "bench_cli:bench",
    "fuzz": "fuzz_cli:fuzz",
    "lint": "lint:lint",
    "test": "selftest:test",
    "kernel": "kernel_cli:app",
    "parameters": "parameters_cli:run",
}
_HELP = "Linux boot time that stays flat as memory grows."


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with the commands *names*."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
    # With it one command alone is still called by its name.
    app.callback(help=_HELP)(_nothing)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(f"flatboot.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _nothing() -> None:
    pass


def main() -> None:
    """Run the command line; a FlatbootError becomes one sentence on stderr and an exit status.

    Exit status: 0 done, 1 failed, 2 the request was wrong, 130 Ctrl-C.
    """
    screen.make_encodable()
    asked = [word for word in sys.argv[1:2] if word in COMMANDS]
    try:
        with processes.sigterm_raises():
            application(asked or COMMANDS)(standalone_mode=True)
    except FlatbootError as error:
        text = f"[bold red]flatboot:[/] {escape(str(error))}"
        screen.console(stderr=True).print(text, soft_wrap=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
