"""The command line: ``flatboot``, made of one sub-command group a part of the lab."""

from __future__ import annotations

import sys

import typer
from rich.markup import escape

from flatboot.cli import (
    analyze_cli,
    bench_cli,
    bisect_cli,
    boot_cli,
    compare_cli,
    fuzz_cli,
    kernel_cli,
    lint,
    project_cli,
    report_cli,
    selftest,
    sweep_cli,
)
from flatboot.common import processes, screen
from flatboot.common.errors import FlatbootError, UsageError

app = typer.Typer(
    help="Linux boot time that stays flat as memory grows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(kernel_cli.app, name="kernel")
boot_cli.register(app)
analyze_cli.register(app)
compare_cli.register(app)
app.command("bisect")(bisect_cli.bisect)
sweep_cli.register(app)
project_cli.register(app)
app.command("report")(report_cli.run_report)
app.command("bench")(bench_cli.bench)
app.command("fuzz")(fuzz_cli.fuzz)
app.command("lint")(lint.lint)
app.command("test")(selftest.test)


def main() -> None:
    """Run the command line; a FlatbootError becomes one sentence on stderr and an exit status.

    Exit status: 0 done, 1 failed, 2 the request was wrong, 130 Ctrl-C.
    """
    try:
        with processes.sigterm_raises():
            app(standalone_mode=True)
    except FlatbootError as error:
        text = f"[bold red]flatboot:[/] {escape(str(error))}"
        screen.console(stderr=True).print(text, soft_wrap=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
