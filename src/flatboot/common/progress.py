"""Progress of long steps on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from flatboot.common import screen

console = screen.console(stderr=True)
_QUIET_S = 2.0
_live: Progress | None = None
_hushed = False


class Step:
    """One long step; *update* says how far it is."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        """Belong to *task* of the live display, or to none where there is no terminal."""
        self._progress = progress
        self._task = task

    def update(self, done: float, note: str = "") -> None:
        """Show *done* units of the step's total, and *note* behind it."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)


@contextlib.contextmanager
def step(what: str, total: float | None = None) -> Iterator[Step]:
    """Show *what* while the body runs; steps may nest and share the display.

    On a terminal that is a spinner, a bar (where *total* is known), a note and the time. Elsewhere
    it is one line at the start, and one at the end if the step took over two seconds.
    """
    if _hushed:
        yield Step(None, None)
        return
    if not console.is_terminal:
        console.print(f"{what} ...", highlight=False, markup=False)
        begin = time.monotonic()
        yield Step(None, None)
        took = time.monotonic() - begin
        if took > _QUIET_S:
            console.print(f"{what}: done in {took:.0f} s", highlight=False, markup=False)
        return
    with _display() as progress:
        task = progress.add_task(what, total=total, note="")
        try:
            yield Step(progress, task)
        finally:
            progress.remove_task(task)


@contextlib.contextmanager
def _display() -> Iterator[Progress]:
    global _live
    if _live is not None:
        yield _live
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as _live:
        try:
            yield _live
        finally:
            _live = None


def hush() -> None:
    """Show no more steps in this process: another shows how far it is."""
    global _hushed
    _hushed = True


@contextlib.contextmanager
def watching(step: Step, measure: Callable[[], float]) -> Iterator[None]:
    """Update *step* with what *measure* returns, twice a second, while the body runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            with contextlib.suppress(OSError):
                step.update(measure())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def warn(text: str) -> None:
    """Print a warning of one sentence."""
    console.print(f"[yellow]flatboot: warning:[/] {escape(text)}", highlight=False)
