"""One run of QEMU with a guest in it: plain, recorded for a replay, or followed by marks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient, QMPError

from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError
from flatboot.guest import qemu
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.follow import CounterReader, Follower
from flatboot.guest.gdbstub import GdbStub
from flatboot.guest.machine import Machine
from flatboot.record.marks import Hit, MarkSpec, Symbols

# A timer of the machine that fires every so many microseconds of virtual time and does nothing:
# the buffer of a network that has no members. QEMU gives a virtual CPU the turn up to the next
# timer, so this keeps CPUs that wait for each other from spinning through long turns, and it
# bounds how far virtual time jumps when the guest is stopped. A single CPU runs the same without.
_HEARTBEAT_US = 10
# What a kernel prints that panicked and does not restart (panic=0).
_LAST_WORDS = b"---[ end Kernel panic"
_POLL_S = 0.5
# The seed of all that QEMU makes up, so that a guest gets the same random numbers every time.
_SEED = "1"


@dataclass(frozen=True)
class Counting:
    """What a plugin of QEMU that counts instructions needs.

    Attributes:
        plugin: the plugin.
        until: the address at which it ends.
        out: the open file that it writes.
        arguments: further arguments of the plugin.
    """

    plugin: Path
    until: int
    out: int
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guest:
    """A boot as QEMU is to run it.

    Attributes:
        spec: the boot.
        arch: its architecture.
        able: the QEMU that runs it.
        kernel: the file that QEMU boots.
        initrd: open file of the initramfs.
        accelerator: "tcg" or "kvm".
        counting: how instructions are counted by a plugin; None if they are not.
    """

    spec: BootSpec
    arch: Arch
    able: qemu.Capabilities
    kernel: Path
    initrd: int
    accelerator: str
    counting: Counting | None = None

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.spec.machine

    @property
    def cmdline(self) -> str:
        """The whole kernel command line."""
        return f"{self.arch.cmdline} {self.spec.cmdline}".strip()

    @property
    def exact(self) -> bool:
        """Whether instructions are counted."""
        return self.spec.clock == "exact"


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        console: all that came out of the guest's console.
        reason: QEMU's word for the guest's end, such as "guest-reset", or "panic" if it stays in
            one; "" if QEMU ended itself.
        errors: what QEMU said then.
        timed_out: whether the time limit ended it.
        held: the host memory that QEMU held.
    """

    console: str
    reason: str
    errors: str
    timed_out: bool
    held: qemu.Held


@dataclass(frozen=True)
class Marked:
    """The marks of a run, and the time of /init on their clock; None if it did not come so far."""

    hits: list[Hit]
    init: int | None


@dataclass(frozen=True)
class Tracking:
    """What following a guest needs: the marks, the symbols, /init's address, who to tell."""

    specs: tuple[MarkSpec, ...]
    symbols: Symbols
    init: int
    on_phase: Callable[[str], None]


@contextlib.contextmanager
def memory_file(name: str, content: bytes = b"") -> Iterator[int]:
    """Yield an open file in memory with *content*, gone when the context ends."""
    handle = os.memfd_create(name)
    try:
        os.pwrite(handle, content, 0)
        yield handle
    finally:
        os.close(handle)


async def run(guest: Guest, record_to: int | None = None) -> Ended:
    """Run the guest to its end; with *record_to*, an open file, so that it can be replayed."""
    replay = () if record_to is None else ("record", record_to)
    command, files = _command(guest, *replay), _files(guest, record_to)
    async with qemu.start(command, pass_fds=files, huge_pages=not guest.exact) as running:
        outcome = await _outcome(guest, running)
        if record_to is not None:
            await running.quit()
    return _ended(running, *outcome)


async def run_marked(guest: Guest, tracking: Tracking) -> tuple[Ended, Marked]:
    """Run the guest to its end and mark it, times in ticks of its own counter."""
    async with _followed(guest, tracking) as (running, marking):
        outcome = await _outcome(guest, running)
        marked = await _stopped(marking)
    return _ended(running, *outcome), marked


async def run_again(guest: Guest, tracking: Tracking, log: int | None) -> Marked:
    """Run the guest up to /init once more and mark it, times in instructions.

    With *log*, the open file of a recorded run, that run is replayed and nothing differs. QEMU
    replays a single CPU only. Without, the same seed makes the same run but for one thing: at each
    stop virtual time jumps to the next timer of the machine, which the heartbeat keeps near.
    """
    async with _followed(guest, tracking, again=True, log=log) as (running, marking):
        gone = asyncio.ensure_future(running.ended())
        await asyncio.wait(
            (marking.task, gone), timeout=guest.spec.timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        gone.cancel()
        return await _stopped(marking)


@dataclass(frozen=True)
class _Marking:
    follower: Follower
    task: asyncio.Task[int | None]


@contextlib.asynccontextmanager
async def _followed(
    guest: Guest, tracking: Tracking, *, again: bool = False, log: int | None = None
) -> AsyncIterator[tuple[qemu.Qemu, _Marking]]:
    """Start the guest under a Follower; yield QEMU and the Follower's task."""
    ours, theirs = socket.socketpair()
    replay = () if log is None else ("replay", log)
    with ours, theirs:
        command = [
            *_command(guest, *replay),
            "-S",
            "-chardev",
            f"socket,id=gdb,fd={theirs.fileno()}",
            "-gdb",
            "chardev:gdb",
        ]
        files = (*_files(guest, log), theirs.fileno())
        async with qemu.start(command, pass_fds=files, huge_pages=not guest.exact) as running:
            try:
                stub = await GdbStub.connect(ours)
            except (EOFError, OSError) as error:
                raise FlatbootError(f"QEMU ended before the guest began: {error}") from error
            clock = _instructions(running.qmp) if again else CounterReader(stub, guest.arch)
            follower = Follower(stub, guest.arch, tracking.symbols, clock, tracking.on_phase)
            task = asyncio.ensure_future(follower.follow(tracking.specs, tracking.init))
            try:
                yield running, _Marking(follower, task)
            finally:
                task.cancel()
                await asyncio.wait((task,))
                stub.close()


def _instructions(qmp: QMPClient) -> Callable[[str], Awaitable[int]]:
    async def clock(thread: str) -> int:
        answer: Any = await qmp.execute("query-replay")
        return int(answer["icount"])

    return clock


async def _stopped(marking: _Marking) -> Marked:
    """Return what was marked so far; the Follower of a guest that is gone fails, as it must."""
    marking.task.cancel()
    await asyncio.wait((marking.task,))
    init = None
    with contextlib.suppress(asyncio.CancelledError, EOFError, OSError, QMPError):
        init = marking.task.result()
    return Marked(marking.follower.hits, init)


async def _outcome(guest: Guest, running: qemu.Qemu) -> tuple[str, bool, qemu.Held]:
    """Wait for the guest's end; return the reason, whether time ran out, and the memory held."""
    reason, timed_out = "", False
    ended = asyncio.ensure_future(running.ended())
    panicked = asyncio.ensure_future(_panicked(running))
    try:
        async with asyncio.timeout(guest.spec.timeout_s):
            await asyncio.wait((ended, panicked), return_when=asyncio.FIRST_COMPLETED)
        reason = ended.result() if ended.done() else "panic"
    except TimeoutError:
        timed_out = True
    finally:
        ended.cancel()
        panicked.cancel()
    return reason, timed_out, running.held(guest.spec.machine)


def _ended(gone: qemu.Qemu, reason: str, timed_out: bool, held: qemu.Held) -> Ended:
    """Return how a run ended, whose output is all in, as QEMU is gone."""
    return Ended(
        console=gone.console.decode(errors="replace"),
        reason=reason,
        errors=gone.errors.decode(errors="replace"),
        timed_out=timed_out,
        held=held,
    )


async def _panicked(running: qemu.Qemu) -> None:
    """Wait until the kernel has said its last word and goes on in circles."""
    while _LAST_WORDS not in running.console:
        await asyncio.sleep(_POLL_S)


def alone(guest: Guest, initrd: Path | None = None, console: str = "stdio") -> list[str]:
    """Return QEMU's command line for a guest that nobody controls, and with which it ends.

    Args:
        guest: what is to be run.
        initrd: the file of its initramfs, in place of the open one.
        console: the character device of QEMU that the guest's console is.
    """
    command = _command(guest)
    for option, value in (
        ("-serial", console),
        ("-action", "reboot=shutdown"),
        ("-initrd", f"/proc/self/fd/{guest.initrd}" if initrd is None else str(initrd)),
    ):
        command[command.index(option) + 1] = value
    return command


def _files(guest: Guest, log: int | None) -> tuple[int, ...]:
    files = [guest.initrd]
    if log is not None:
        files.append(log)
    if guest.counting is not None:
        files.append(guest.counting.out)
    return tuple(files)


def _command(guest: Guest, mode: str = "", log: int = -1) -> list[str]:
    """Return QEMU's command line; *mode* is "record", "replay" (of the file *log*) or ""."""
    command = [guest.able.binary, "-nodefaults", "-display", "none", "-serial", "stdio"]
    command += ["-seed", _SEED, "-rtc", "base=2026-01-01,clock=vm"]
    # When the guest restarts, it stops, so that its memory can be measured.
    command += ["-action", "reboot=shutdown,shutdown=pause"]
    if guest.exact:
        icount = "shift=0,sleep=off"
        if mode:
            icount += f",rr={mode},rrfile=/proc/self/fd/{log}"
        command += ["-accel", "tcg", "-icount", icount]
        if guest.machine.cpus > 1:
            command += ["-netdev", "hubport,id=heart,hubid=0", "-object"]
            command += [f"filter-buffer,id=beat,netdev=heart,interval={_HEARTBEAT_US}"]
    elif guest.accelerator == "tcg":
        command += ["-accel", "tcg,thread=multi"]
    else:
        command += ["-accel", guest.accelerator]
    if guest.counting is not None:
        counting = guest.counting
        out = f"/proc/self/fd/{counting.out}"
        given = (f"out={out}", f"entry={counting.until:#x}", *counting.arguments)
        command += ["-plugin", ",".join([str(counting.plugin), *given])]
    command += qemu.machine_arguments(guest.arch, guest.machine, guest.able)
    command += ["-kernel", str(guest.kernel), "-append", guest.cmdline]
    command += ["-initrd", f"/proc/self/fd/{guest.initrd}"]
    return [*command, *guest.spec.arguments]
