"""What any boot log of Linux tells: phases, gaps, initcalls, the machine, and advice."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from flatboot.bootlog import bootlog_causes, bootlog_facts, bootlog_lines, bootlog_phases
from flatboot.bootlog.bootlog_boots import BootLog, NoBoot, choose, each
from flatboot.bootlog.bootlog_causes import Cause
from flatboot.bootlog.bootlog_facts import Facts, SerialConsole, Stage, Trouble
from flatboot.bootlog.bootlog_lines import Line
from flatboot.common import units
from flatboot.record.record import Call, Phase

_MOST_GAPS = 5
_CONTEXT = 2
#: A drift of the clock below this share of the boot is left alone.
_DRIFT_SHARE = 0.01
#: Steps of a clock that are too short to matter.
_FINE_NS = 1_000_000
#: How long behind the start of user space its causes are looked for.
_LATER_NS = 900_000_000_000
_BEGINNING_NS = 10_000_000_000
_TOO_LITTLE = (
    "the log ends before the kernel has said anything that tells of its boot: give all of it"
)
_STABLE = re.compile("sched_clock: Marking stable")
_CALIBRATED = re.compile("smpboot: CPU0: ")
_FUNCTION = r"(\S+?)(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: \[\w+\])?"
_CALLING = re.compile(rf"calling  {_FUNCTION} @ \d+$")
_RETURNED = re.compile(rf"initcall {_FUNCTION} returned .*?after (\d+) usecs$")
_PROBED = re.compile(r"probe of (\S+)(?: with driver (\S+))? returned .*?after (\d+) usecs$")


@dataclass(frozen=True)
class Gap:
    """A time without a message, in ns.

    Attributes:
        start: when the last message before it was printed.
        length: how long nothing was.
        phase: where it lies.
        initcall: the initcall that ran then, or "".
        before: the last messages before it, the nearest last.
        after: the first ones behind it.
    """

    start: int
    length: int
    phase: str
    initcall: str
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class Analysis:
    """One boot as its log shows it. All times are ns of the kernel's clock.

    Attributes:
        format: the form of the log.
        resolution_ns: the shortest time that it can tell; 0: it has no times.
        boot: the number of this boot in the log, from 1.
        boots: how many the log holds.
        facts: the machine and the kernel.
        total: when user space started, or how far the log goes; 0 if it has no times, or none that
            differ.
        from_start: whether the log holds the kernel's first message.
        to_user_space: whether it shows the start of user space.
        phases: in order of time, without gaps, adding up to *total*; empty without times.
        gaps: the largest, the largest first.
        causes: what it waited for, the longest first.
        troubles: what went wrong, also behind the start of user space; the worst first.
        stages: the parts of the way to the end of the start, as systemd or another service manager
            told it; [] if it did not.
        initcalls: in order of time; with ``initcall_debug`` only.
        probes: driver probes, likewise.
        console: the serial console and its cost, if there was one.
        clock_fault: how far the kernel's clock was wrong, a sentence, or "".
        shifted_ns: how much of that is taken off.
        hidden: sentences on what the log cannot show.
        notes: sentences on what is missing or doubtful.
        messages: how many messages there are.
    """

    format: str
    resolution_ns: int
    boot: int
    boots: int
    facts: Facts
    total: int
    from_start: bool
    to_user_space: bool
    phases: list[Phase]
    gaps: list[Gap]
    causes: list[Cause]
    troubles: list[Trouble]
    stages: list[Stage]
    initcalls: list[Call]
    probes: list[Call]
    console: SerialConsole | None
    clock_fault: str
    shifted_ns: int
    hidden: list[str]
    notes: list[str]
    messages: list[Line]


def analyze(text: str, boot: int | None = None) -> Analysis:
    """Return what *text*, a log in any form, tells of its boot number *boot* (None: the last).

    Raises:
        NoBoot: it holds no boot.
        UsageError: it holds fewer boots.
    """
    return analyze_lines(bootlog_lines.parse(text.splitlines()), boot)


def analyze_lines(lines: Iterable[Line], wanted: int | None = None) -> Analysis:
    """Return what *lines* tell; otherwise as ``analyze``."""
    return _analysis(*choose(lines, wanted))


def analyze_each(lines: Iterable[Line]) -> Iterator[Analysis | NoBoot]:
    """Yield what each boot of *lines* tells, or why it tells nothing; ``boots`` is its number."""
    for number, boot in enumerate(each(lines), 1):
        try:
            yield _analysis(boot, number, number)
        except NoBoot as error:
            yield error


def _analysis(boot: BootLog, number: int, boots: int) -> Analysis:
    facts = bootlog_facts.facts(boot.lines)
    drift = facts.drift_ns if boot.format.clock == "kernel" else 0
    kept, drift_note = _without_drift(boot.lines, drift)
    shifted = (boot.lines[-1].at or 0) - (kept[-1].at or 0)
    found = bootlog_phases.find(kept)
    if not _is_beginning(boot) and not (found and boot.lines[0].at is None):
        raise NoBoot(_no_boot(boot))
    total = bootlog_phases.end(kept, found)
    if not total and boot.format.clock == "kernel":
        raise NoBoot(_TOO_LITTLE)
    before = [line for line in kept if (line.at or 0) <= total]
    phases = bootlog_phases.phases(kept, found)
    calls = initcalls(before)
    console = bootlog_facts.console(before, facts.cmdline) if total else None
    near = [line for line in kept if (line.at or 0) <= total + _LATER_NS]
    step = boot.format.resolution_ns
    causes = bootlog_causes.find(near, facts, total, step, console) if total else []
    return Analysis(
        format=boot.format.name,
        resolution_ns=step,
        boot=number,
        boots=boots,
        facts=facts,
        total=total,
        from_start=boot.whole_start,
        to_user_space=bootlog_phases.user_space(found),
        phases=phases,
        gaps=_gaps(before, phases, calls, step),
        causes=causes,
        troubles=bootlog_facts.troubles(boot.lines),
        stages=bootlog_facts.with_initramfs(
            bootlog_facts.stages(kept, total), kept, facts.cmdline, total, shifted
        ),
        initcalls=calls,
        probes=_probes(before),
        console=console,
        clock_fault=drift_note,
        shifted_ns=shifted,
        hidden=_hidden(before, facts) if boot.whole_start and total else [],
        notes=[note for note in _notes(boot, kept, found) if note],
        messages=before,
    )


def initcalls(lines: Sequence[Line]) -> list[Call]:
    """Return the initcalls that ``initcall_debug`` made *lines* tell of, in order of time."""
    begun: dict[str, int] = {}
    calls = []
    for line in lines:
        if match := _CALLING.match(line.text):
            begun[match[1]] = line.at or 0
        elif match := _RETURNED.match(line.text):
            length = int(match[2]) * 1000
            start = begun.pop(match[1], max((line.at or 0) - length, 0))
            calls.append(Call(match[1], start, length))
    return sorted(calls, key=lambda call: call.start)


def _probes(lines: Sequence[Line]) -> list[Call]:
    calls = []
    for line in lines:
        if match := _PROBED.match(line.text):
            length = int(match[3]) * 1000
            name = f"{match[1]} ({match[2]})" if match[2] else match[1]
            calls.append(Call(name, max((line.at or 0) - length, 0), length))
    return calls


def _gaps(
    lines: Sequence[Line], phases: Sequence[Phase], calls: Sequence[Call], step: int
) -> list[Gap]:
    """Return the largest gaps; a line that is printed out of order makes none.

    A gap that is not longer than the *step* of the clock, in ns, may be none.
    """
    latest = 0
    sized: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        at = line.at or 0
        if index and at - latest > (step if step > _FINE_NS else 0):
            sized.append((at - latest, index))
        latest = max(latest, at)
    sized.sort(key=lambda item: -item[0])
    return [_gap(lines, index, length, phases, calls) for length, index in sized[:_MOST_GAPS]]


def _gap(
    lines: Sequence[Line], index: int, length: int, phases: Sequence[Phase], calls: Sequence[Call]
) -> Gap:
    end = lines[index].at or 0
    middle = end - length // 2
    at = bisect.bisect_right([phase.start for phase in phases], middle) - 1
    inside = [call for call in calls if call.start <= middle < call.start + call.length]
    return Gap(
        start=end - length,
        length=length,
        phase=phases[at].name if phases else "",
        initcall=min(inside, key=lambda call: call.length).function if inside else "",
        before=[line.text for line in lines[max(0, index - _CONTEXT) : index]],
        after=[line.text for line in lines[index : index + _CONTEXT]],
    )


def _without_drift(lines: list[Line], drift: int) -> tuple[list[Line], str]:
    """Return *lines* with the drift of the kernel's clock taken off, and a note on it.

    Until the kernel trusts the processor's counter, its clock follows the timer interrupt; by how
    much it ran ahead of the counter it says then. On x86 that happens while the timer of the local
    APIC is calibrated. If the gap of that can hold all of it, it is taken off there.
    """
    marked = _first(_STABLE, lines)
    moment = lines[marked].at or 0
    if not drift or abs(drift) < _DRIFT_SHARE * moment:
        return lines, ""
    said = f"until {units.duration(moment)} the kernel's clock ran {units.duration(abs(drift))}"
    if drift < 0:
        return lines, f"{said} behind the processor's counter: that much is missing in the phases"
    place = _first(_CALIBRATED, lines[:marked])
    if (lines[place].at or 0) - (lines[place - 1].at or 0) < drift:
        return lines, f"{said} ahead of the processor's counter: the phases hold so much too much"
    shifted = [replace(line, at=(line.at or 0) - drift) for line in lines[place:]]
    where = f"it is taken off the gap before {lines[place].text!r}"
    return [*lines[:place], *shifted], f"{said} ahead of the processor's counter: {where}"


def _first(pattern: re.Pattern[str], lines: Sequence[Line]) -> int:
    """Return the index of the first line that fits *pattern*, or 0."""
    return next((i for i, line in enumerate(lines) if pattern.match(line.text)), 0)


def _hidden(lines: Sequence[Line], facts: Facts) -> list[str]:
    """Return what happened before the clock of the kernel began."""
    still = sum(1 for line in lines if not line.at)
    zero = f" (the {units.many(still, 'message')} with the time 0)" if still else ""
    said = [
        "firmware, boot loader, unpacking of the kernel, and what it did before its clock"
        f" began{zero}"
    ]
    if facts.hidden_ns is not None:
        said.append(
            f"the virtual machine had run {units.duration(facts.hidden_ns)} when the kernel's clock"
            " began"
        )
    if facts.before_kernel:
        said.append(f"systemd says of the time before the kernel: {facts.before_kernel}")
    return said


def _notes(
    boot: BootLog, lines: Sequence[Line], found: Sequence[bootlog_phases.FoundMark]
) -> list[str]:
    said = [boot.format.note]
    if boot.format.clock == "none":
        said.append("the log has no times: boot with printk.time=1 for phases and gaps")
    elif not lines[-1].at:
        said.append("all messages have the same time, so there are no phases and gaps")
    if boot.format.resolution_ns > _FINE_NS and lines[-1].at:
        step = units.duration(boot.format.resolution_ns)
        said.append(f"a gap that is not longer than {step}, a step of the clock, is not shown")
    if not boot.whole_start:
        first = units.duration(lines[0].at or 0)
        said.append(
            f"the log does not begin with the boot (its first time is {first}): if the ring buffer"
            " wrapped, log_buf_len=16M makes it larger"
        )
    if not bootlog_phases.user_space(found):
        said.append("the log does not show the start of user space: it ends before, or is too old")
    elif boot.format.clock != "none" and (
        lost := [mark.begins for mark in bootlog_phases.missing(lines, found)]
    ):
        said.append(f"no line shows the beginning of {', '.join(lost)}: unattributed")
    said += bootlog_facts.losses(lines)
    counted = {
        "messages missing, as the numbers of /dev/kmsg show": boot.missed,
        "messages that came twice and count once": boot.replayed,
        "messages left out because their time cannot be right": boot.torn,
    }
    said += [f"{what}: {count:,}" for what, count in counted.items() if count]
    if boot.overflow:
        said.append("the boot has too many messages to be kept: its end is left out")
    return said


def _is_beginning(boot: BootLog) -> bool:
    """Return whether the lines stand at the beginning of a boot, so that their gaps mean much."""
    return boot.lines[0].at is not None and boot.lines[0].at < _BEGINNING_NS


def _no_boot(boot: BootLog) -> str:
    first = boot.lines[0]
    if first.at is None or boot.whole_start:
        return _TOO_LITTLE
    return (
        f"the log holds messages of a kernel (the first at {units.duration(first.at)}), but none of"
        " its boot: give the whole log, as journalctl -k -b or the console has it"
    )
