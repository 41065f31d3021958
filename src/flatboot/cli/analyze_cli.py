"""``flatboot analyze``: what any boot log of Linux tells."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_json
from rich.text import Text

from flatboot.bootlog import (
    bootlog_advice,
    bootlog_document,
    bootlog_input,
    bootlog_way,
    log_gap,
)
from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_way import WholeWay
from flatboot.bootlog.redact import Redactor
from flatboot.common import disk, progress, screen, units
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import callbacks, timeline
from flatboot.record.callbacks import Callback
from flatboot.show import bootlog_tables, bootlog_views


@disk.full_is_an_error()
def analyze(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOG [LOG]]",
            help="A kernel log in any form; - for standard input. Of two, what the second takes"
            " longer for.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Read /dev/kmsg of this machine.")] = False,
    boot: Annotated[
        int | None, typer.Option(min=1, help="Which boot of the log; the last if not given.")
    ] = None,
    against: Annotated[
        int | None, typer.Option(min=1, help="Compare the boot with this one of the same log.")
    ] = None,
    boots: Annotated[bool, typer.Option("--boots", help="List the boots, a line each.")] = False,
    terse: Annotated[
        bool, typer.Option("--terse", help="Three lines: where, why, what to do.")
    ] = False,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="The log, each line with the time since the last.")
    ] = False,
    over: Annotated[
        str, typer.Option(help="With --annotate: only what took so long, such as 50ms.")
    ] = "0s",
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Print the log without names, addresses, serial numbers and keys."
        ),
    ] = False,
    systemd_file: Annotated[
        Path | None,
        typer.Option(
            "--systemd",
            help="Output of systemd-analyze (time, blame, critical-chain, plot, dump) of the boot.",
        ),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="An ftrace text trace of cpuhp events: CPU callbacks."),
    ] = None,
    timeline_file: Annotated[
        Path | None,
        typer.Option("--timeline", help="Write a Chrome trace-event file, which Perfetto opens."),
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="Write a web page that needs nothing beside itself."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, times in ns.")] = False,
) -> None:
    """Say where a boot's time went, from its log: gaps, phases, initcalls, advice."""
    logs = files or []
    if live == bool(logs) or len(logs) > 2:
        raise UsageError("give either one log, or two, or --live")
    if live and (boot, against, boots) != (None, None, False):
        raise UsageError("the ring buffer holds one boot: leave out --boot, --against and --boots")
    if redact:
        _redact(logs)
        return
    if against is not None or len(logs) == 2:
        _compare(logs, boot, against)
        return
    console = screen.console()
    if boots:
        console.print(bootlog_views.boots(bootlog_input.analyze_boots(logs[0])))
        return
    analysis = bootlog_input.analyze_live() if live else bootlog_input.analyze(logs[0], boot)
    way = _way(live, systemd_file)
    analysis = bootlog_way.added(analysis, way)
    if annotate:
        for part in bootlog_views.annotated(analysis, units.span(over)):
            console.print(part, soft_wrap=True)
        return
    trace = ""
    if trace_file is not None:
        with disk.reading(trace_file):
            trace = trace_file.read_text(errors="replace")
    calls = callbacks.parse(trace)
    if trace_file is not None and not calls:
        raise FlatbootError(f"{trace_file} holds no cpuhp events: boot with trace_event=cpuhp:*")
    if lost := callbacks.lost(trace):
        progress.warn(f"the trace lost {lost:,} events: trace_buf_size= makes its buffers larger")
    if timeline_file is not None:
        with disk.writing(timeline_file):
            timeline.save(_timeline(analysis, calls, callbacks.unit(trace)), timeline_file)
    advice = bootlog_advice.advise(analysis)
    if html_file is not None:
        # What draws takes longer to start than all the rest.
        from flatboot.show import bootlog_page, web_page

        with disk.writing(html_file):
            web_page.write(bootlog_page.page(analysis, advice, way), html_file)
    if as_json:
        typer.echo(
            to_json(
                bootlog_document.document(analysis, advice, callbacks.costs(calls)), indent=1
            ).decode()
        )
        return
    if terse:
        for line in bootlog_views.terse(analysis, advice):
            console.print(Text(line), soft_wrap=True)
        return
    for part in bootlog_tables.report(analysis, advice):
        console.print(part)
    for part in bootlog_views.way(way):
        console.print(part)
    if calls:
        console.print(bootlog_tables.callback_table(calls, callbacks.unit(trace)))


def _way(live: bool, systemd_file: Path | None) -> WholeWay:
    """Return what is told of the time before and behind the kernel."""
    if systemd_file is not None:
        with disk.reading(systemd_file):
            way = bootlog_way.of_text(systemd_file.read_text(errors="replace"))
        if way == WholeWay():
            raise FlatbootError(
                f"{systemd_file} holds no output of systemd-analyze: give that of its commands"
                " time, blame and critical-chain"
            )
        return way
    return bootlog_way.of_this_machine() if live else WholeWay()


def _redact(logs: Sequence[str]) -> None:
    """Print a log without its secrets, and on standard error how many there were."""
    if len(logs) != 1:
        raise UsageError("--redact takes one log: save that of this machine with dmesg")
    redactor = Redactor()

    def printed(texts: Iterator[str]) -> None:
        for line in redactor.lines(texts):
            sys.stdout.write(f"{line}\n")

    bootlog_input.of_texts(logs[0], printed)
    found = ", ".join(units.many(count, kind) for kind, count in redactor.counts.items())
    progress.warn(f"replaced: {found or 'nothing'}; look at the log before you post it")


def _compare(logs: Sequence[str], boot: int | None, against: int | None) -> None:
    """Print what a boot takes longer for than another, of two logs or of one."""
    if len(logs) == 2 and (boot, against) != (None, None):
        raise UsageError("of two logs the last boots are compared: leave out --boot and --against")
    pairs = [(logs[0], against), (logs[-1], boot)]
    if all(name == bootlog_input.STDIN for name, _ in pairs):
        raise UsageError("standard input can be read once only: give files")
    old, new = (bootlog_input.analyze(name, number) for name, number in pairs)
    if not old.total or not new.total:
        raise FlatbootError("a log without times cannot be compared: boot with printk.time=1")
    lines = ([((line.at or 0) / 1e9, line.text) for line in each.messages] for each in (old, new))
    console = screen.console()
    for part in bootlog_views.against(old, new, log_gap.wider(*lines)):
        console.print(part)


def _timeline(analysis: Analysis, calls: Sequence[Callback], unit: str) -> dict[str, Any]:
    gaps = [(gap.before[-1], gap.start, gap.length) for gap in analysis.gaps]
    tracks = {
        "phases": [(item.name, item.start, item.length) for item in analysis.phases],
        "largest gaps": sorted(gaps, key=lambda gap: gap[1]),
        "initcalls": [(item.function, item.start, item.length) for item in analysis.initcalls],
        "driver probes": [(item.function, item.start, item.length) for item in analysis.probes],
    }
    if unit == "ns":
        for cpu in sorted({call.cpu for call in calls}):
            tracks[f"callbacks of CPU {cpu}"] = [
                (call.function, round(call.start), round(call.length))
                for call in calls
                if call.cpu == cpu
            ]
    title = f"{analysis.facts.version}, kernel log"
    about = {"clock": "the kernel's", "unit": "ns", "cmdline": analysis.facts.cmdline}
    return timeline.document(title, tracks, about)
