"""``flatboot lint``: every static check of the project, and one table of the results."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.table import Table

from flatboot.common import arches, paths, processes, progress, screen
from flatboot.common.errors import FlatbootError
from flatboot.common.git import git
from flatboot.kernel import (
    bases,
    checkpatch,
    groups,
    layer,
    sources,
    topics,
)

_GCC_FLAGS = ("-Wall", "-Wextra", "-Werror", "-O2", "-fsyntax-only")
#: Files of the kernel part that are written as the kernel writes them.
_OVERLAY = re.compile(r"kernel/[^/]+/overlay/")
_SHELL = re.compile(rb"#!.*\b(?:ba)?sh\n")


@dataclass(frozen=True)
class Check:
    """One check: its name, the files it looks at, and what runs it (returns what it objects to)."""

    name: str
    files: list[str]
    run: Callable[[list[str]], str]


def lint() -> None:
    """Check all code: ruff, mypy, clang-format, gcc, shellcheck, checkpatch."""
    table = _table()
    failed: list[tuple[str, str]] = []
    for check in _checks():
        with progress.step(f"lint: {check.name}"):
            objections = _objections(check)
        if objections:
            failed.append((check.name, objections))
        result = (
            "[red]failed[/]" if objections else "[green]passed[/]" if check.files else "no files"
        )
        table.add_row(check.name, str(len(check.files)), result)
    console = screen.console()
    for name, objections in failed:
        console.rule(name)
        console.print(objections, markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    if failed:
        raise typer.Exit(1)


def _table() -> Table:
    """Return an empty table of results."""
    table = Table(title="flatboot lint")
    for heading in ("check", "files", "result"):
        table.add_column(heading, justify="right" if heading == "files" else "left")
    return table


def _objections(check: Check) -> str:
    try:
        return check.run(check.files).strip() if check.files else ""
    except FlatbootError as error:
        return str(error)


def _checks() -> list[Check]:
    files = _files()
    python = [name for name in files if name.endswith(".py")]
    ours = [name for name in files if not _OVERLAY.match(name)]
    c = [name for name in ours if name.endswith((".c", ".h"))]
    shell = [name for name in files if _SHELL.match((paths.repo() / name).read_bytes())]
    return [
        Check("ruff check", python, _command(sys.executable, "-m", "ruff", "check", "-q")),
        Check("ruff format", python, _command(sys.executable, "-m", "ruff", "format", "--check")),
        Check("mypy --strict", python, _mypy),
        Check("clang-format", c, _command("clang-format", "--dry-run", "-Werror")),
        *(
            Check(f"gcc -Wall -Wextra, {name}", [f for f in c if f.endswith(".c")], _gcc(name))
            for name in arches.names()
        ),
        Check("shellcheck", shell, _command("shellcheck")),
        *(check for name in bases.with_hooks() for check in _kernel_checks(name)),
    ]


def _files() -> list[str]:
    """Return the files of the checkout that git tracks or would track."""
    root = paths.repo()
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file())


def _command(*command: str) -> Callable[[list[str]], str]:
    """Return a check that runs *command* on the files in the checkout."""

    def run(files: list[str]) -> str:
        try:
            processes.run([*command, *files], what=command[0], cwd=paths.repo())
        except processes.CommandFailed as error:
            return error.output or str(error)
        return ""

    return run


def _mypy(files: list[str]) -> str:
    """Run mypy on the package and on all else, which has no package names; each conftest alone."""
    package = [name for name in files if name.startswith("src/")]
    alone = [[name] for name in files if Path(name).name == "conftest.py"]
    others = [name for name in files if name not in package and [name] not in alone]
    folders = sorted({str(Path(name).parent) for name in others})
    where = f"MYPYPATH={':'.join(['src', *folders])}"
    run = _command("env", where, sys.executable, "-m", "mypy", "--strict")
    return "".join(run(group) for group in [package, others, *alone] if group)


def _gcc(arch: str) -> Callable[[list[str]], str]:
    compiler = f"{arches.load(arch).cross_compile}gcc"
    if shutil.which(compiler) is None:
        raise FlatbootError(f"{compiler} is not there: install the compiler for {arch}")
    return _command(compiler, *_GCC_FLAGS)


def _kernel_checks(name: str) -> list[Check]:
    base = sources.resolve(name)
    taken, root = groups.chosen(name), paths.kernel_dir()

    def reports(*options: str) -> Callable[[list[str]], str]:
        def run(files: list[str]) -> str:
            found = checkpatch.check(base.directory(), root, files, *options)
            return "\n".join(str(report) for report in found)

        return run

    def owners(_: list[str]) -> str:
        topics.read(taken, name)
        return ""

    hooks = layer.patches(taken, name)
    patches = [str(path.relative_to(root)) for path in hooks]
    # A topic whose files are all new has no diff; what checkpatch says of those, it says of them.
    diffs = [str(path.relative_to(root)) for path in hooks if layer.touched(path.read_text())]
    code = [
        str((group.overlay / path).relative_to(root))
        for group in taken
        for path in layer.overlay([group], name)
        if not Path(path).name.startswith(".")
    ]
    return [
        Check(f"topics, {name}", patches + code, owners),
        Check(f"checkpatch, hooks for {name}", diffs, reports("--no-signoff")),
        Check(f"checkpatch, overlay ({name})", code, reports("--file")),
    ]
