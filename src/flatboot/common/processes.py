"""The one way to run a child process: its own process group, a log, and no orphans."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeVar

from flatboot.common.errors import FlatbootError

TAIL_LINES = 20
_GRACE_S = 5.0
#: Where Debian keeps what only root is expected to run; not all users have it in their PATH.
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PR_SET_PDEATHSIG = 1
_PR_SET_THP_DISABLE = 41
_JOB_FAILED = re.compile(r"make(\[\d+\])?: \*\*\* \[")
_libc = ctypes.CDLL(None)
_T = TypeVar("_T")


class TookTooLong(FlatbootError):
    """A child was ended at its time limit."""


class CommandFailed(FlatbootError):
    """A child ended with a status other than 0.

    Attributes:
        status: its exit status; negative is the signal that killed it.
        output: all that it wrote, standard output and standard error as one.
    """

    def __init__(self, what: str, status: int, output: str, log: Path | None) -> None:
        """Make the sentence from *what* was done, the status, the log's path and what is last.

        An output that tells of a full disk gives a sentence about that instead.
        """
        self.status = status
        self.output = output
        if "No space left on device" in output:
            text = f"{what} failed: the disk is full"
        else:
            how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
            text = f"{what} failed ({how})"
        if log is not None:
            text += f"; the log is {log}"
        tail = _last(output)
        super().__init__("\n".join([text + (":" if tail else ""), *("  " + line for line in tail)]))


def _last(output: str) -> list[str]:
    """Return the last lines of *output*; of what make wrote, those up to the first job that failed.

    The others that ran beside it go on, and write what says nothing of it.
    """
    lines = output.rstrip().splitlines()
    failed = (number for number, line in enumerate(lines, 1) if _JOB_FAILED.match(line))
    end = next(failed, len(lines))
    return lines[max(0, end - TAIL_LINES) : end]


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    stdin: str | None = None,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    limit_s: float | None = None,
) -> str:
    """Run *command* to its end and return what it wrote (standard output and error as one).

    The child leads its own process group. On any exception here, Ctrl-C and SIGTERM included, the
    whole group is ended before the exception goes on; if this process is killed outright, the
    kernel ends the child.

    Args:
        command: the program and its arguments.
        what: what is done, for the error's sentence, such as "the build of stock/bench".
        cwd: the folder to run in.
        env: variables on top of this process's own; the language is always C.
        without: variables of this process that the child does not get.
        stdin: text to feed to the child.
        log: file that the output is written to as it comes.
        on_line: called with each line of output as it comes, without its line end.
        limit_s: seconds after which the child is ended.

    Raises:
        CommandFailed: the status is not 0.
        TookTooLong: it came to its limit.
        FlatbootError: the program does not exist.
    """
    words = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if name not in without}
    path = os.pathsep.join([kept.get("PATH", os.defpath), *SBIN])
    environment = {**kept, "PATH": path, "LC_ALL": "C.UTF-8", **(env or {})}
    lines: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(sigterm_raises())
        log_file = stack.enter_context(log.open("w")) if log is not None else None
        if log_file is not None:
            log_file.write(f"$ {shlex.join(words)}\n")
        child = stack.enter_context(_group(words, cwd, environment, stdin is not None))
        feeder = threading.Thread(target=_feed, args=(child.stdin, stdin or ""), daemon=True)
        if stdin is not None:
            feeder.start()
        limit = stack.enter_context(_limit(child, limit_s))
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if log_file is not None:
                log_file.write(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))
        status = child.wait()
    output = "".join(lines)
    if limit.is_set():
        raise TookTooLong(f"{what} took longer than {limit_s:g} s and was ended")
    if status != 0:
        raise CommandFailed(what, status, output, log)
    return output


def version(command: str) -> str:
    """Return the first line of what *command* says of its version.

    Raises:
        CommandFailed: it does not take --version.
        FlatbootError: it does not exist.
    """
    return run([command, "--version"], what=f"{command} --version").splitlines()[0]


def child_setup(end: signal.Signals, *, huge_pages: bool = True) -> Callable[[], None]:
    """Return what a child does before it becomes its program.

    Args:
        end: the signal that the kernel sends it when this process is gone.
        huge_pages: whether its memory may be backed with them.
    """
    parent = os.getpid()

    def setup() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, end)
        _libc.prctl(_PR_SET_THP_DISABLE, int(not huge_pages), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return setup


@contextlib.contextmanager
def _group(
    words: list[str], cwd: Path | None, environment: dict[str, str], fed: bool
) -> Iterator[subprocess.Popen[str]]:
    child: subprocess.Popen[str] | None = None
    try:
        with _signals_held_back():
            child = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=child_setup(signal.SIGTERM),
            )
        yield child
    except BaseException as error:
        if child is not None:
            _end_group(child)
        elif isinstance(error, FileNotFoundError):
            missing = f"{error.filename} is not there: install it and try again"
            raise FlatbootError(missing) from error
        raise
    finally:
        for pipe in (child.stdin, child.stdout) if child is not None else ():
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait for the end of the body, so that no child goes unnoticed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in waiting:
            signal.raise_signal(late)


@contextlib.contextmanager
def _limit(child: subprocess.Popen[str], limit_s: float | None) -> Iterator[threading.Event]:
    """End the child after *limit_s* seconds; the event tells that this has happened."""
    ended = threading.Event()

    def end() -> None:
        ended.set()
        _signal_group(child, signal.SIGKILL)

    timer = threading.Timer(limit_s or 0, end)
    if limit_s is not None:
        timer.start()
    try:
        yield ended
    finally:
        timer.cancel()


def _feed(pipe: IO[str], text: str) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):
        pipe.write(text)
        pipe.close()


def _end_group(child: subprocess.Popen[str]) -> None:
    """End the group, gently at first; a second Ctrl-C cuts that short and leaves nobody behind."""
    try:
        _signal_group(child, signal.SIGTERM)
    finally:
        _signal_group(child, signal.SIGKILL)


def _signal_group(child: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Within this context SIGTERM raises SystemExit(143), so that clean-ups run as for Ctrl-C.

    Python allows that in the main thread only; in any other thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def hang_up_terminates() -> Iterator[None]:
    """Have SIGHUP end what runs as SIGTERM does, so that it is cleaned up."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda number, frame: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def run_coroutine(main: Coroutine[Any, Any, _T]) -> _T:
    """Run *main* to its end, as asyncio.run() does; SIGTERM cancels it, as Ctrl-C does.

    An exception out of a signal handler would come up in whichever callback of the event loop runs
    then, and what waits for that callback would wait for ever. In a thread other than the main one
    no signal is looked at.

    Raises:
        SystemExit: SIGTERM came (status 143); *main* has cleaned up.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    terminated = False

    async def cancellable() -> _T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def terminate(number: int, frame: FrameType | None) -> None:
            nonlocal terminated
            if not terminated:
                terminated = True
                loop.call_soon_threadsafe(task.cancel)

        before = signal.signal(signal.SIGTERM, terminate)
        try:
            return await main
        finally:
            signal.signal(signal.SIGTERM, before)

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if terminated:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
