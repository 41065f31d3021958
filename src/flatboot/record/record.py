"""What one boot leaves: a record, from which all tables, plots and comparisons are made."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatboot.common import arches, atomic, disk, typed
from flatboot.common.errors import FlatbootError

SCHEMA = 4
#: Where the files of a record hold the trace of CPU callbacks, if the boot was traced.
TRACE_FILE = "/sys/kernel/tracing/trace"


@dataclass(frozen=True)
class Kernel:
    """The kernel that was booted; fields that its maker did not say are empty.

    Attributes:
        base: name of the base, or the path of somebody's own kernel.
        version: such as "7.3.4"; of an unknown kernel as it tells itself.
        flavour: "stock", "flatboot", or "own".
        config: name of the config.
        config_hash: SHA-256 of the options that are set.
        compiler: first line of the compiler's --version.
        image: SHA-256 of the file that was booted, which tells one build from another.
    """

    base: str
    version: str
    flavour: str
    config: str
    config_hash: str
    compiler: str
    image: str = ""


@dataclass(frozen=True)
class EmulatedNode:
    """A NUMA node: bytes of memory and number of CPUs."""

    memory_bytes: int
    cpus: int


@dataclass(frozen=True)
class EmulatedMachine:
    """The machine that was emulated, and by what.

    Attributes:
        arch: name of the architecture.
        memory_bytes: size of the memory.
        cpus: number of virtual CPUs.
        nodes: NUMA nodes; empty for a machine without NUMA.
        qemu: QEMU's version.
        type: QEMU's machine type with its version, such as "pc-q35-7.2".
        cpu: QEMU's CPU model with its options.
        firmware: name and the start of the SHA-256 of what runs before the kernel; "" for none.
        accelerator: "tcg" or "kvm".
        host: the host's architecture and kernel.
    """

    arch: str
    memory_bytes: int
    cpus: int
    nodes: list[EmulatedNode]
    qemu: str
    type: str
    cpu: str
    firmware: str
    accelerator: str
    host: str


@dataclass(frozen=True)
class Phase:
    """A part of the boot: where it begins and how long it is, in units of the record's clock.

    A phase that comes twice (``unattributed`` does) is listed twice.
    """

    name: str
    start: int
    length: int


@dataclass(frozen=True)
class Call:
    """An initcall: the function, where it begins and how long it is, in units of the clock."""

    function: str
    start: int
    length: int


@dataclass(frozen=True)
class Span:
    """All calls of a function from one other, in instructions; see ``flatboot.record.spans``.

    Attributes:
        caller: the function that calls it.
        function: the function that is called.
        calls: how often.
        open: how many of the calls had not returned at /init.
        total: what all CPUs ran from call to return; of calls that returned.
        waiting: the part of *total* that was not work of the task that called: work of other
            tasks meanwhile, and spinning of its own.
        working: what the calls ran themselves, on whichever CPU, without spinning and without calls
            within that are listed by themselves.
        spinning: what they ran in loops with a pause in them, likewise.
        step: the number of the hotplug state of a CPU callback; -1 if it is none, or unknown.
    """

    caller: str
    function: str
    calls: int
    open: int
    total: int
    waiting: int
    working: int
    spinning: int
    step: int = -1


@dataclass(frozen=True)
class Record:
    """One boot.

    Attributes:
        kernel: what was booted.
        machine: on what.
        cmdline: the whole kernel command line.
        clock: "exact": units are instructions (virtual nanoseconds); "wall": nanoseconds.
        to_init: from the reset of the first CPU to the first instruction of /init.
        phases: in order of time, without gaps, adding up to ``to_init``; empty if not asked for.
        calls: every initcall that was seen, in order of time.
        notes: sentences on what the phases leave out.
        results: the KEY=VALUE lines that guest programs printed.
        files: what files in the guest said right after the mark, by path.
        host_peak_bytes: the most host memory that QEMU held, its own included.
        ram_bytes: host memory behind the guest's memory when it ended; 0 in older records.
        wall_s: seconds the whole run took on the host.
        console: all that came out of the guest's console.
        log: the kernel log at the end, a line a message, with time stamps.
        created: date and time (UTC) of the boot, ISO 8601.
        functions: instructions of each kernel function up to /init, or the lines of cache that
            came over to it from other CPUs, as was asked for, most first; else empty.
        spans: instructions of chosen calls up to /init; empty if not asked for.
        schema: version of this layout.
    """

    kernel: Kernel
    machine: EmulatedMachine
    cmdline: str
    clock: str
    to_init: int
    phases: list[Phase]
    calls: list[Call]
    notes: list[str]
    results: dict[str, str]
    files: dict[str, str]
    host_peak_bytes: int
    wall_s: float
    console: str
    log: str
    created: str
    functions: dict[str, int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    ram_bytes: int = 0
    schema: int = field(default=SCHEMA)

    @property
    def unit(self) -> str:
        """What the clock counts: "instructions" or "ns"."""
        return "instructions" if self.clock == "exact" else "ns"

    @property
    def meminfo(self) -> dict[str, int]:
        """/proc/meminfo right after the mark, in kB (counts of pages as they are)."""
        pairs = (line.split(":") for line in self.files.get("/proc/meminfo", "").splitlines())
        return {pair[0]: int(pair[1].split()[0]) for pair in pairs if len(pair) == 2}

    def seconds(self, name: str) -> float:
        """Return the result *name*, ticks of the guest's counter, in seconds of the clock."""
        if self.clock == "wall":
            return int(self.results[name]) / int(self.results["counter_hz"])
        return int(self.results[name]) * arches.load(self.machine.arch).counter.ns_per_tick / 1e9

    def phase(self, name: str) -> int:
        """Return the length of all phases *name* together."""
        return sum(phase.length for phase in self.phases if phase.name == name)

    def text(self) -> str:
        """Return the record as JSON, as ``parse`` reads it."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def save(self, path: Path) -> None:
        """Write the record to *path* as JSON, whole or not at all."""
        with atomic.new_file(path) as temporary:
            temporary.write_text(self.text())


def load(path: Path) -> Record:
    """Read a record.

    Raises:
        FlatbootError: *path* cannot be read, is no record, or a newer flatboot wrote it.
    """
    with disk.reading(path):
        return parse(path.read_bytes(), str(path))


def parse(text: str | bytes, where: str) -> Record:
    """Return the record that the JSON *text* holds; *where* it stands is for the errors.

    Raises:
        FlatbootError: it is no record, or a newer flatboot wrote it.
    """
    schema = typed.json(text, dict[str, Any], f"{where} is not a record").get("schema")
    if not isinstance(schema, int):
        raise FlatbootError(f"{where} is not a record: it has no schema number")
    if schema > SCHEMA:
        raise FlatbootError(
            f"{where} has schema {schema} and this flatboot knows {SCHEMA}: update flatboot"
        )
    # Fields that came with a later schema have a default.
    return typed.json(text, Record, f"{where} is not a whole record")
