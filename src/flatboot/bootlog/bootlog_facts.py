"""What a log says of its machine and kernel, which messages it lost, and what its console cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.bootlog.bootlog_boots import BANNER
from flatboot.bootlog.bootlog_lines import Line
from flatboot.common import typed, units

_SERIAL = re.compile(r"\bconsole=(tty(?:[A-Z]\w*|mxc\d+)|uart\w*)(?:,(\S*))?")
_BAUD = re.compile(r"(?:^|,)(\d{4,7})(?:[noe]\d?r?)?$")
_DEFAULT_BAUD = 9600
BITS_PER_CHARACTER = 10
#: ``[    0.123456] `` before each line, and carriage return and line feed behind it.
_AROUND = 17
_ENABLED = re.compile(
    r"(?:printk: )?(?:legacy |boot)?console \[(?:tty[A-Z]|ttymxc|uart)\w*\] enabled"
)
_SMP = re.compile(r"\bSMP\b")
_STARTED = re.compile(r"systemd\[1\]: Startup finished in ")
_INIT = re.compile(r"Run (\S+) as init process")
#: What systemd takes of the time to its start until it looks at the clock, at most.
_BEGINS_SHARE = 0.05
_STAGE = re.compile(rf"({units.SPAN}) \((\w+)\)")
_DEFAULT_LEVEL, _QUIET_LEVEL = 7, 4
_LEVEL_WORDS = {"quiet": _QUIET_LEVEL, "debug": 10, "ignore_loglevel": 16}
_BOUND_SHARE = 0.6


@dataclass(frozen=True)
class _FactsFile:
    facts: dict[str, tuple[re.Pattern[str], ...]]
    errors: dict[str, tuple[re.Pattern[str], ...]]
    arches: dict[str, re.Pattern[str]]
    finished: dict[str, re.Pattern[str]]
    losses: dict[re.Pattern[str], str]


_TABLE = typed.load(Path(__file__).with_name("bootlog_facts.toml"), _FactsFile)


@dataclass(frozen=True)
class Facts:
    """The machine and the kernel, as found; what the log does not say is "" or None."""

    version: str
    arch: str
    cmdline: str
    hypervisor: str
    memory_bytes: int | None
    cpus: int | None
    nodes: int | None
    hidden_ns: int | None
    drift_ns: int
    before_kernel: str


@dataclass(frozen=True)
class SerialConsole:
    """What the serial console cost, as an estimate.

    Attributes:
        name: such as "ttyS0".
        baud: its rate, bits a second.
        assumed: whether the log does not say the rate, so that it is the kernel's default.
        characters: printed on it before user space.
        most_ns: what sending them takes at that rate.
        bound: whether the times of the log show that the kernel waited for it.
    """

    name: str
    baud: int
    assumed: bool
    characters: int
    most_ns: int
    bound: bool


def facts(lines: Sequence[Line]) -> Facts:
    """Return what *lines* say of the machine and the kernel."""
    memory = _number(lines, "memory_kib")
    return Facts(
        version=_text(lines, "version"),
        arch=_arch(lines),
        cmdline=_text(lines, "cmdline"),
        hypervisor=_text(lines, "hypervisor"),
        memory_bytes=None if memory is None else memory * 1024,
        cpus=_cpus(lines),
        nodes=_number(lines, "nodes"),
        hidden_ns=_number(lines, "hidden_ns"),
        drift_ns=_number(lines, "drift_ns") or 0,
        before_kernel=_text(lines, "before_kernel"),
    )


@dataclass(frozen=True)
class Trouble:
    """An error of the kernel: what went wrong, when first (ns), how often, and the first line."""

    what: str
    at: int
    times: int
    line: str


def troubles(lines: Sequence[Line]) -> list[Trouble]:
    """Return what went wrong, the worst kind first."""
    found = []
    for what, patterns in _TABLE.errors.items():
        hits = [[line for line in lines if pattern.match(line.text)] for pattern in patterns]
        if any(hits):
            first = min((line for some in hits for line in some), key=lambda line: line.at or 0)
            times = len(next(some for some in hits if some))
            found.append(Trouble(what, first.at or 0, times, first.text))
    return found


@dataclass(frozen=True)
class Stage:
    """A part of the way to the end of the start, by systemd's name for it, and how long, in ns."""

    name: str
    length: int


def stages(lines: Sequence[Line], total: int) -> list[Stage]:
    """Return the parts of the way to the end of the start; none where the log does not say.

    That is what systemd says when it is done. Of other service managers a line says when they are:
    what lies between *total*, where user space begins, and that line is theirs.
    """
    said = next((line.text for line in reversed(lines) if _STARTED.match(line.text)), "")
    if said or not total:
        return stages_of(said)
    patterns = _TABLE.finished.values()
    ends = (line.at for line in lines if any(pattern.match(line.text) for pattern in patterns))
    done = next(ends, None) or 0
    return [Stage("kernel", total), Stage("userspace", done - total)] if done > total else []


def with_initramfs(
    stages: Sequence[Stage], lines: Sequence[Line], cmdline: str, total: int, drift: int
) -> list[Stage]:
    """Return *stages* with the initramfs apart from the kernel, to which systemd adds it.

    It does so where no systemd runs in the initramfs, as with Debian's initramfs-tools. *total* is
    when the initramfs was started, *drift* how much of the clock's drift is taken off that.
    """
    ran = next((match for line in lines if (match := _INIT.match(line.text))), None)
    kernel = next((stage for stage in stages if stage.name == "kernel"), None)
    given = re.search(r"\brdinit=(\S+)", cmdline)
    if (
        kernel is None
        or ran is None
        or ran[1] != (given[1] if given else "/init")
        or any(stage.name == "initrd" for stage in stages)
    ):
        return list(stages)
    initramfs = kernel.length - drift - total
    # The service manager itself may be in the initramfs: that it starts is no part of its own.
    if initramfs < _BEGINS_SHARE * kernel.length:
        return list(stages)
    parts = [Stage("kernel", total), Stage("initrd", initramfs)]
    at = stages.index(kernel)
    return [*stages[:at], *parts, *stages[at + 1 :]]


def stages_of(said: str) -> list[Stage]:
    """Return the parts that the sentence *said* names, as in "1.2s (kernel) + 3.4s (userspace)"."""
    return [Stage(name, units.span(length)) for length, name in _STAGE.findall(said)]


def losses(lines: Sequence[Line]) -> list[str]:
    """Return what was lost, a sentence a kind."""
    said = []
    for pattern, meaning in _TABLE.losses.items():
        counts = [int(match[1]) for line in lines if (match := pattern.search(line.text))]
        if counts:
            said.append(f"{meaning}: {sum(counts):,}")
    return said


def console(lines: Sequence[Line], cmdline: str) -> SerialConsole | None:
    """Return what the serial console cost up to the last of *lines*, if it printed any of them."""
    match = _SERIAL.search(cmdline)
    if match is None:
        return None
    rate = _BAUD.search(match[2] or "")
    baud = int(rate[1]) if rate else _DEFAULT_BAUD
    ns_per_character = BITS_PER_CHARACTER * 1_000_000_000 / baud
    level = _console_level(cmdline)
    printed = [line for line in lines if _is_printed(line, level)]
    if not printed:
        return None
    begins = next((at for at, line in enumerate(lines) if _ENABLED.match(line.text)), 0)
    waits = [
        (following.at or 0) - (line.at or 0) >= 0.9 * characters(line) * ns_per_character
        for line, following in zip(lines[begins:], lines[begins + 1 :], strict=False)
        if _is_printed(line, level)
    ]
    count = sum(map(characters, printed))
    return SerialConsole(
        name=match[1],
        baud=baud,
        assumed=rate is None,
        characters=count,
        most_ns=round(count * ns_per_character),
        bound=bool(waits) and sum(waits) / len(waits) > _BOUND_SHARE,
    )


def characters(line: Line) -> int:
    """Return how many characters a console prints for *line*."""
    return len(line.text) + _AROUND


def _console_level(cmdline: str) -> int:
    """Return the level from which on messages are kept from the console."""
    level = _DEFAULT_LEVEL
    for word in cmdline.split():
        key, _, value = word.partition("=")
        if key == "loglevel" and value.isdigit():
            level = int(value)
        level = _LEVEL_WORDS.get(word, level)
    return level


def _is_printed(line: Line, level: int) -> bool:
    """Return whether *line* goes to the console; one of unknown level does unless it is quiet."""
    return level > _QUIET_LEVEL if line.level is None else line.level < level


def _text(lines: Sequence[Line], name: str) -> str:
    for pattern in _TABLE.facts[name]:
        for line in lines:
            if match := pattern.match(line.text):
                return next(group for group in match.groups() if group is not None).strip()
    return ""


def _number(lines: Sequence[Line], name: str) -> int | None:
    text = _text(lines, name)
    return int(text) if text else None


def _cpus(lines: Sequence[Line]) -> int | None:
    """Return the number of CPUs; a kernel that is not built for several has one."""
    banner = next((line.text for line in lines if BANNER.match(line.text)), "")
    return _number(lines, "cpus") or (1 if banner and not _SMP.search(banner) else None)


def _arch(lines: Sequence[Line]) -> str:
    for name, pattern in _TABLE.arches.items():
        if any(pattern.match(line.text) for line in lines):
            return name
    return ""
