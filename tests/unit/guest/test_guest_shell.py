"""What of a guest's output a shell shows, the terminal's modes, and QEMU's command line."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pty
import shlex
import socket
import termios
from pathlib import Path

import pytest
from boots import ABLE, GUEST

from flatboot.common.arches import Arch
from flatboot.common.errors import UsageError
from flatboot.guest import borrowed, guest_run, initramfs, qemu, shell
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.guest.shell import Output
from flatboot.kernel import own_kernel

SAID = b"[1.0] no disk\r\n\x1eready\r\nguest:/# \x1eended 7\r\nflatboot: exit.busybox=0\r\n"


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_only_what_the_shell_prints_is_shown(size: int) -> None:
    output = Output()
    shown = b"".join(output.feed(SAID[at : at + size]) for at in range(0, len(SAID), size))
    assert shown == b"guest:/# "
    assert output.ready
    assert output.status == 7
    assert not output.panicked
    assert output.before == b"[1.0] no disk\r\n"


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_file_gets_the_line_ends_of_a_file(size: int) -> None:
    output = Output(returns=False)
    said = b"\x1eready\r\na\r\nb\rc\r\n\x1eended 0\r\n"
    shown = b"".join(output.feed(said[at : at + size]) for at in range(0, len(said), size))
    assert shown == b"a\nb\rc\n"


def test_nothing_that_is_typed_waits_for_the_next_key() -> None:
    output = Output()
    output.feed(b"\x1eready\r\n")
    assert output.feed(b"e") == b"e"
    assert output.feed(b"\x1eend") == b""
    assert output.feed(b"less\r\n, and on") == b"\x1eendless\r\n, and on"
    assert output.status is None


def test_a_panic_is_seen_before_the_shell_and_after() -> None:
    for first in (b"", b"\x1eready\r\n"):
        output = Output()
        output.feed(first + b"---[ end Kernel")
        assert not output.panicked
        output.feed(b" panic - not syncing: no root ]---\r\n")
        assert output.panicked


@pytest.mark.parametrize(
    ("how", "said", "kind", "sentence"),
    [
        ("limit", b"loading\r\n", "hang", r"no shell after 60 s: try --timeout.*\n  loading"),
        ("guest", b"loading\r\n", "restart", r"restarted before its shell was there.*\n  loading"),
        ("qemu", b"", "qemu", "QEMU died while the guest ran: out of wishes"),
        ("guest", b"Kernel panic - not syncing: no root\r\n", "panic", "panicked: no root.*Kernel"),
        ("guest", b"\x1eready\r\nKernel panic - not syncing: bug\r\n", "panic", "panicked: bug$"),
    ],
)
def test_a_guest_that_fails(how: str, said: bytes, kind: str, sentence: str) -> None:
    output = Output()
    output.feed(said)
    with pytest.raises(GuestFailed, match=f"(?s){sentence}") as failure:
        shell._explain(how, output, "out of wishes", 60)
    assert failure.value.kind == kind


@pytest.mark.parametrize("how", ["guest", "shell"])
def test_a_guest_that_somebody_ended(how: str) -> None:
    output = Output()
    output.feed(b"\x1eready\r\n# poweroff -f\r\n")
    shell._explain(how, output, "", 60)


def test_raw_mode_ends_with_an_exception() -> None:
    ours, terminal = pty.openpty()
    try:
        before = termios.tcgetattr(terminal)
        with pytest.raises(KeyboardInterrupt), shell.raw(terminal):
            assert not termios.tcgetattr(terminal)[3] & (termios.ISIG | termios.ECHO)
            raise KeyboardInterrupt
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(ours)
        os.close(terminal)


def typed(monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], terminal: bool) -> bytes:
    """Return what a guest gets when *pieces* are typed."""

    def read(loop: object, into: asyncio.Queue[bytes]) -> None:
        for piece in [*pieces, b""]:
            into.put_nowait(piece)

    async def run() -> bytes:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            talk = shell._Talk(ours, terminal, lambda: None)
            talk.ready.set()
            try:
                async with asyncio.timeout(0.3):
                    await talk.type()
            except TimeoutError:
                pass
            return theirs.recv(1000)

    monkeypatch.setattr(shell, "_read", read)
    monkeypatch.setattr(shell, "_EOF_AGAIN_S", 0.2)
    return asyncio.run(run())


def test_what_a_guest_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, [b"ls\n", b"id"], False) == b"ls\nid\n\x04\x04"
    assert typed(monkeypatch, [b"ls\x1d\n"], False) == b"ls\x1d\n\x04\x04"
    assert typed(monkeypatch, [b"l", b"s\x1dmore", b"more"], True) == b"ls"


def test_a_guest_alone_ends_with_its_qemu() -> None:
    command = guest_run.alone(GUEST)
    assert command[command.index("-action") + 1] == "reboot=shutdown"
    assert command[command.index("-initrd") + 1] == "/proc/self/fd/5"
    command = guest_run.alone(GUEST, Path("/first files"), "chardev:console")
    assert command[command.index("-initrd") + 1] == "/first files"
    assert command[command.index("-serial") + 1] == "chardev:console"


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BootSpec:
    """A boot of a kernel that holds nothing, on a QEMU that is not asked what it can do."""

    async def able(arch: Arch) -> qemu.Capabilities:
        return ABLE

    def compiled(name: str, arch: Arch) -> Path:
        return tmp_path / "vmlinux"

    (tmp_path / "vmlinux").write_text("kernel")
    monkeypatch.setattr(qemu, "capabilities", able)
    monkeypatch.setattr(initramfs, "compiled", compiled)
    monkeypatch.setattr(borrowed, "files", lambda name: {f"bin/{name}": tmp_path / "vmlinux"})
    return BootSpec(own_kernel.find(tmp_path), machine(), "a='b c'")


def test_the_command_line_names_files(wanted: BootSpec) -> None:
    line = shell.command_line(wanted, shell=False)
    assert "\n" not in line
    assert "/proc/self/fd" not in line
    words = shlex.split(line)
    assert words[0] == ABLE.binary
    assert words[words.index("-serial") + 1] == "stdio"
    assert words[words.index("-append") + 1].endswith(" a='b c'")
    initrd = Path(words[words.index("-initrd") + 1])
    assert initrd.read_bytes() == initramfs.make(GUEST.arch, (), "exact")
    assert shell.command_line(wanted, shell=False) == line


def test_the_command_line_of_a_shell(wanted: BootSpec) -> None:
    words = shlex.split(shell.command_line(wanted, shell=True))
    assert words[words.index("-chardev") + 1] == "stdio,id=console,signal=off"
    assert words[words.index("-serial") + 1] == "chardev:console"
    archive = Path(words[words.index("-initrd") + 1]).read_bytes()
    assert b"setsid cttyhack sh" in archive
    assert b"busybox\tsh\tetc/shell\t" in archive


def test_other_architectures_have_no_shell(wanted: BootSpec) -> None:
    other = dataclasses.replace(wanted, machine=machine("arm64"))
    for call in (lambda: shell.run(other), lambda: shell.command_line(other, shell=True)):
        with pytest.raises(UsageError, match="which arm64 does not run: boot with --arch x86_64"):
            call()
