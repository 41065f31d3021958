"""Tasks shared out among child processes: those of a lane in order, lanes side by side."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import TypeVar

from flatboot.common import processes, progress
from flatboot.common.errors import FlatbootError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
#: What a child sends when a lane is done; what it is sent when none is left.
_END = -1


@contextlib.contextmanager
def sharing(
    lanes: Sequence[Sequence[_Task]], do: Callable[[_Task], _Result], children: int
) -> Iterator[Iterator[tuple[_Task, _Result]]]:
    """Yield what yields each task and what *do* returns for it, as they end.

    Children are forked here, before the body may start threads, and are gone when it ends, with
    all that they run. They show no progress.

    Args:
        lanes: the tasks. No two of a lane are done at once.
        do: what is done with each, in a child; what it returns must pickle.
        children: how many lanes are done at once, at most.

    Raises:
        FlatbootError: from the iterator, what *do* raised, or that a child ended before its time.
    """
    context = multiprocessing.get_context("fork")
    started = []
    ends: list[Connection] = []
    try:
        with processes.sigterm_raises():
            for _ in range(min(children, len(lanes))):
                mine, its = context.Pipe()
                setup = processes.child_setup(signal.SIGTERM)
                child = context.Process(target=_serve, args=(setup, its, lanes, do))
                child.start()
                started.append(child)
                its.close()
                ends.append(mine)
            yield _collected(lanes, ends)
    finally:
        for child in started:
            child.terminate()
        for child in started:
            child.join()


def _collected(
    lanes: Sequence[Sequence[_Task]], ends: Sequence[Connection]
) -> Iterator[tuple[_Task, _Result]]:
    left = iter(range(len(lanes)))
    at_work: dict[Connection, int] = {}

    def next_lane(end: Connection) -> None:
        at_work.pop(end, None)
        number = next(left, _END)
        end.send(number)
        if number != _END:
            at_work[end] = number

    for end in ends:
        next_lane(end)
    while at_work:
        for ready in connection.wait(list(at_work)):
            assert isinstance(ready, Connection)
            try:
                place, result = ready.recv()
            except EOFError as error:
                raise FlatbootError("a child process ended before its work was done") from error
            if isinstance(result, _Failure):
                raise FlatbootError(result)
            if place == _END:
                next_lane(ready)
            else:
                yield lanes[at_work[ready]][place], result


class _Failure(str):
    """The sentence of an error that a child ran into."""


def _serve(
    setup: Callable[[], None],
    end: Connection,
    lanes: Sequence[Sequence[_Task]],
    do: Callable[[_Task], _Result],
) -> None:
    """Do the lanes that the parent names, in a child."""
    setup()
    progress.hush()
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        while (number := end.recv()) != _END:
            for place, task in enumerate(lanes[number]):
                try:
                    end.send((place, do(task)))
                except FlatbootError as error:
                    end.send((place, _Failure(error)))
                    return
            end.send((_END, None))
