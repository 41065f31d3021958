"""A guest for people: a shell on its console, and QEMU's command line to run it by hand."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import re
import shlex
import socket
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import atomic, paths, processes
from flatboot.common.errors import UsageError
from flatboot.guest import borrowed, guest_run, guestlog, initramfs, kvm, qemu
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import BootSpec, boot_file
from flatboot.guest.guest_run import Guest

#: What ends the guest from the terminal, whatever it does: Ctrl-], as in telnet.
ESCAPE = b"\x1d"
_ARCH = "x86_64"
_SCRIPT = "etc/shell"
# What the guest's shell.sh prints, and as much of it as there may be without its end.
_MARK, _MARK_MOST = b"\x1e", 16
_READY, _ENDED = re.compile(rb"\x1eready\r?\n"), re.compile(rb"\x1eended (\d+)\r?\n")
# What a kernel prints last that panicked and does not restart.
_LAST_WORDS = b"---[ end Kernel panic"
_KEPT = 1 << 16
# A terminal's end of file. A command of the guest may take one, and the shell needs it as well.
_EOF, _EOF_AGAIN_S = b"\x04", 1.0
# How long the last output of a guest that is gone may take.
_LAST_S = 1.0
_PIECE = 1 << 16
_SIZE = os.terminal_size((80, 24))
_FIRST = asyncio.FIRST_COMPLETED


class Output:
    """What of the guest's output is the shell's, as it comes.

    Attributes:
        ready: whether the shell takes commands.
        status: its exit status; None before its end.
        panicked: whether the kernel has said its last word.
        before: what the guest printed before the shell was ready.
        last: the end of what was printed since.
    """

    def __init__(self, *, returns: bool = True) -> None:
        """Begin with a guest that has printed nothing; *returns*: keep those of a terminal."""
        self._returns = returns
        self._return = b""
        self.ready = False
        self.status: int | None = None
        self.panicked = False
        self.before = b""
        self.last = b""
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take a *piece* of the guest's output and return what is to be shown now."""
        if self.status is not None:
            return b""
        data, self._held = self._held + piece, b""
        if not self.ready:
            self.before = (self.before + piece)[-_KEPT:]
            match = _READY.search(self.before)
            self.panicked = _LAST_WORDS in self.before
            if match is None:
                return b""
            self.ready, data = True, self.before[match.end() :]
            self.before = self.before[: match.start()]
        if match := _ENDED.search(data):
            self.status, data = int(match[1]), data[: match.start()]
        elif (at := data.rfind(_MARK, -_MARK_MOST)) >= 0:
            data, self._held = data[:at], data[at:]
        self.last = (self.last + data)[-_KEPT:]
        self.panicked = _LAST_WORDS in self.last
        return data if self._returns else self._lines(data)

    def _lines(self, data: bytes) -> bytes:
        """Return *data* with the line ends of a file; one may come in two pieces."""
        data, self._return = self._return + data, b""
        if data.endswith(b"\r"):
            data, self._return = data[:-1], b"\r"
        return data.replace(b"\r\n", b"\n")


def run(spec: BootSpec, on_ready: Callable[[], None] = lambda: None) -> int:
    """Boot a guest with a shell on standard input and output; return the shell's exit status.

    On a terminal the shell has job control, and Ctrl-C goes to the guest; the terminal is in raw
    mode for as long as the shell is there. Otherwise the guest takes commands up to the end of
    standard input, and prints what they print. Whatever ends this ends QEMU.

    Args:
        spec: the boot; its time limit is that of the way to the shell.
        on_ready: called when the shell is there.

    Raises:
        GuestFailed: the guest did not come to the shell, or panicked; or QEMU died.
        FlatbootError: QEMU, busybox or the compiler is missing, or QEMU is too old.
        UsageError: such a guest cannot run this machine's busybox.
    """
    return processes.run_coroutine(_run(spec, on_ready))


def command_line(spec: BootSpec, *, shell: bool) -> str:
    """Return QEMU's command line, quoted for a shell, with which the guest runs by itself.

    The initramfs that it names lies in the cache.

    Args:
        spec: the boot.
        shell: whether it is that of a shell on the terminal, else of a boot that is measured.

    Raises:
        FlatbootError: QEMU, the compiler or a shell's busybox is missing, or QEMU is too old.
        UsageError: there is no such machine, or it cannot run this machine's busybox.
    """
    return processes.run_coroutine(_command_line(spec, shell))


async def _command_line(spec: BootSpec, shell: bool) -> str:
    archive = _archive(spec, True) if shell else spec.initramfs()
    name = f"initramfs-{hashlib.sha256(archive).hexdigest()[:16]}.cpio"
    file = paths.cache() / "guest" / name
    if not file.exists():
        with atomic.new_file(file) as new:
            new.write_bytes(archive)
    console = "chardev:console" if shell else "stdio"
    command = guest_run.alone(await _guest(spec), file, console)
    if shell:
        command[1:1] = ["-chardev", "stdio,id=console,signal=off"]
    return shlex.join(command)


def _archive(spec: BootSpec, terminal: bool) -> bytes:
    """Return the initramfs of a guest with a shell."""
    arch = spec.arch
    if arch.name != _ARCH:
        raise UsageError(
            f"the shell is busybox of an {_ARCH} machine, which {arch.name} does not run: boot"
            f" with --arch {_ARCH}"
        )
    words = ["busybox", "sh", _SCRIPT]
    if terminal:
        size = _SIZE
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(sys.stdin.fileno())
        words += [os.environ.get("TERM", "dumb"), str(size.lines), str(size.columns)]
    files: Mapping[str, Path] = {
        **borrowed.files("busybox"),
        _SCRIPT: initramfs.SOURCES / "shell.sh",
    }
    return initramfs.make(arch, (shlex.join(words),), spec.clock, files, ())


async def _guest(spec: BootSpec, initrd: int = -1) -> Guest:
    able = await qemu.capabilities(spec.arch)
    kernel = boot_file(spec.image, spec.arch)
    guest = Guest(spec, spec.arch, able, kernel, initrd, "tcg")
    if not guest.exact and await kvm.works(guest):
        return dataclasses.replace(guest, accelerator="kvm")
    return guest


async def _run(spec: BootSpec, on_ready: Callable[[], None]) -> int:
    terminal = sys.stdin.isatty()
    archive = _archive(spec, terminal)
    ours, theirs = socket.socketpair()
    with guest_run.memory_file("initramfs", archive) as initrd, ours, theirs:
        guest = await _guest(spec, initrd)
        ours.setblocking(False)
        device = f"socket,id=console,fd={theirs.fileno()}"
        command = [*guest_run.alone(guest, console="chardev:console"), "-chardev", device]
        files = (initrd, theirs.fileno())
        async with qemu.start(command, pass_fds=files, huge_pages=not guest.exact) as running:
            theirs.close()
            output = Output(returns=terminal or sys.stdout.isatty())
            talk = _Talk(ours, terminal, on_ready, output)
            with processes.hang_up_terminates():
                how = await _end(talk, running, spec.timeout_s)
    if talk.output.status is None:
        errors = running.errors.decode(errors="replace").strip()
        _explain(how, talk.output, errors, spec.timeout_s)
    return talk.output.status or 0


@dataclass
class _Talk:
    """The talk between standard input and output and the console of a guest, by a socket."""

    console: socket.socket
    terminal: bool
    on_ready: Callable[[], None]
    output: Output = field(default_factory=Output)
    typed: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def show(self) -> None:
        """Show what the guest prints, to the end of its shell or of itself."""
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            while piece := await loop.sock_recv(self.console, _PIECE):
                shown = self.output.feed(piece)
                if self.output.ready and not self.ready.is_set():
                    self.on_ready()
                    if self.terminal:
                        stack.enter_context(raw(sys.stdin.fileno()))
                    self.ready.set()
                _write(shown)
                if self.output.status is not None or self.output.panicked:
                    return

    async def type(self) -> None:
        """Send to the guest what is typed, until the escape is typed on a terminal."""
        await self.ready.wait()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read, args=(loop, self.typed), daemon=True).start()
        end = b"\n"
        while piece := await self.typed.get():
            before, escape, _ = piece.partition(ESCAPE) if self.terminal else (piece, b"", b"")
            await loop.sock_sendall(self.console, before)
            if escape:
                return
            end = piece[-1:]
        if end != b"\n":
            await loop.sock_sendall(self.console, b"\n")
        while True:
            await loop.sock_sendall(self.console, _EOF)
            await asyncio.sleep(_EOF_AGAIN_S)


async def _end(talk: _Talk, running: qemu.Qemu, limit_s: float) -> str:
    """Let the talk go on to its end and return what ended it.

    That is "shell", also by the escape; "guest"; "qemu", which died; or "limit", the *limit_s*
    seconds that the way to the shell may take.
    """
    show, type_, gone, ready = (
        asyncio.ensure_future(one)
        for one in (talk.show(), talk.type(), running.ended(), talk.ready.wait())
    )
    tasks = (show, type_, gone, ready)
    how = "limit"
    try:
        done, _ = await asyncio.wait((show, gone, ready), timeout=limit_s, return_when=_FIRST)
        if talk.ready.is_set():
            done, _ = await asyncio.wait((show, type_, gone), return_when=_FIRST)
        if done:
            # What it printed last, or how it ended, is on its way.
            await asyncio.wait((gone if show in done else show,), timeout=_LAST_S)
            how = "shell"
            if talk.output.status is None and gone.done():
                how = "guest" if gone.result() else "qemu"
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        # A console that is gone is a guest that is gone.
        if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
            raise outcome
    return how


def _explain(how: str, output: Output, errors: str, limit_s: float) -> None:
    """Raise what an end without the shell's own means, unless somebody wanted it.

    Raises:
        GuestFailed: the guest panicked, hung, or was gone before its shell was there.
    """
    # What came since then was seen; only the sentence is missing.
    said = output.last if output.ready else output.before
    console = said.decode(errors="replace").replace("\r\n", "\n")
    unseen = "" if output.ready else console
    if panic := guestlog.parse(console).panic:
        raise GuestFailed("panic", f"the guest panicked: {panic}", unseen)
    if how == "qemu":
        what = f"QEMU died while the guest ran: {errors or 'it said nothing'}"
        raise GuestFailed("qemu", what, unseen)
    if how == "limit":
        what = f"the guest had no shell after {limit_s:g} s: try --timeout or --cmdline"
        raise GuestFailed("hang", f'{what} "ignore_loglevel"', unseen)
    if not output.ready:
        raise GuestFailed("restart", "the guest restarted before its shell was there", unseen)


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Have the terminal pass on each key as it is typed, for as long as the context lasts."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal)
        yield
    finally:
        # It may be gone.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(loop: asyncio.AbstractEventLoop, into: asyncio.Queue[bytes]) -> None:
    """Read standard input up to its end, an empty piece, in a thread of its own."""
    piece = b"more"
    while piece:
        try:
            piece = os.read(sys.stdin.fileno(), _PIECE)
        except (OSError, ValueError):
            piece = b""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(into.put_nowait, piece)


def _write(piece: bytes) -> None:
    sys.stdout.flush()
    while piece:
        piece = piece[os.write(sys.stdout.fileno(), piece) :]
