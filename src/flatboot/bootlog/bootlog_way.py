"""The way around the kernel: firmware and loader before it, initramfs and user space behind it."""

from __future__ import annotations

import datetime
import html
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from flatboot.bootlog import kernel_clock
from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_facts import Stage, stages_of, with_initramfs
from flatboot.common import units

#: What the kernel shows of the firmware's own record (ACPI FPDT), in ns since reset.
FPDT = Path("/sys/firmware/acpi/fpdt/boot")
#: What loaders leave in variables of EFI, in microseconds since reset.
EFI_VARIABLES = Path("/sys/firmware/efi/efivars")
_LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_COMMANDS = (("time",), ("blame",), ("critical-chain", "--no-pager"))
_SECONDS = 20.0
_BLAME = re.compile(rf"^ *(?P<time>{units.SPAN}) (?P<unit>\S+\.\w+)$")
_CHAIN = re.compile(
    rf"^[ └─│├]*(?P<unit>\S+\.\w+) @(?P<at>{units.SPAN})(?: \+(?P<time>{units.SPAN}))?$"
)
#: In the SVG of systemd-analyze plot: a unit, where it begins, and a bar of the manager itself.
_DRAWN = re.compile(
    r'<text class="(?:left|right)" x="(?P<x>[\d.]+)"[^>]*>'
    rf"(?P<unit>\S+\.\w+) \((?P<time>{units.SPAN})\)<"
)
_MANAGER = re.compile(
    r'<rect class="active" x="(?P<x>[\d.]+)"[^>]*/>\s*'
    r'(?:<rect class="(?:security|generators|unitsload)"[^>]*/>\s*)+'
)
_NS_PER_PIXEL = 10_000_000
#: In systemd-analyze dump.
_DUMPED_UNIT = re.compile(r"^-> Unit (\S+):$")
_DUMPED_TIME = re.compile(
    r"^\s*(?:Timestamp )?(?P<what>[\w ]+?)(?: Timestamp)?: "
    r"(?:\w{3} )?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)
_ORDER = ("before", "firmware", "loader", "unpacking", "kernel", "initrd", "userspace")
#: More than a kernel takes until its clock begins, and than firmware, loader and kernel do: the
#: counter counts from somewhere else then, as on machines where a warm reset leaves it alone.
_UNPACKING_NS, _BEFORE_NS = 60_000_000_000, 1_800_000_000_000


@dataclass(frozen=True)
class Unit:
    """A unit of systemd: when it was started after user space began, and how long it took, in ns.

    ``at`` is None where only the time that it took is told.
    """

    name: str
    length: int
    at: int | None = None


@dataclass(frozen=True)
class WholeWay:
    """What is known of the time before and behind the kernel's own part.

    Attributes:
        stages: the parts from reset to the end of the start, as far as they are told.
        counted: by the processor's counter, the time from its zero to that of the kernel's clock,
            in ns; 0 if it is not known.
        slowest: the units that took longest, by systemd-analyze blame, plot or dump.
        chain: what the last unit waited for, the last first, by systemd-analyze critical-chain.
    """

    stages: list[Stage] = field(default_factory=list)
    slowest: list[Unit] = field(default_factory=list)
    chain: list[Unit] = field(default_factory=list)
    counted: int = 0


def of_text(text: str) -> WholeWay:
    """Return what *text*, the output of one or more commands of systemd-analyze, tells.

    Besides time, blame and critical-chain these are plot, as SVG or JSON, and dump, whose times are
    whole seconds.
    """
    if "<svg" in text:
        return _of_plot(text)
    if found := _of_json(text):
        return WholeWay(slowest=found)
    slowest, chain = [], []
    for line in text.splitlines():
        if match := _BLAME.match(line):
            slowest.append(Unit(match["unit"], units.span(match["time"])))
        elif match := _CHAIN.match(line):
            took = units.span(match["time"]) if match["time"] else 0
            chain.append(Unit(match["unit"], took, units.span(match["at"])))
    said = next((line for line in text.splitlines() if "Startup finished in" in line), "")
    dumped = _of_dump(text)
    return WholeWay(stages_of(said) or dumped.stages, slowest or dumped.slowest, chain)


def of_this_machine(fpdt: Path = FPDT, variables: Path = EFI_VARIABLES) -> WholeWay:
    """Return what firmware, loader and service manager of this machine tell."""
    way = of_text(_systemd_analyze())
    known = {stage.name: stage for stage in [*_before_kernel(fpdt, variables), *way.stages]}
    stages = [known[name] for name in _ORDER if name in known]
    return replace(way, stages=stages, counted=kernel_clock.from_reset())


def added(analysis: Analysis, way: WholeWay) -> Analysis:
    """Return *analysis* with the stages of *way*, where the log itself does not tell them."""
    known = {stage.name: stage for stage in [*way.stages, *analysis.stages]}
    known.update((stage.name, stage) for stage in _counted(analysis, way, known))
    if known and "kernel" not in known:
        known["kernel"] = Stage("kernel", analysis.total)
    stages = with_initramfs(
        [known[name] for name in _ORDER if name in known],
        analysis.messages,
        analysis.facts.cmdline,
        analysis.total,
        analysis.shifted_ns,
    )
    return replace(analysis, stages=stages)


def _counted(analysis: Analysis, way: WholeWay, known: Mapping[str, Stage]) -> list[Stage]:
    """Return what the processor's counter tells of the time before the kernel's clock.

    Where firmware and loader tell theirs, what is left is the kernel that unpacks itself.
    """
    if not way.counted:
        return []
    before = way.counted + analysis.shifted_ns
    told = sum(known[name].length for name in ("firmware", "loader") if name in known)
    if not told:
        return [Stage("before", before)] if before < _BEFORE_NS else []
    return [Stage("unpacking", before - told)] if told < before < told + _UNPACKING_NS else []


def _of_plot(text: str) -> WholeWay:
    """Return what the SVG of ``systemd-analyze plot`` tells: 100 pixels are a second."""
    begun = next((float(match["x"]) for match in _MANAGER.finditer(text)), None)
    found = []
    for match in _DRAWN.finditer(text):
        at = None if begun is None else round((float(match["x"]) - begun) * _NS_PER_PIXEL)
        # What is older was started in the initramfs.
        at = None if at is None or at < 0 else at
        found.append(Unit(html.unescape(match["unit"]), units.span(match["time"]), at))
    said = re.search(r"Startup finished in [^<\n]*", text)
    return WholeWay(stages_of(said[0]) if said else [], _slowest_first(found))


def _of_json(text: str) -> list[Unit]:
    """Return the units in the JSON of ``systemd-analyze plot``, whose times are microseconds."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return []
    pairs = [(row.get("name"), row.get("time")) for row in rows]
    return _slowest_first(
        [Unit(n, t * 1000) for n, t in pairs if isinstance(n, str) and isinstance(t, int)]
    )


def _of_dump(text: str) -> WholeWay:
    """Return what ``systemd-analyze dump`` tells of the manager and its units."""
    times: dict[str, dict[str, datetime.datetime]] = {"": {}}
    unit = ""
    for line in text.splitlines():
        if match := _DUMPED_UNIT.match(line):
            unit = match[1]
        elif match := _DUMPED_TIME.match(line):
            when = datetime.datetime.fromisoformat(match["time"])
            times.setdefault(unit, {}).setdefault(match["what"], when)
    manager = times.pop("")
    ends = [name for name in ("kernel", "initrd", "userspace", "finish") if name in manager]
    stages = [
        Stage(name, _between(manager[name], manager[after]))
        for name, after in itertools.pairwise(ends)
    ]
    found = [
        Unit(name, _between(told["Inactive Exit"], told["Active Enter"]))
        for name, told in times.items()
        if told.keys() >= {"Inactive Exit", "Active Enter"}
    ]
    return WholeWay(stages if "finish" in ends else [], _slowest_first(found))


def _between(start: datetime.datetime, end: datetime.datetime) -> int:
    return max(round((end - start).total_seconds()), 0) * 1_000_000_000


def _slowest_first(found: list[Unit]) -> list[Unit]:
    return sorted((unit for unit in found if unit.length), key=lambda unit: -unit.length)


def _systemd_analyze() -> str:
    if shutil.which("systemd-analyze") is None:
        return ""
    said = []
    for command in _COMMANDS:
        try:
            done = subprocess.run(
                ["systemd-analyze", *command],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        said.append(done.stdout if done.returncode == 0 else "")
    return "\n".join(said)


def _before_kernel(fpdt: Path, variables: Path) -> list[Stage]:
    """Return how long firmware and loader took, by the FPDT, else by what the loader left."""
    launched = _number(fpdt / "bootloader_launch_ns")
    ended = _number(fpdt / "exitbootservice_end_ns")
    if launched and ended:
        return [Stage("firmware", launched), Stage("loader", max(ended - launched, 0))]
    begun = _variable(variables / f"LoaderTimeInitUSec-{_LOADER}")
    done = _variable(variables / f"LoaderTimeExecUSec-{_LOADER}")
    if begun and done:
        return [Stage("firmware", begun * 1000), Stage("loader", max(done - begun, 0) * 1000)]
    return []


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _variable(path: Path) -> int:
    """Return the number in a variable of EFI: four bytes of attributes, then UTF-16."""
    try:
        return int(path.read_bytes()[4:].decode("utf-16-le").rstrip("\0"))
    except (OSError, ValueError):
        return 0
