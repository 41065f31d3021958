"""Which boots of two kernels can be compared, and what to keep in mind of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from flatboot.common import units
from flatboot.common.errors import UsageError
from flatboot.record import phases
from flatboot.record.record import Record

#: The name of the whole boot beside its phases.
TOTAL = "total, reset to /init"


@dataclass(frozen=True, order=True)
class Size:
    """A size of machine; nodes as (memory in bytes, CPUs), none on a machine without NUMA."""

    memory_bytes: int
    cpus: int
    nodes: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """Return the size for people."""
        title = f"{units.binary_size(self.memory_bytes)}, {units.many(self.cpus, 'CPU')}"
        return title + (f", {len(self.nodes)} nodes" if len(self.nodes) > 1 else "")


@dataclass(frozen=True)
class Pair:
    """A phase on a size: what it took in each run of either kernel, and of the control."""

    phase: str
    size: Size
    before: list[int]
    after: list[int]
    control: list[int]


def check(
    before: Sequence[Record], after: Sequence[Record], control: Sequence[Record]
) -> list[str]:
    """Return notes on what A and B differ in beside their code.

    Raises:
        UsageError: they cannot be compared at all.
    """
    first, second = one_kernel(before, "A"), one_kernel(after, "B")
    for what, ours, theirs in (
        ("the clock", first.clock, second.clock),
        ("the architecture", first.machine.arch, second.machine.arch),
    ):
        if ours != theirs:
            raise UsageError(
                f"A and B differ in {what} ({ours} and {theirs}): compare boots of one"
            )
    if control:
        _check_control(first, one_kernel(control, "the control"))
    sizes = by_size(before).keys() & by_size(after).keys()
    if not sizes:
        raise UsageError(
            f"A and B have no size of machine in common (A: {_listed(by_size(before))}; B:"
            f" {_listed(by_size(after))}): boot both on the same sizes"
        )
    return [
        *_kernel_notes(first, second),
        *_machine_notes(before, after),
        *_left_out(before, after, sizes),
        *(_order_notes(before, after, sizes) if first.clock == "wall" else []),
    ]


def _check_control(first: Record, control: Record) -> None:
    if first.clock != "exact" or control.clock != "exact":
        raise UsageError("a control is for the exact clock: on the wall clock boot more often")
    ours, rebuilt = first.kernel, control.kernel
    if (ours.version, ours.flavour) != (rebuilt.version, rebuilt.flavour):
        raise UsageError(
            f"the control is {rebuilt.flavour} {rebuilt.version} and A {ours.flavour}"
            f" {ours.version}: boot A itself, rebuilt without a change to what it does"
        )
    if first.cmdline != control.cmdline or first.machine.arch != control.machine.arch:
        raise UsageError(
            f"the control ran on {control.machine.arch} with {control.cmdline!r} and A on"
            f" {first.machine.arch} with {first.cmdline!r}: boot both alike"
        )


def one_kernel(records: Sequence[Record], side: str) -> Record:
    """Return the first record of *side*, all of which must be boots of one kernel on one clock.

    Raises:
        UsageError: there is none, or they are of several kernels.
    """
    if not records:
        raise UsageError(f"{side} has no boots: name a file or folder with records")
    kinds = {
        (record.kernel, record.cmdline, record.clock, record.machine.arch): record
        for record in records
    }
    if len(kinds) > 1:
        named = "; ".join(
            f"{kernel.flavour} {kernel.version} ({kernel.config}, {arch}, {clock} clock) {cmdline}"
            for kernel, cmdline, clock, arch in kinds
        )
        raise UsageError(
            f"{side} holds boots of {len(kinds)} kernels ({named}): choose one with FILE#WORD,..."
        )
    return records[0]


def by_size(records: Iterable[Record]) -> dict[Size, list[Record]]:
    """Return the records of each size of machine, smallest first."""
    groups: defaultdict[Size, list[Record]] = defaultdict(list)
    for record in records:
        groups[size(record)].append(record)
    return dict(sorted(groups.items()))


def size(record: Record) -> Size:
    """Return the size of the machine that was booted."""
    machine = record.machine
    nodes = tuple((node.memory_bytes, node.cpus) for node in machine.nodes)
    return Size(machine.memory_bytes, machine.cpus, nodes)


def pairs(
    before: Sequence[Record], after: Sequence[Record], control: Sequence[Record]
) -> list[Pair]:
    """Return what can be compared: the whole boot, then its phases in order, on each size.

    A run that lacks a phase (one of its marks was missed) has no say in it. A phase that all runs
    of one kernel lack is left out, and with it what is unattributed: it went there.
    """
    sides = [by_size(records) for records in (before, after, control)]
    found = []
    for name in [TOTAL, *_compared(before, after)]:
        for where in sides[0]:
            took = [lengths(side.get(where, ()), name) for side in sides]
            if took[0] and took[1] and any((*took[0], *took[1])):
                found.append(Pair(name, where, *took))
    return found


def lengths(records: Iterable[Record], name: str) -> list[int]:
    """Return what the phase *name* took in each of *records* that knows it."""
    if name == TOTAL:
        return [record.to_init for record in records]
    by_name = [phases.by_name(record.phases) for record in records]
    # All CPUs may have had work all the time, and that is no missing mark.
    always = {phases.IDLE: 0}
    return [{**always, **took}[name] for took in by_name if took and name in {**always, **took}]


def _names(records: Sequence[Record]) -> dict[str, None]:
    return dict.fromkeys(phase.name for record in records for phase in record.phases)


def _compared(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    ours, theirs = _names(before), _names(after)
    missed = _missed(ours, theirs)
    both = [name for name in {**ours, **theirs} if name not in missed]
    return [name for name in both if not missed or name != phases.UNATTRIBUTED]


def _missed(ours: Mapping[str, None], theirs: Mapping[str, None]) -> list[str]:
    """Return the phases that only one of two kernels shows."""
    exempt = {phases.IDLE, phases.UNATTRIBUTED}
    return [
        name
        for name in {**ours, **theirs}
        if (name in ours) != (name in theirs) and name not in exempt
    ]


def _kernel_notes(first: Record, second: Record) -> list[str]:
    notes = []
    ours, theirs = first.kernel, second.kernel
    same_options = ours.flavour != theirs.flavour or ours.config_hash == theirs.config_hash
    if ours.config != theirs.config or not same_options:
        notes.append(
            f"the configs differ: {ours.config} ({ours.config_hash[:8]}) and {theirs.config}"
            f" ({theirs.config_hash[:8]})"
        )
    if ours.compiler != theirs.compiler:
        notes.append(f"the compilers differ: {ours.compiler or '?'} and {theirs.compiler or '?'}")
    words = [set(record.cmdline.split()) for record in (first, second)]
    own = [" ".join(sorted(words[side] - words[not side])) for side in (0, 1)]
    if any(own):
        notes.append(f"the kernel parameters differ: {own[0] or 'none'} and {own[1] or 'none'}")
    return notes


def _machine_notes(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """Return notes on machines of one size that differ in A and B.

    Raises:
        UsageError: they differ in what makes all of a wall clock's time.
    """
    notes = {}
    for where, ours in by_size(before).items():
        for theirs in by_size(after).get(where, ()):
            for field in ("accelerator", "host", "qemu", "type", "cpu", "firmware"):
                values = [getattr(record.machine, field) for record in (ours[0], theirs)]
                if values[0] != values[1]:
                    notes[field] = f"the machines differ in {field}: {values[0]} and {values[1]}"
    fatal = [notes[field] for field in ("accelerator", "host") if field in notes]
    if before[0].clock == "wall" and fatal:
        raise UsageError(f"{fatal[0]}: times are comparable on one host only, so boot both there")
    # Instructions are the same on every host.
    return [note for field, note in notes.items() if field != "host"]


def _left_out(before: Sequence[Record], after: Sequence[Record], sizes: Set[Size]) -> list[str]:
    notes = []
    lone = [where for where in by_size([*before, *after]) if where not in sizes]
    if lone:
        notes.append(f"only one kernel booted, and left out: {_listed(lone)}")
    ours, theirs = _names(before), _names(after)
    if not ours or not theirs:
        notes.append("without phases on both sides only the whole boot is compared")
    elif missed := _missed(ours, theirs):
        notes.append(
            f"only one kernel shows, and left out along with what is unattributed:"
            f" {', '.join(missed)}"
        )
    return notes


def _order_notes(before: Sequence[Record], after: Sequence[Record], sizes: Set[Size]) -> list[str]:
    ours, theirs = by_size(before), by_size(after)
    for where in sizes:
        times = [[record.created for record in side[where]] for side in (ours, theirs)]
        if max(times[0]) < min(times[1]) or max(times[1]) < min(times[0]):
            return [
                "the boots were not interleaved, so a host that became slower or faster meanwhile"
                " looks like a change: boot both with compare --boot"
            ]
    return []


def _listed(sizes: Iterable[Size]) -> str:
    return "; ".join(map(str, sizes))
