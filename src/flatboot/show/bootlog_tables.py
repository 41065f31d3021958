"""An analysed boot log for people: what matters first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.bar import Bar
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flatboot.bootlog.bootlog import Analysis, Gap
from flatboot.bootlog.bootlog_advice import Advice
from flatboot.bootlog.bootlog_causes import Cause
from flatboot.bootlog.bootlog_facts import Stage
from flatboot.common import units
from flatboot.record import callbacks
from flatboot.record.callbacks import Callback
from flatboot.record.phases import UNATTRIBUTED
from flatboot.record.record import Call

_BAR_WIDTH = 16
_SLOWEST = 10
_MOST_CAUSES = 10
#: A known cause leads if it takes this share of the longest gap.
_LEADS = 0.9
#: The parts behind the kernel, by systemd's names.
AFTER_KERNEL = {"initrd": "initramfs", "userspace": "user space"}
#: What to do about them.
ASK = "ask the service manager: systemd-analyze blame, critical-chain"
_STAGES = {
    "before": "before the kernel's clock",
    "loader": "boot loader",
    "unpacking": "kernel, before its clock",
    **AFTER_KERNEL,
}


def report(analysis: Analysis, advice: Sequence[Advice]) -> Iterator[RenderableType]:
    """Yield what is to be printed, in its order: the cause and the remedy are the first."""
    yield from _errors(analysis)
    head = _headline(analysis, advice)
    if head is not None:
        yield head
    if analysis.clock_fault:
        yield Text(f"The clock: {analysis.clock_fault}\n", style="yellow")
    yield _summary(analysis)
    if len(analysis.causes) > isinstance(leading(analysis), Cause):
        yield cause_table(analysis)
    if analysis.stages:
        yield stage_table(analysis)
    if analysis.phases:
        yield phase_table(analysis)
    if len(analysis.gaps) > 1:
        yield gap_table(analysis)
    if analysis.initcalls:
        yield _call_table("initcalls", analysis.initcalls, analysis.total)
    if analysis.probes:
        yield _call_table("driver probes", analysis.probes, analysis.total)
    yield from _advice(advice, analysis)
    if analysis.hidden:
        yield _list("Not in this log", analysis.hidden)
    if analysis.notes:
        yield _list("Notes", analysis.notes)


def callback_table(calls: Sequence[Callback], unit: str) -> Table:
    """Return the most expensive CPU callbacks of a trace."""
    costs = callbacks.costs(calls)
    cpus = len({call.cpu for call in calls})
    table = Table(
        title=f"CPU callbacks: {len(costs)}, on {cpus} CPUs, in {unit}",
        title_justify="left",
        caption=f"without {callbacks.TRACERS_OWN}, which is the tracer's own",
        caption_justify="left",
    )
    table.add_column("step", justify="right")
    table.add_column("callback", overflow="fold")
    for column in ("calls", "together", "mean", "longest"):
        table.add_column(column, justify="right")
    for cost in costs[:_SLOWEST]:
        numbers = (cost.calls, cost.total, cost.mean, cost.longest)
        table.add_row(str(cost.step), cost.function, *(f"{number:,.0f}" for number in numbers))
    return table


def _errors(analysis: Analysis) -> Iterator[Text]:
    """Yield what went wrong."""
    for trouble in analysis.troubles:
        often = "once" if trouble.times == 1 else f"{trouble.times} times"
        when = f" at {units.duration(trouble.at)}" if trouble.at else ""
        text = Text(f"{trouble.what[0].upper()}{trouble.what[1:]}{when}, {often}:", "bold red")
        text.append(f" {trouble.line}\n", "not bold default")
        yield text


def leading(analysis: Analysis) -> Stage | Cause | Gap | None:
    """Return what took longest: a part behind the kernel's, a known cause, or else a gap.

    The parts behind the kernel's count if together they take longer than it; a cause does if no gap
    is much longer. None where nothing stands out.
    """
    after = [stage for stage in analysis.stages if stage.name in AFTER_KERNEL]
    if sum(stage.length for stage in after) > analysis.total > 0:
        return max(after, key=lambda stage: stage.length)
    gap = analysis.gaps[0] if analysis.gaps else None
    cause = analysis.causes[0] if analysis.causes else None
    if cause is not None and cause.length >= _LEADS * (gap.length if gap else 0):
        return cause
    return gap


def _headline(analysis: Analysis, advice: Sequence[Advice]) -> Text | None:
    """Return what took longest, why, and what to do; None where nothing stands out."""
    match leading(analysis):
        case Stage() as stage:
            return _stage_headline(analysis, stage)
        case Cause() as cause:
            return _cause_headline(analysis, cause, advice)
        case Gap() as gap:
            return _gap_headline(analysis, gap)
    return None


def _stage_headline(analysis: Analysis, stage: Stage) -> Text:
    text = Text(units.duration(stage.length), style="bold")
    text.append(
        f" of {units.duration(whole_way(analysis))} pass in the {AFTER_KERNEL[stage.name]}, by its"
        f" own count; the kernel's part is {units.duration(analysis.total)}.\n",
        "not bold",
    )
    text.append(f"Do: {ASK}.\n", "not bold")
    return text


def whole_way(analysis: Analysis) -> int:
    """Return how long all parts from firmware to the end of the start took, in ns."""
    return sum(stage.length for stage in analysis.stages)


def _cause_headline(analysis: Analysis, cause: Cause, advice: Sequence[Advice]) -> Text:
    text = Text(units.duration(cause.length), style="bold")
    where = f", {cause.devices} devices in turn" if cause.devices > 1 and cause.name else ""
    share = f"{_share(cause.length, analysis.total)} of {whole(analysis)}"
    if cause.start >= analysis.total:
        share = "behind the kernel's part"
    text.append(f" ({share}): {sure(cause)}{where}.\n", "not bold")
    if cause.like:
        text.append(f"It may also be {cause.like}.\n", "not bold")
    to_do = remedy(cause, advice)
    if to_do is not None:
        text.append("Do: ", "bold")
        text.append(f"{to_do.name}\n", "not bold")
    for word, line in (("After", cause.after), ("Until", cause.until)):
        if line:
            text.append(f"{word}: ", "not bold dim")
            text.append(f"{line.strip()}\n", "not bold")
    return text


def sure(cause: Cause) -> str:
    """Return what went on, and that it is a guess, if it is one."""
    return f"{'likely ' * (cause.sure == 'likely')}{cause.what}"


def remedy(cause: Cause, advice: Sequence[Advice]) -> Advice | None:
    """Return what helps most against *cause*; another kernel is the last thing to try."""
    remedies = [item for item in advice if cause.name and item.cause == cause.name]
    return min(remedies, key=lambda item: item.origin == "flatboot", default=None)


def cause_table(analysis: Analysis) -> Table:
    """Return what the boot waited for, the longest first."""
    table = Table(title="What the boot waited for", title_justify="left")
    table.add_column("what", overflow="fold")
    table.add_column("begins", justify="right")
    table.add_column("takes", justify="right")
    table.add_column("sure")
    for cause in analysis.causes[:_MOST_CAUSES]:
        what = cause.what if cause.name else f"{cause.what}: {cause.until}"
        length = units.duration(cause.length)
        table.add_row(Text(what), units.duration(cause.start), length, cause.sure)
    return table


def whole(analysis: Analysis) -> str:
    """Return what the total is: the kernel's part, or as far as the log goes."""
    return "the kernel's part" if analysis.to_user_space else "the log"


def _gap_headline(analysis: Analysis, gap: Gap) -> Text:
    text = Text(f"{units.duration(gap.length)}", style="bold")
    text.append(
        f" ({gap.length / analysis.total:.1%} of {whole(analysis)}) pass between two lines",
        "not bold",
    )
    text.append(f"{_where(gap)}:\n", "not bold")
    for index, line in enumerate(gap.before):
        last = index == len(gap.before) - 1
        text.append(f"  {line}\n", "bold" if last else "not bold dim")
    text.append(f"  ... {units.duration(gap.length)} ...\n", "bold red")
    for index, line in enumerate(gap.after):
        text.append(f"  {line}\n", "not bold dim" if index else "bold")
    return text


def _where(gap: Gap) -> str:
    parts = [f", initcall {gap.initcall}"] if gap.initcall else []
    if gap.phase not in ("", UNATTRIBUTED):
        parts.insert(0, f", in {gap.phase}")
    return "".join(parts)


def _summary(analysis: Analysis) -> Text:
    facts = analysis.facts
    size = units.binary_size(facts.memory_bytes) if facts.memory_bytes else "memory not told"
    cpus = units.many(facts.cpus, "CPU") if facts.cpus else "CPUs not told"
    nodes = f", {units.many(facts.nodes, 'node')}" if facts.nodes else ""
    lines = [
        f"Linux {facts.version or '(version not told)'}{f' ({facts.arch})' * bool(facts.arch)},"
        f" {size}, {cpus}{nodes}{f', {facts.hypervisor}' * bool(facts.hypervisor)}",
        f"boot {analysis.boot} of {analysis.boots} in the log, form: {analysis.format}",
    ]
    if console := analysis.console:
        assumed = " (the default)" if console.assumed else ""
        waited = (
            "the kernel waited for it"
            if console.bound
            else "the times do not show that the kernel waited for it"
        )
        lines.append(
            f"serial console {console.name}, {console.baud} baud{assumed}: about"
            f" {console.characters:,} characters, {units.duration(console.most_ns)} at that rate;"
            f" {waited}"
        )
    return Text("\n".join(lines) + "\n")


def stage_table(analysis: Analysis) -> Table:
    """Return the parts from firmware to the end of the start."""
    total = whole_way(analysis)
    table = Table(title="From firmware to the end of the start", title_justify="left")
    table.add_column("part")
    table.add_column("takes", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", width=_BAR_WIDTH)
    for stage in analysis.stages:
        share = stage.length / total if total else 0.0
        name = _STAGES.get(stage.name, stage.name)
        bar = Bar(1, 0, share, width=_BAR_WIDTH, color="cyan")
        table.add_row(name, units.duration(stage.length), f"{share:.1%}", bar)
    return table


def phase_table(analysis: Analysis) -> Table:
    """Return the phases of the kernel's part."""
    end = "to user space" if analysis.to_user_space else "as far as the log goes"
    table = Table(
        title="Where the boot went, from the start of the kernel's clock",
        title_justify="left",
        show_footer=True,
    )
    table.add_column("phase", footer=f"total, {end}", no_wrap=True)
    table.add_column("begins", justify="right")
    table.add_column("takes", justify="right", footer=units.duration(analysis.total))
    table.add_column("share", justify="right", footer="100.0%")
    table.add_column("", width=_BAR_WIDTH)
    for phase in analysis.phases:
        share = phase.length / analysis.total
        table.add_row(
            phase.name,
            units.duration(phase.start),
            units.duration(phase.length),
            f"{share:.1%}",
            Bar(1, 0, share, width=_BAR_WIDTH, color="cyan"),
        )
    return table


def gap_table(analysis: Analysis) -> Table:
    """Return the largest gaps, with the lines around them."""
    table = Table(title="Largest gaps", title_justify="left", show_lines=True)
    table.add_column("gap", justify="right")
    table.add_column("share", justify="right")
    table.add_column("in", max_width=18)
    table.add_column("between", overflow="fold")
    for gap in analysis.gaps:
        table.add_row(
            units.duration(gap.length),
            _share(gap.length, analysis.total),
            gap.initcall or gap.phase,
            Text(f"{gap.before[-1]}\n{gap.after[0]}"),
        )
    return table


def _call_table(what: str, calls: Sequence[Call], total: int) -> Table:
    together = sum(call.length for call in calls)
    table = Table(
        title=f"Slowest of {len(calls)} {what} ({units.duration(together)} together)",
        title_justify="left",
    )
    table.add_column(what.removesuffix("s"), overflow="fold")
    table.add_column("takes", justify="right")
    table.add_column("share", justify="right")
    for call in sorted(calls, key=lambda call: -call.length)[:_SLOWEST]:
        table.add_row(call.function, units.duration(call.length), _share(call.length, total))
    return table


def _advice(advice: Sequence[Advice], analysis: Analysis) -> Iterator[RenderableType]:
    if not advice:
        return
    yield Text("What would help", style="italic")
    for item in advice:
        head = Text(f"{item.name}", style="bold")
        head.append(f" ({item.origin}): {gain(item, analysis)}", "not bold")
        yield head
        yield Padding(Text(item.text), (0, 0, 1, 4))


def gain(item: Advice, analysis: Analysis) -> str:
    """Return what a piece of advice gains, in words."""
    if item.gain is None:
        return "not known from this log"
    total = analysis.total
    share = f", {_share(item.gain, total)} of {whole(analysis)}" if total else ""
    return f"up to {units.duration(item.gain)}{share}"


def _list(title: str, sentences: Sequence[str]) -> Text:
    text = Text(f"{title}\n", style="italic")
    for sentence in sentences:
        text.append(f"- {sentence}\n", "not italic")
    return text


def _share(part: int, total: int) -> str:
    return f"{part / total:.1%}" if total else ""
