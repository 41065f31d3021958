"""``flatboot analyze``: what any boot log of Linux tells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_json

from flatboot.bootlog import bootlog_advice, bootlog_input
from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_advice import Advice
from flatboot.common import disk, progress, screen
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import callbacks, timeline
from flatboot.record.callbacks import Callback
from flatboot.show import bootlog_tables


@disk.full_is_an_error()
def analyze(
    file: Annotated[
        str | None, typer.Argument(help="A kernel log in any form; - for standard input.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Read /dev/kmsg of this machine.")] = False,
    boot: Annotated[
        int | None, typer.Option(min=1, help="Which boot of the log; the last if not given.")
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="An ftrace text trace of cpuhp events: CPU callbacks."),
    ] = None,
    timeline_file: Annotated[
        Path | None,
        typer.Option("--timeline", help="Write a Chrome trace-event file, which Perfetto opens."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, times in ns.")] = False,
) -> None:
    """Say where a boot's time went, from its log: gaps, phases, initcalls, advice."""
    if live == (file is not None):
        raise UsageError("give either a log or --live")
    if live and boot is not None:
        raise UsageError("the ring buffer holds one boot: leave out --boot")
    analysis = bootlog_input.analyze_live() if file is None else bootlog_input.analyze(file, boot)
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
    if as_json:
        typer.echo(to_json(_document(analysis, advice, calls), indent=1).decode())
        return
    console = screen.console()
    for part in bootlog_tables.report(analysis, advice):
        console.print(part)
    if calls:
        console.print(bootlog_tables.callback_table(calls, callbacks.unit(trace)))


def _document(
    analysis: Analysis, advice: Sequence[Advice], calls: Sequence[Callback]
) -> dict[str, Any]:
    document = {
        field.name: getattr(analysis, field.name)
        for field in dataclasses.fields(analysis)
        if field.name != "messages"
    }
    return document | {"advice": advice, "callbacks": callbacks.costs(calls)}


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
