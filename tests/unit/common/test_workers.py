"""Children that share work: what comes back, and that none stays when something goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_processes import alive, wait_for

from flatboot.common import workers
from flatboot.common.errors import FlatbootError

LANES = ["abc", "de", "f"]
#: Two children, each with a child of its own whose number it writes down.
PARENT = """
import sys
from flatboot.common import processes, workers
def do(task):
    script = 'echo $$ > "$1/$2.new"; mv "$1/$2.new" "$1/$2"; exec sleep 300'
    return processes.run(["bash", "-c", script, "bash", sys.argv[1], task], what="it")
with workers.sharing(["a", "b"], do, 2) as done:
    list(done)
"""


def test_each_task_is_done_once_and_a_lane_by_one(tmp_path: Path) -> None:
    with workers.sharing(LANES, lambda task: (task.upper(), os.getpid()), 2) as done:
        results = dict(done)
    assert {task: result for task, (result, _) in results.items()} == {
        c: c.upper() for c in "abcdef"
    }
    by = [{results[task][1] for task in lane} for lane in LANES]
    assert all(len(pids) == 1 for pids in by)
    pids = set().union(*by)
    assert os.getpid() not in pids
    assert not any(map(alive, pids))


def test_lanes_are_done_side_by_side() -> None:
    began = time.monotonic()
    with workers.sharing(["a", "b", "c"], lambda _: time.sleep(1), 3) as done:
        assert len(list(done)) == 3
    assert time.monotonic() - began < 2.5


def test_an_error_is_one_of_the_parent() -> None:
    def do(task: str) -> str:
        if task == "d":
            raise FlatbootError("no d can be done")
        return task

    with (
        pytest.raises(FlatbootError, match=r"^no d can be done$"),
        workers.sharing(LANES, do, 2) as done,
    ):
        list(done)


def test_a_child_that_is_killed() -> None:
    def do(task: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return task

    with (
        pytest.raises(FlatbootError, match="a child process ended"),
        workers.sharing(LANES, do, 2) as done,
    ):
        list(done)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left(tmp_path: Path, number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        # Python leaves SIGINT alone if it is ignored where it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    files = [tmp_path / name for name in "ab"]
    assert wait_for(lambda: all(file.exists() for file in files))
    pids = [int(file.read_text()) for file in files]
    assert all(map(alive, pids))
    parent.send_signal(number)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode != 0
    assert wait_for(lambda: not any(map(alive, pids)))
    assert errors.count("Traceback") <= 1, errors
