"""``flatboot kernel``: get a base, build a flavour, and the patches as a tree or a series."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flatboot.cli import kernel_check_cli
from flatboot.common import atomic, disk, screen
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import bases, build, groups, kconfig, packages, series, sources

app = typer.Typer(help="Kernel bases, trees, images and patches.", no_args_is_help=True)

app.command("check")(kernel_check_cli.check)

Base = Annotated[
    str | None, typer.Option(help="Kernel base, of those in kernel/bases.toml.", show_default="7.3")
]
Tree = Annotated[
    Path | None,
    typer.Option(help="A kernel tree or tarball of your own, in place of a base."),
]
Flavour = Annotated[str, typer.Option(help="stock: untouched; flatboot: with hooks and overlay.")]
Config = Annotated[str, typer.Option(help="A named config, or the path of a full .config.")]
Arch = Annotated[str, typer.Option(help="Architecture, of those in src/flatboot/common/arches.")]
Groups = Annotated[
    str,
    typer.Option(
        "--groups",
        metavar="A,B",
        help="Groups of the flatboot flavour, or single patches as GROUP/PATCH: these and what"
        " they need.",
        show_default="all",
    ),
]
Compiler = Annotated[str, typer.Option("--cc", help="Compiler: gcc, gcc-13, clang, ...")]


def source_name(base: str | None, tree: Path | None) -> str:
    """Return what the options --base and --tree name together: a base's name or an absolute path.

    Raises:
        UsageError: both are given.
    """
    if base is not None and tree is not None:
        raise UsageError("--base and --tree exclude each other: name one of them")
    return base or (bases.default() if tree is None else str(tree.resolve()))


def _named(listed: str) -> list[str]:
    """Return the names of groups that a list with commas has."""
    return [name for name in (part.strip() for part in listed.split(",")) if name]


@app.command("groups")
def groups_(base: Base = None) -> None:
    """List the groups that the kernel part is made of, in the order in which they are applied."""
    table = Table(title="Groups", title_justify="left")
    table.add_column("group", no_wrap=True)
    table.add_column("what it is for, and gives")
    table.add_column("needs, options, parameters", no_wrap=True)
    base = base or bases.default()
    for group in groups.chosen(base):
        table.add_row(
            group.name,
            f"{group.title}\n{group.gives}",
            "\n".join(
                [
                    *(f"needs {name}" for name in group.needed(base)),
                    *kconfig.options(group),
                    *(f"{name}=" for name in group.parameters),
                ]
            ),
        )
    screen.console().print(table)


@app.command("fetch")
def fetch(base: Base = None) -> None:
    """Download a base and unpack it; print the folder of its tree (read it, change nothing)."""
    with disk.full_is_an_error():
        print(sources.resolve(source_name(base, None)).directory())


@app.command("build")
def build_(
    base: Base = None,
    flavour: Flavour = "flatboot",
    config: Config = "bench",
    arch: Arch = "x86_64",
    cc: Compiler = "gcc",
    tree: Tree = None,
    deb: Annotated[
        bool, typer.Option("--deb", help="Make Debian packages, modules included.")
    ] = False,
    output: Annotated[Path, typer.Option(help="With --deb: the folder for the packages.")] = Path(
        "out"
    ),
    listed: Groups = "",
) -> None:
    """Build a kernel, or Debian packages of one, and print where it is."""
    name = source_name(base, tree)
    named = _named(listed)
    if not deb:
        print(build.kernel(name, flavour, config, arch, cc=cc, named=named).directory)
        return
    made = packages.deb(name, flavour, config, arch, cc=cc, named=named)
    with disk.full_is_an_error():
        for package in sorted(made.iterdir()):
            with atomic.new_file(output / package.name) as new:
                shutil.copy2(package, new)
            print(output / package.name)


@app.command("path")
def path(
    base: Base = None,
    flavour: Flavour = "flatboot",
    config: Config = "bench",
    arch: Arch = "x86_64",
    cc: Compiler = "gcc",
    tree: Tree = None,
    listed: Groups = "",
) -> None:
    """Print the folder of a kernel (vmlinux, bzImage or Image, .config), building it if need be."""
    name, named = source_name(base, tree), _named(listed)
    print(build.kernel(name, flavour, config, arch, cc=cc, named=named).directory)


@app.command("tree")
def tree_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    base: Base = None,
    tree: Tree = None,
) -> None:
    """Make a git tree of a base with each topic of hooks and overlay as one commit."""
    with disk.full_is_an_error():
        count = series.make_tree(sources.resolve(source_name(base, tree)), folder)
    print(
        f"{folder}: the base (tag base) and {count} topics; edit, build and commit there, then "
        f"`flatboot kernel refresh {folder}`"
    )


@app.command("refresh")
def refresh(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `kernel tree` made.")],
) -> None:
    """Write the commits of a git tree back to hooks and overlay."""
    changed = series.refresh(folder)
    for file in changed:
        print(file)
    if not changed:
        print("nothing changed")


@app.command("series")
def series_(
    base: Base = None,
    tree: Tree = None,
    output: Annotated[Path, typer.Option(help="The folder for the patches.")] = Path("out/series"),
    group: Annotated[
        str | None,
        typer.Option(help="The patches of this group alone, and its cover letter."),
    ] = None,
    build_each: Annotated[
        bool, typer.Option("--build-each", help="Also build the tree after each patch.")
    ] = False,
    config: Config = "bench",
    arch: Arch = "x86_64",
    cc: Compiler = "gcc",
) -> None:
    """Write the topics as a series of mailable patches and check each with checkpatch --strict."""
    with disk.full_is_an_error():
        source = sources.resolve(source_name(base, tree))
        written = series.write_series(source, output, group=group)
        for patch in written.patches:
            print(patch)
        for report in written.reports:
            print(report)
        if build_each:
            series.build_each(source, config, arch, cc, group=group)
    if written.reports:
        raise FlatbootError(
            f"checkpatch --strict objects to the series ({len(written.reports)} reports above)"
        )
