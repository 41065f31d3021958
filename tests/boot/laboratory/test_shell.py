"""A shell in a guest, from a pipe and on a terminal; and QEMU's command line to run by hand."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flatboot.kernel.build import KernelName

PROGRAM = (sys.executable, "-c", "from flatboot.cli.cli import main; main()")
PROMPT = b"guest:/# "
TIMEOUT_S = 300.0


@pytest.fixture
def command() -> list[str]:
    """The command that boots the kernel that these tests take, on a small machine."""
    image = KernelName("stock", "users").image()
    return [*PROGRAM, "boot", "--kernel", str(image.directory), "--memory", "512M"]


def test_commands_from_a_pipe(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*command, "--shell", "--cmdline", "foo=bar"],
        input=b"read word\nfirst\necho $word; cat /proc/cmdline\nls /sys /dev/null\n(exit 3)",
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=tmp_path,
    )
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "first"
    assert lines[1].startswith("console=ttyS0") and lines[1].endswith("foo=bar")
    assert "/dev/null" in lines
    assert "kernel" in done.stdout.decode().split()
    assert done.stdout.decode() == "".join(f"{line}\n" for line in lines)
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_takes_the_end_of_input(command: list[str]) -> None:
    done = subprocess.run(
        [*command, "--shell"],
        input=b"cat\nsome text\n",
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stdout == b"some text\n"


def test_a_guest_without_a_shell(command: list[str]) -> None:
    done = subprocess.run(
        [*command, "--shell", "--cmdline", "rdinit=/none"],
        input="",
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    assert "the guest panicked" in done.stderr
    assert "Traceback" not in done.stderr


def _on_the_terminal() -> None:
    """Take the terminal, and hear its signals, which a run in the background has let ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Session:
    """The command on a terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self._ours, terminal = pty.openpty()
        self.terminal = terminal
        self.before = termios.tcgetattr(terminal)
        self._said = b""
        self.child = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_on_the_terminal,
        )

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self._ours)
        os.close(self.terminal)

    def expect(self, text: bytes) -> bytes:
        """Return what is printed up to *text*, and forget it."""
        deadline = time.monotonic() + TIMEOUT_S
        os.set_blocking(self._ours, False)
        while text not in self._said:
            assert time.monotonic() < deadline, self._said
            with contextlib.suppress(BlockingIOError):
                self._said += os.read(self._ours, 4096)
            time.sleep(0.02)
        before, _, self._said = self._said.partition(text)
        return before

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def ended(self) -> int:
        """Return the exit status; the terminal must be as it was, and no QEMU be left."""
        status = self.child.wait(timeout=60)
        assert termios.tcgetattr(self.terminal) == self.before
        return status


@pytest.fixture
def session(command: list[str]) -> Iterator[Session]:
    made = Session([*command, "--shell"])
    yield made
    made.close()


def qemus(group: int) -> list[int]:
    """Return the processes with a guest whose parent is *group*."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            if f"\nPPid:\t{group}\n" in text and text.startswith("Name:\tqemu"):
                found.append(int(status.parent.name))
    return found


def test_a_terminal_has_job_control(session: Session) -> None:
    session.expect(PROMPT)
    (qemu,) = qemus(session.child.pid)
    session.type(b"sleep 1000\r")
    session.expect(b"sleep 1000\r\n")
    time.sleep(1)
    session.type(b"\x03")
    session.expect(PROMPT)
    session.type(b"sleep 1001\r")
    session.expect(b"sleep 1001\r\n")
    time.sleep(1)
    session.type(b"\x1a")
    session.expect(PROMPT)
    session.type(b"jobs; tty\r")
    assert b"Stopped" in session.expect(b"/dev/ttyS0")
    session.expect(PROMPT)
    session.type(b"\x04")
    session.expect(b"stopped jobs")
    session.type(b"exit 5\r")
    assert session.ended() == 5
    assert not Path(f"/proc/{qemu}").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_qemu_is_left_behind(session: Session, number: signal.Signals) -> None:
    session.expect(PROMPT)
    (qemu,) = qemus(session.child.pid)
    session.child.send_signal(number)
    if number == signal.SIGKILL:
        session.child.wait(timeout=60)
    else:
        assert session.ended() == 143
    deadline = time.monotonic() + 60
    while Path(f"/proc/{qemu}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{qemu}").exists()


def test_the_escape_ends_a_guest_that_hangs(session: Session) -> None:
    session.expect(PROMPT)
    session.type(b"trap '' INT; sleep 1000\r")
    session.expect(b"sleep 1000\r\n")
    session.type(b"\x1d")
    assert session.ended() == 0


def test_ctrl_c_ends_a_boot_that_has_no_shell_yet(session: Session) -> None:
    session.expect(b"booting")
    session.type(b"\x03")
    assert session.ended() == 130


def test_the_command_line_that_is_printed_boots_by_itself(command: list[str]) -> None:
    dry = subprocess.run(
        [*command, "--dry-run"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    (line,) = dry.stdout.splitlines()
    assert "/proc/self/fd" not in line
    done = subprocess.run(
        ["sh", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert "flatboot: mark=" in done.stdout
    assert "flatboot: complete" in done.stdout


def test_the_command_line_of_a_shell_takes_the_terminal(command: list[str]) -> None:
    dry = subprocess.run(
        [*command, "--shell", "--dry-run"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    session = Session(["sh", "-c", dry.stdout])
    try:
        session.expect(PROMPT)
        session.type(b"\x03")
        session.expect(PROMPT)
        session.type(b"exit\r")
        assert session.ended() == 0
    finally:
        session.close()
