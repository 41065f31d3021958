"""``flatboot boot`` and ``flatboot demo``: one boot taken apart, and the headline table."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from flatboot.cli import demo, kernel_cli
from flatboot.common import disk, progress, screen, units
from flatboot.common.errors import UsageError, check_known
from flatboot.guest import machine, shell, stored
from flatboot.guest.boot_spec import CLOCKS, BootSpec, Image
from flatboot.guest.machine import Machine
from flatboot.kernel import build, own_kernel
from flatboot.record import timeline
from flatboot.show import tables

Fresh = Annotated[bool, typer.Option("--fresh", help="Boot although the store has the same boot.")]


@disk.full_is_an_error()
def boot(
    base: kernel_cli.Base = None,
    flavour: kernel_cli.Flavour = "flatboot",
    config: kernel_cli.Config = "bench",
    arch: kernel_cli.Arch = "x86_64",
    memory: Annotated[str, typer.Option(help="Memory, such as 512M, 2G or 1T.")] = "2G",
    cpus: Annotated[int, typer.Option(help="Virtual CPUs.")] = 1,
    nodes: Annotated[
        str,
        typer.Option(
            help="NUMA nodes: a count, or SIZE[:CPUS] of each such as 2G:2,0:1,6G, in place of"
            " --memory and --cpus."
        ),
    ] = "1",
    clock: Annotated[
        str | None,
        typer.Option(
            help="exact: counts instructions; wall: time (KVM where it works).",
            show_default="exact; with --shell, wall",
        ),
    ] = None,
    cmdline: Annotated[str, typer.Option(help="More kernel parameters.")] = "",
    kernel: Annotated[
        Path | None,
        typer.Option(help="A kernel of your own, built: its build folder or vmlinux."),
    ] = None,
    tree: kernel_cli.Tree = None,
    timeline_file: Annotated[
        Path | None,
        typer.Option("--timeline", help="Write a Chrome trace-event file, which Perfetto opens."),
    ] = None,
    record_file: Annotated[
        Path | None, typer.Option("--record", help="Write the record of the boot (JSON).")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that the guest may take.")] = 600,
    phases: Annotated[
        bool, typer.Option(help="Find out where the time went; takes about twice as long.")
    ] = True,
    fresh: Fresh = False,
    with_shell: Annotated[
        bool,
        typer.Option(
            "--shell",
            help="A shell in the guest, of busybox: on a terminal, or with commands from a pipe."
            " Ctrl-D or exit ends the guest; where it hangs, Ctrl-].",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print QEMU's command line, to be pasted; boot nothing."),
    ] = False,
) -> None:
    """Boot a kernel once: where its time went, its slowest initcalls, its memory."""
    clock = clock or ("wall" if with_shell else "exact")
    check_known("clock", clock, CLOCKS)
    if (with_shell or dry_run) and (record_file or timeline_file):
        raise UsageError("--shell and --dry-run measure nothing: leave out --record and --timeline")
    if timeline_file is not None and not phases:
        raise UsageError("--timeline needs the phases: leave out --no-phases")
    wanted = _machine(arch, memory, cpus, nodes)
    image: Image
    if kernel is None:
        image = build.kernel(kernel_cli.source_name(base, tree), flavour, config, arch)
    elif base is None and tree is None:
        image = own_kernel.find(kernel)
    else:
        raise UsageError("--kernel names a built kernel: leave out --base and --tree")
    spec = BootSpec(image, wanted, cmdline, CLOCKS[clock], phases=phases, timeout_s=timeout)
    if with_shell or dry_run:
        if dry_run:
            typer.echo(shell.command_line(spec, shell=with_shell))
            return
        raise typer.Exit(_shell(spec))
    with progress.step(f"booting {wanted.title}") as step:
        record = stored.boot(spec, lambda phase: step.update(0, phase), fresh=fresh)
    if record_file is not None:
        with disk.writing(record_file):
            record.save(record_file)
    if timeline_file is not None:
        with disk.writing(timeline_file):
            timeline.write(record, timeline_file)
    console = screen.console()
    if record.phases:
        console.print(tables.phase_table(record))
    if record.calls:
        console.print(tables.initcall_table(record))
    console.print(tables.summary(record))


def _shell(spec: BootSpec) -> int:
    """Run a shell in a guest, and return its exit status."""
    with contextlib.ExitStack() as shown:
        shown.enter_context(progress.step(f"booting {spec.machine.title}"))
        return shell.run(spec, on_ready=shown.close)


@disk.full_is_an_error()
def run_demo(
    base: kernel_cli.Base = None,
    output: Annotated[Path, typer.Option(help="Folder for the records and the plot.")] = Path(
        "out/demo"
    ),
    fresh: Fresh = False,
) -> None:
    """Boot stock and flatboot from 2 GiB to 1 TiB and print what that costs each of them."""
    records = demo.run(kernel_cli.source_name(base, None), output, fresh=fresh)
    console = screen.console()
    console.print(tables.growth_table([record for record in records if record.phases]))
    boots = f"{units.many(stored.tally.made, 'boot')} made"
    boots += f", {stored.tally.taken} taken from the store (--fresh makes all anew)"
    console.print(boots, highlight=False, soft_wrap=True)
    console.print(f"records and plot: {output.resolve()}", highlight=False, soft_wrap=True)


def _machine(arch: str, memory: str, cpus: int, nodes: str) -> Machine:
    return machine.machine(arch, memory, cpus, machine.parse_nodes(nodes))
