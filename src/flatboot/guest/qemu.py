"""QEMU: what the installed one can do, its command line for a machine, and a running one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qemu.qmp import EventListener, QMPClient, QMPError

from flatboot.common import processes
from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest.machine import Machine

MINIMUM = (7, 0)
_START_S = 60.0
_QUIT_S = 30.0
#: Of smaps: the size of a mapping, and what of it is there, in kB.
_MAPPING = re.compile(r"^Size:\s*(\d+) kB\n(?:.*PageSize.*\n)*Rss:\s*(\d+) kB$", re.MULTILINE)
_capabilities: dict[str, Capabilities] = {}


@dataclass(frozen=True)
class Capabilities:
    """What an installed QEMU offers for an architecture.

    Attributes:
        binary: its path.
        version: such as "7.2.22".
        machine: the machine type with its version, such as "pc-q35-7.2".
        max_cpus: how many CPUs the machine type takes.
        machine_options: names of the machine type's properties.
        firmware: name and the start of the SHA-256 of what runs before the kernel; "" for none.
    """

    binary: str
    version: str
    machine: str
    max_cpus: int
    machine_options: frozenset[str]
    firmware: str


@dataclass(frozen=True)
class Held:
    """Host memory that QEMU holds, in bytes.

    Attributes:
        peak_bytes: the most so far, its own included.
        ram_bytes: that which backs the guest's memory now.
    """

    peak_bytes: int
    ram_bytes: int


class Qemu:
    """A running QEMU: its process, its QMP connection, and what it says.

    Attributes:
        qmp: the open QMP connection.
        events: the QMP events so far, to be awaited.
        console: what came out of the guest's console so far.
        errors: what QEMU itself wrote to standard error so far.
    """

    def __init__(self, process: asyncio.subprocess.Process, qmp: QMPClient) -> None:
        """Take over a started *process*; ``start`` makes one."""
        self.process = process
        self.qmp = qmp
        self.events = EventListener()
        self.console = bytearray()
        self.errors = bytearray()

    def held(self, machine: Machine) -> Held:
        """Return the host memory that the process of *machine* holds; zeroes if it is gone."""
        folder, sizes = Path(f"/proc/{self.process.pid}"), _ram_sizes(machine)
        with contextlib.suppress(OSError):
            peak = re.search(r"^VmHWM:\s*(\d+) kB", (folder / "status").read_text(), re.MULTILINE)
            maps = _MAPPING.findall((folder / "smaps").read_text())
            ram = sum(int(backed) for size, backed in maps if int(size) * 1024 in sizes)
            return Held(int(peak[1]) * 1024 if peak else 0, ram * 1024)
        return Held(0, 0)

    async def quit(self) -> None:
        """Let QEMU end by itself, which completes the files it writes; give it some seconds."""
        with contextlib.suppress(QMPError, OSError, EOFError, TimeoutError):
            async with asyncio.timeout(_QUIT_S):
                await self.qmp.execute("quit")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIT_S):
                await self.process.wait()

    async def ended(self) -> str:
        """Wait until the guest restarts, shuts down or is gone; return the QMP reason, or ""."""
        event = asyncio.ensure_future(self._shutdown())
        gone = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait((event, gone), return_when=asyncio.FIRST_COMPLETED)
            return event.result() if event.done() else ""
        finally:
            event.cancel()
            gone.cancel()

    async def _shutdown(self) -> str:
        async for event in self.events:
            if event["event"] == "SHUTDOWN":
                data: Any = event["data"]
                return str(data["reason"])
        return ""


async def capabilities(arch: Arch) -> Capabilities:
    """Return what the installed QEMU offers for *arch*, asked once a process.

    Raises:
        FlatbootError: QEMU is missing, too old, or does not answer.
    """
    binary = shutil.which(arch.qemu.binary)
    if binary is None:
        raise FlatbootError(
            f"{arch.qemu.binary} is not there: install QEMU {MINIMUM[0]}.{MINIMUM[1]} or later"
        )
    if binary not in _capabilities:
        async with start([binary, "-M", "none", "-display", "none"]) as qemu:
            try:
                _capabilities[binary] = await _ask(binary, arch, qemu.qmp)
            except (QMPError, EOFError, OSError) as error:
                raise FlatbootError(f"{binary} does not say what it can do: {error}") from error
    return _capabilities[binary]


async def _ask(binary: str, arch: Arch, qmp: QMPClient) -> Capabilities:
    version: Any = await qmp.execute("query-version")
    number = tuple(version["qemu"][part] for part in ("major", "minor", "micro"))
    text = ".".join(map(str, number))
    if number < MINIMUM:
        raise FlatbootError(
            f"{binary} is version {text}, too old: install QEMU {MINIMUM[0]}.{MINIMUM[1]} or later"
        )
    machines: Any = await qmp.execute("query-machines")
    found = [m for m in machines if arch.qemu.machine in (m["name"], m.get("alias"))]
    if not found:
        raise FlatbootError(f"{binary} has no machine {arch.qemu.machine}: install a full QEMU")
    options: Any = await qmp.execute(
        "qom-list-properties", {"typename": f"{found[0]['name']}-machine"}
    )
    return Capabilities(
        binary=binary,
        version=text,
        machine=found[0]["name"],
        max_cpus=found[0]["cpu-max"],
        machine_options=frozenset(option["name"] for option in options),
        firmware=_firmware(binary, arch.qemu.firmware),
    )


def _firmware(binary: str, name: str) -> str:
    """Return *name* and the start of the hash of that file in the folders that QEMU looks in."""
    for folder in processes.run([binary, "-L", "help"], what=f"{binary} -L help").splitlines():
        file = Path(folder) / name
        if file.is_file():
            return f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    return name


def cpu_model(arch: Arch, machine: Machine) -> str:
    """Return QEMU's CPU model for *machine*, with its options."""
    return arch.qemu.cpu + (f",phys-bits={machine.phys_bits}" if machine.phys_bits else "")


def machine_arguments(arch: Arch, machine: Machine, able: Capabilities) -> list[str]:
    """Return the part of QEMU's command line that describes *machine*.

    Memory is reserved nowhere, so that a guest may be far larger than the host.

    Raises:
        UsageError: this QEMU takes fewer CPUs.
    """
    if machine.cpus > able.max_cpus:
        raise UsageError(
            f"QEMU {able.version} takes at most {able.max_cpus} CPUs for {able.machine}:"
            f" ask for fewer than {machine.cpus}"
        )
    known = [
        option
        for option in arch.qemu.machine_options_if_known
        if option.partition("=")[0] in able.machine_options
    ]
    board = ",".join([able.machine, *arch.qemu.machine_options, *known])
    arguments = ["-cpu", cpu_model(arch, machine), "-m", f"{machine.memory_bytes >> 20}M"]
    arguments += ["-smp", str(machine.cpus)]
    if not machine.nodes:
        arguments += ["-M", f"{board},memory-backend=m0", *_backend(0, machine.memory_bytes)]
        return arguments
    arguments += ["-M", board]
    first = 0
    for index, node in enumerate(machine.nodes):
        words = [f"node,nodeid={index}"]
        if node.cpus:
            words.append(f"cpus={first}-{first + node.cpus - 1}")
        if node.memory_bytes:
            arguments += _backend(index, node.memory_bytes)
            words.append(f"memdev=m{index}")
        arguments += ["-numa", ",".join(words)]
        first += node.cpus
    return arguments


def _ram_sizes(machine: Machine) -> set[int]:
    """Return the sizes of the mappings that hold the memory of *machine*."""
    return {node.memory_bytes for node in machine.nodes} or {machine.memory_bytes}


def _backend(index: int, size: int) -> list[str]:
    return ["-object", f"memory-backend-ram,id=m{index},size={size},reserve=off"]


@contextlib.asynccontextmanager
async def start(
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    huge_pages: bool = False,
) -> AsyncIterator[Qemu]:
    """Run QEMU in its own process group for as long as the context lasts.

    Its QMP is connected and its output read. Whatever ends the context, the group is killed; if
    this process is killed outright, the kernel kills QEMU.

    Args:
        command: QEMU's command line; the guest's console belongs on standard output.
        pass_fds: open files that it inherits.
        huge_pages: whether the host may back the guest's memory with them.

    Raises:
        FlatbootError: QEMU does not start; the sentence holds what it said.
    """
    ours, theirs = socket.socketpair()
    control = f"socket,id=qmp,fd={theirs.fileno()}"
    with ours, theirs:
        process = await asyncio.create_subprocess_exec(
            *(*command, "-chardev", control, "-mon", "chardev=qmp,mode=control"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(theirs.fileno(), *pass_fds),
            start_new_session=True,
            # QEMU asks for huge pages: one touched byte counts as 2 MiB where the host has them.
            preexec_fn=processes.child_setup(signal.SIGKILL, huge_pages=huge_pages),
        )
        theirs.close()
        qemu = Qemu(process, QMPClient("flatboot"))
        readers = [
            asyncio.ensure_future(_collect(process.stdout, qemu.console)),
            asyncio.ensure_future(_collect(process.stderr, qemu.errors)),
        ]
        try:
            qemu.qmp.register_listener(qemu.events)
            try:
                async with asyncio.timeout(_START_S):
                    await qemu.qmp.connect(ours)
            except TimeoutError as error:
                raise FlatbootError(f"QEMU did not answer in {_START_S:.0f} s") from error
            except QMPError as error:
                await asyncio.wait(readers, timeout=5)
                said = qemu.errors.decode(errors="replace").strip() or "it said nothing"
                raise FlatbootError(f"QEMU did not start: {said}") from error
            yield qemu
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.wait(readers, timeout=5)
            with contextlib.suppress(QMPError, OSError, EOFError):
                await qemu.qmp.disconnect()


async def _collect(stream: asyncio.StreamReader | None, into: bytearray) -> None:
    assert stream is not None
    while piece := await stream.read(65536):
        into += piece
