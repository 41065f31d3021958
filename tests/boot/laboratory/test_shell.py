"""A shell in a guest, from a pipe and on a terminal; and QEMU's command line to run by hand."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal_session import PROGRAM, TIMEOUT_S, Session

from flatboot.kernel.build import KernelName

PROMPT = b"guest:/# "


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
