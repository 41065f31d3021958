"""The program on a terminal, as a user has it."""

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

PROGRAM = (sys.executable, "-c", "from flatboot.cli.cli import main; main()")
#: How long a guest may take to say something.
TIMEOUT_S = 300.0


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
            self.child.terminate()
            try:
                self.child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        os.close(self._ours)
        os.close(self.terminal)

    def expect(self, text: bytes, limit_s: float = TIMEOUT_S) -> bytes:
        """Return what is printed up to *text*, within *limit_s* seconds, and forget it."""
        deadline = time.monotonic() + limit_s
        os.set_blocking(self._ours, False)
        while text not in self._said:
            assert time.monotonic() < deadline, self._said
            ended = self.child.poll() is not None
            with contextlib.suppress(BlockingIOError):
                self._said += os.read(self._ours, 4096)
                continue
            assert not ended, self._said
            time.sleep(0.02)
        before, _, self._said = self._said.partition(text)
        return before

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def ended(self, limit_s: float = 60) -> int:
        """Return the exit status, within *limit_s* seconds; the terminal must be as it was."""
        status = self.child.wait(timeout=limit_s)
        assert termios.tcgetattr(self.terminal) == self.before
        return status
