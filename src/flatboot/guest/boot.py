"""One boot: a kernel image on a machine, from reset to /init and the end, as a record."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common.elf import entry_point
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.processes import run_coroutine
from flatboot.guest import (
    boot_spec,
    functions,
    guest_run,
    guestlog,
    initramfs,
    kvm,
    qemu,
    stale_code,
)
from flatboot.guest.boot_spec import BootSpec, boot_file
from flatboot.guest.guest_run import Counting, Ended, Guest, Marked, Tracking
from flatboot.guest.guestlog import GuestLog
from flatboot.record import marks, phases, record, spans
from flatboot.record.marks import Hit
from flatboot.record.phases import Breakdown
from flatboot.record.record import Record

_TAIL_LINES = 25
#: What a plugin can count, by the name that it has for people.
_COUNTED: dict[str, Callable[[BootSpec], bool]] = {
    "functions": lambda spec: bool(spec.functions),
    "calls": lambda spec: spec.spans,
    "instructions": lambda spec: bool(spec.counted),
}
#: The function that /init enters at the end.
_RESTART = "__do_sys_reboot"
#: With 32 CPUs on two cores half of the boots fail by ``stale_code``, often several in a row.
_TRIES = 16


class GuestFailed(FlatbootError):
    """A guest did not do what it was booted for.

    Attributes:
        kind: "panic", "hang", "silent" (it printed nothing), "restart" (before it was done),
            "program" (a guest program failed) or "qemu" (QEMU itself ended).
        console: all that came out of its console.
    """

    def __init__(self, kind: str, what: str, console: str) -> None:
        """Make the message from *what* happened and the end of the *console*."""
        self.kind = kind
        self.console = console
        tail = console.rstrip().splitlines()[-_TAIL_LINES:]
        shown = "\n".join(["; the end of its console:", *("  " + line for line in tail)])
        super().__init__(what + (shown if tail else ""))


def unseen(phase: str) -> None:
    """Take the name of a phase that nobody wants to hear of."""


def boot(spec: BootSpec, on_phase: Callable[[str], None] = unseen) -> Record:
    """Do the boot *spec* and return the record; ``measure`` says what it raises."""
    return run_coroutine(measure(spec, on_phase))


async def measure(spec: BootSpec, on_phase: Callable[[str], None] = unseen) -> Record:
    """Do the boot *spec* and return the record.

    Args:
        spec: the boot.
        on_phase: called with the name of each phase as it begins, if there are any.

    Raises:
        GuestFailed: the guest panicked, hung, printed nothing or failed; or QEMU died.
        FlatbootError: QEMU or the compiler is missing or too old, or the kernel cannot be built.
        UsageError: the machine, a guest program or what is asked of the clock is not possible.
    """
    began = time.monotonic()
    asked = _counts(spec)
    if asked and spec.clock != "exact":
        raise UsageError(f"{asked[0]} are counted on the exact clock only: take that one")
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} are not counted together: take one")
    image, arch = spec.image, spec.arch
    kernel = boot_file(image, arch)
    able = await qemu.capabilities(arch)
    with guest_run.memory_file("initramfs", spec.initramfs()) as initrd:
        guest = Guest(spec, arch, able, kernel, initrd, "tcg")
        if spec.clock == "wall" and await kvm.works(guest):
            guest = dataclasses.replace(guest, accelerator="kvm")
        notes = (
            [f"further arguments of QEMU: {shlex.join(spec.arguments)}"] if spec.arguments else []
        )
        tracking = _tracking(guest, image.system_map, on_phase, notes) if spec.phases else None
        with _counting(guest, image.system_map, notes) as (guest, counts):
            ended, marked = await _run_sound(guest, tracking, notes)
            counted = counts()
    log = _judged(ended, guest)
    to_init, ns_per_tick = _clocked(log, guest, time.monotonic() - began)
    broken = _breakdown(marked, guest, to_init, ns_per_tick) if marked else Breakdown([], [], [])
    notes += [f"other output fell into {path} as /init printed it" for path in log.torn]
    return Record(
        kernel=record.Kernel(
            base=image.base,
            version=image.version or _version(log),
            flavour=image.flavour,
            config=image.config,
            config_hash=image.config_hash,
            compiler=image.compiler,
            image=boot_spec.digest(kernel),
        ),
        machine=_machine_record(guest),
        cmdline=guest.cmdline,
        clock=spec.clock,
        to_init=to_init,
        phases=broken.phases,
        calls=broken.calls,
        notes=[*broken.notes, *notes],
        results=log.results | counted.results,
        files=log.files,
        host_peak_bytes=ended.held.peak_bytes,
        ram_bytes=ended.held.ram_bytes,
        wall_s=round(time.monotonic() - began, 3),
        console=ended.console.replace("\r\n", "\n"),
        log=log.log,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        functions=counted.functions,
        spans=spans.with_steps(counted.spans, log.files.get(record.TRACE_FILE, "")),
    )


def _tracking(
    guest: Guest, system_map: Path, on_phase: Callable[[str], None], notes: list[str]
) -> Tracking | None:
    """Return what following needs; None, and a note, where this kernel cannot be followed."""
    if guest.accelerator == "kvm":
        notes.append("KVM has too few breakpoints for marks, so there are no phases")
        return None
    if not system_map.is_file():
        notes.append(f"there is no {system_map}, so there are no phases")
        return None
    specs = marks.table()
    if not guest.exact:
        # Each stop costs about a millisecond, and initcalls are many.
        specs = tuple(spec for spec in specs if not spec.calls)
        notes.append("initcalls one by one are seen on the exact clock only")
    init = entry_point(initramfs.compiled("init", guest.arch))
    return Tracking(specs, marks.Symbols(system_map.read_text()), init, on_phase)


@dataclass(frozen=True)
class _Counted:
    functions: dict[str, int] = field(default_factory=dict)
    spans: list[record.Span] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


def _counts(spec: BootSpec) -> list[str]:
    """Return what is to be counted, by its names for people: one at most, if all is well."""
    return [what for what, wanted in _COUNTED.items() if wanted(spec)]


def _restart(symbols: marks.Symbols) -> int:
    """Return where the kernel begins to restart the machine, which /init asks for at the end.

    Raises:
        FlatbootError: the symbol table does not say.
    """
    address = symbols.address(_RESTART)
    if address is None:
        raise FlatbootError(f"System.map has no {_RESTART}, so no end can be told")
    return address


@contextlib.contextmanager
def _counting(
    guest: Guest, system_map: Path, notes: list[str]
) -> Iterator[tuple[Guest, Callable[[], _Counted]]]:
    """Yield the guest as it is to be run, and what returns what was counted afterwards."""
    spec = guest.spec
    what = "".join(_counts(spec))
    if what and not system_map.is_file():
        notes.append(f"there is no {system_map}, so there are no {what}")
    if not what or not system_map.is_file():
        yield guest, _Counted
        return
    symbols = marks.Symbols(system_map.read_text())
    until = entry_point(initramfs.compiled("init", guest.arch))
    arguments: tuple[str, ...] = ()
    if spec.counted == "end":
        until = _restart(symbols)
    elif spec.spans:
        arguments = spans.arguments(symbols)
    plugin = functions.plugin(guest.able, spec.plugin)
    with guest_run.memory_file("counts") as out:
        counting = Counting(plugin, until, out, arguments)

        def read() -> _Counted:
            counts = os.pread(out, os.fstat(out).st_size, 0).decode()
            if not counts:
                notes.append(f"QEMU's plugin did not see where to end, so there are no {what}")
                return _Counted()
            if spec.spans:
                return _Counted(spans=spans.read(counts, symbols))
            found = functions.read(counts, symbols, guest.arch)
            if spec.functions:
                return _Counted(functions=found)
            return _Counted(results={"counted": str(functions.work(found))})

        yield dataclasses.replace(guest, counting=counting), read


async def _run_sound(
    guest: Guest, tracking: Tracking | None, notes: list[str]
) -> tuple[Ended, Marked | None]:
    """Run the guest, and again if the emulator or the host failed; *notes* then tell of it."""
    for _ in range(_TRIES - 1):
        began = time.monotonic()
        ended, marked = await _run(guest, tracking)
        fault = _fault(ended, guest, time.monotonic() - began)
        if not fault:
            return ended, marked
        notes.append(f"{fault}: booted once more")
    return await _run(guest, tracking)


def _fault(ended: Ended, guest: Guest, host_s: float) -> str:
    """Return what the emulator or the host did wrong, so that the run says nothing; else ""."""
    if guest.exact:
        return ""
    parallel = guest.accelerator == "tcg" and guest.machine.cpus > 1
    if parallel and (where := stale_code.where(ended.console)):
        return f"QEMU ran code in {where} that the kernel had replaced"
    try:
        _clocked(_judged(ended, guest), guest, host_s)
    except GuestFailed:
        return ""  # the guest's own, which the caller judges
    except FlatbootError:
        return "the host's counter jumped"
    return ""


async def _run(guest: Guest, tracking: Tracking | None) -> tuple[Ended, Marked | None]:
    if tracking is None:
        return await guest_run.run(guest), None
    if not guest.exact:
        return await guest_run.run_marked(guest, tracking)
    # A stop makes virtual time jump in a guest whose instructions are counted. So the guest runs
    # undisturbed, and it is a second run that is stopped at the marks.
    with guest_run.memory_file("replay") as log:
        record_to = log if guest.machine.cpus == 1 else None
        ended = await guest_run.run(guest, record_to)
        if not guestlog.parse(ended.console).complete:
            return ended, None
        again = dataclasses.replace(guest, counting=None)
        return ended, await guest_run.run_again(again, tracking, record_to)


def _judged(ended: Ended, guest: Guest) -> GuestLog:
    """Return what the guest reported.

    Raises:
        GuestFailed: it did not come to its end, or one of its programs failed.
    """
    console = ended.console.replace("\r\n", "\n")
    log = guestlog.parse(console)
    # A guest that means to panic, to be dumped by another kernel, says so before.
    if log.panic and log.results.get("panic") != "wanted":
        raise GuestFailed("panic", f"the guest panicked: {log.panic}", console)
    if ended.timed_out and not console.strip():
        raise GuestFailed(
            "silent",
            f"the guest printed nothing in {guest.spec.timeout_s:g} s: try --timeout or"
            ' --cmdline "ignore_loglevel"',
            console,
        )
    if ended.timed_out:
        raise GuestFailed(
            "hang", f"the guest was not done in {guest.spec.timeout_s:g} s: try --timeout", console
        )
    if not ended.reason:
        said = ended.errors.strip() or "it said nothing"
        raise GuestFailed("qemu", f"QEMU died while the guest ran: {said}", console)
    if not console.strip():
        raise GuestFailed("silent", "the guest restarted and had printed nothing", console)
    if not log.complete:
        raise GuestFailed("restart", "the guest restarted before /init was done", console)
    for program, status in log.exits:
        if status != "0":
            raise GuestFailed(
                "program", f"the guest program {program} ended with status {status}", console
            )
    if not log.results.get("mark", "").isdecimal():
        raise GuestFailed("mark", "the console lacks the time of /init: boot again", console)
    return log


def _clocked(log: GuestLog, guest: Guest, host_s: float) -> tuple[int, float]:
    """Return the time of /init in units of the clock, and nanoseconds a tick.

    Raises:
        FlatbootError: on the wall clock, it is more than the *host_s* seconds that all took here.
    """
    ticks = int(log.results["mark"])
    if guest.exact:
        return ticks * guest.arch.counter.ns_per_tick, guest.arch.counter.ns_per_tick
    ns_per_tick = 1e9 / int(log.results["counter_hz"])
    to_init = round(ticks * ns_per_tick)
    if to_init > host_s * 1e9:
        # QEMU hands the host's counter on, and not all hosts keep those of their CPUs in step.
        raise FlatbootError(
            f"the guest's counter says {to_init / 1e9:,.1f} s to /init and the whole run took"
            f" {host_s:,.1f} s: the host's counter jumped; boot again"
        )
    return to_init, ns_per_tick


def _breakdown(marked: Marked, guest: Guest, to_init: int, ns_per_tick: float) -> Breakdown:
    if marked.init is None:
        note = "following the guest did not come as far as /init, so there are no phases"
        return Breakdown([], [], [note])
    if not guest.exact:
        return phases.breakdown(marks.table(), _scaled(marked.hits, ns_per_tick), to_init, to_init)
    if guest.machine.cpus == 1:
        # The guest's own counter may be coarser than the count of instructions.
        coarse = abs(to_init - marked.init) <= guest.arch.counter.ns_per_tick
        busy = to_init if coarse else marked.init
        return phases.breakdown(marks.table(), marked.hits, busy, to_init)
    hits, busy = marked.hits, marked.init
    if busy > to_init:
        hits, busy = _scaled(hits, to_init / busy), to_init
    broken = phases.breakdown(marks.table(), hits, busy, to_init, rest=phases.UNATTRIBUTED)
    note = (
        f"with several CPUs the marks are from a second run, {abs(to_init - marked.init):,}"
        f" instructions {'longer' if marked.init > to_init else 'shorter'} than the first"
    )
    return dataclasses.replace(broken, notes=[*broken.notes, note])


def _scaled(hits: Sequence[Hit], factor: float) -> list[Hit]:
    return [dataclasses.replace(hit, at=round(hit.at * factor)) for hit in hits]


def _machine_record(guest: Guest) -> record.EmulatedMachine:
    return record.EmulatedMachine(
        arch=guest.arch.name,
        memory_bytes=guest.machine.memory_bytes,
        cpus=guest.machine.cpus,
        nodes=[record.EmulatedNode(node.memory_bytes, node.cpus) for node in guest.machine.nodes],
        qemu=guest.able.version,
        type=guest.able.machine,
        cpu=qemu.cpu_model(guest.arch, guest.machine),
        firmware=guest.able.firmware,
        accelerator=guest.accelerator,
        host=f"{platform.machine()}, Linux {platform.release()}",
    )


def _version(log: GuestLog) -> str:
    words = log.files.get("/proc/version", "").split()
    return words[2] if len(words) > 2 else ""
