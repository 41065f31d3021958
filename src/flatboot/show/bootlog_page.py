"""An analysed boot log as one web page: the answer, the whole way, a timeline, what would help."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_advice import Advice
from flatboot.bootlog.bootlog_way import WholeWay
from flatboot.common import units
from flatboot.record.record import Call
from flatboot.show import bootlog_tables, bootlog_views, report_plots, web_page
from flatboot.show.plain_table import plain
from flatboot.show.web_page import Block, Section

_NS_PER_S = 1e9
_DRAWN = 8


def page(analysis: Analysis, advice: Sequence[Advice], way: WholeWay) -> str:
    """Return the page as HTML."""
    facts = analysis.facts
    words = [f"Linux {facts.version}" if facts.version else "a kernel without a version"]
    words += [f"{facts.arch}"] if facts.arch else []
    words += [units.binary_size(facts.memory_bytes)] if facts.memory_bytes else []
    words += [units.many(facts.cpus, "CPU")] if facts.cpus else []
    return web_page.html("Where the boot went", ", ".join(words), sections(analysis, advice, way))


def sections(analysis: Analysis, advice: Sequence[Advice], way: WholeWay) -> list[Section]:
    """Return the sections of the page, in order."""
    answer = [" ".join(line.split()) for line in bootlog_views.terse(analysis, advice)]
    if analysis.clock_fault:
        answer.append(f"The clock: {analysis.clock_fault}")
    parts = [
        ("answer", "The answer", [Block("", [], answer)], ""),
        (
            "way",
            "From firmware to the end of the start",
            _tables(bootlog_tables.stage_table(analysis)) if analysis.stages else [],
            "The log does not say: sudo flatboot analyze --live, or --systemd with what"
            " systemd-analyze printed.",
        ),
        ("phases", "Phases of the kernel", _phases(analysis), "The log has no times."),
        (
            "waits",
            "What the boot waited for",
            _tables(bootlog_tables.cause_table(analysis)) if analysis.causes else [],
            "No known cause was found.",
        ),
        (
            "gaps",
            "Largest gaps",
            _tables(bootlog_tables.gap_table(analysis)) if analysis.gaps else [],
            "There are none.",
        ),
        ("units", "Units of systemd", _tables(*bootlog_views.way(way)), "The log does not say."),
        ("help", "What would help", _advice(advice, analysis), "Nothing is known."),
        ("notes", "Notes", _notes(analysis), "There are none."),
    ]
    return [Section(*part) for part in parts]


def _tables(*made: Table) -> list[Block]:
    return [Block("", [plain(table) for table in made])] if made else []


def _phases(analysis: Analysis) -> list[Block]:
    if not analysis.phases:
        return []
    waits = [
        Call(cause.what, cause.start, cause.length)
        for cause in analysis.causes
        if cause.start < analysis.total
    ][:_DRAWN]
    names = list(dict.fromkeys(phase.name for phase in analysis.phases))
    plot = report_plots.timeline(
        "timeline",
        analysis.phases,
        sorted(waits, key=lambda call: call.start),
        names,
        x_label="seconds of the kernel's clock",
        x_text=lambda ns: f"{ns / _NS_PER_S:g}",
        waits=True,
    )
    label = "the phases of the boot, and what it waited for, in seconds of the kernel's clock"
    return [Block("", [plain(bootlog_tables.phase_table(analysis))], [], plot, label)]


def _advice(advice: Sequence[Advice], analysis: Analysis) -> list[Block]:
    found = []
    for item in advice:
        gain = f"Gain: {bootlog_tables.gain(item, analysis)}."
        found.append(Block(f"{item.name} ({item.origin})", [], [item.text, gain]))
    return found


def _notes(analysis: Analysis) -> list[Block]:
    said = [f"{note[0].upper()}{note[1:]}." for note in [*analysis.hidden, *analysis.notes]]
    return [Block("", [], said)] if said else []
