"""Children: their output, their failures, and that none survives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatboot.common import disk, locks, processes
from flatboot.common.errors import FlatbootError

PARENT = """
import sys
from pathlib import Path
from flatboot.common import processes
script = 'echo $$ > "$1/child"; (echo $BASHPID > "$1/grandchild"; exec sleep 300) & wait'
processes.run(["bash", "-c", script, "bash", sys.argv[1]], what="it")
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition: object, seconds: float = 10.0) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_output_lines_and_log(tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "log"
    output = processes.run(
        ["sh", "-c", "cat; echo error >&2"],
        what="it",
        stdin="input\n",
        log=log,
        on_line=lines.append,
    )
    assert output == "input\nerror\n"
    assert lines == ["input", "error"]
    assert log.read_text().splitlines()[1:] == ["input", "error"]


def test_failure_shows_the_end_of_the_output_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(processes.CommandFailed) as caught:
        processes.run(["sh", "-c", "seq 1 100; exit 3"], what="counting", log=log)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"counting failed (exit status 3); the log is {log}:"
    assert lines[1:] == [f"  {number}" for number in range(81, 101)]
    assert caught.value.status == 3


def test_of_a_build_what_failed_is_shown_and_not_what_ran_on_beside_it() -> None:
    beside = "  LD [M]  a.ko\n" * 100
    wrong = "sh: 1: zstd: not found\nmake[3]: *** [Makefile:80: vmlinux.bin.zst] Error 127\n"
    output = f"{beside}{wrong}{beside}make[2]: *** [Makefile:12: all] Error 2\n"
    said = str(processes.CommandFailed("building", 2, output, None)).splitlines()
    assert said[-2:] == ["  " + line for line in wrong.splitlines()]
    assert len(said) == 1 + processes.TAIL_LINES


def test_full_disk_in_a_child_is_named() -> None:
    with pytest.raises(processes.CommandFailed, match="writing failed: the disk is full"):
        processes.run(["sh", "-c", "cat /proc/version > /dev/full"], what="writing")


def test_full_disk_here_is_one_sentence() -> None:
    with (
        pytest.raises(FlatbootError, match=r"no space left.*make room"),
        disk.full_is_an_error(),
        Path("/dev/full").open("w") as file,
    ):
        file.write("x")
        file.flush()


def test_other_errors_of_the_disk_pass_through() -> None:
    with pytest.raises(FileNotFoundError), disk.full_is_an_error():
        Path("/nonexistent/file").read_text()


def test_missing_program() -> None:
    with pytest.raises(FlatbootError, match="no-such-program is not there"):
        processes.run(["no-such-program"], what="it")


def test_variables_are_added_and_kept_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    output = processes.run(
        ["sh", "-c", "echo ${GONE-gone} $NEW"], what="it", env={"NEW": "new"}, without=["GONE"]
    )
    assert output == "gone new\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_child_survives_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stderr=subprocess.DEVNULL
    )
    grandchild = tmp_path / "grandchild"
    assert wait_for(lambda: grandchild.is_file() and grandchild.read_text().strip())
    children = [int((tmp_path / "child").read_text())]
    if number != signal.SIGKILL:
        children.append(int(grandchild.read_text()))
    os.kill(parent.pid, number)
    assert parent.wait(10) != 0
    assert wait_for(lambda: not any(alive(child) for child in children))
    if alive(int(grandchild.read_text())):
        os.kill(int(grandchild.read_text()), signal.SIGKILL)


LOOP = """
import asyncio, signal
from flatboot.common import processes

async def main():
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def callback():
        signal.raise_signal(signal.SIGTERM)
        done.set_result(None)

    loop.call_soon(callback)
    try:
        await asyncio.sleep(60)
    finally:
        await done
        print("cleaned up")

with processes.sigterm_raises():
    processes.run_coroutine(main())
"""


def test_sigterm_interrupts_no_callback_of_the_event_loop() -> None:
    child = subprocess.run(
        [sys.executable, "-c", LOOP], capture_output=True, text=True, timeout=30, check=False
    )
    assert child.stderr == ""
    assert (child.returncode, child.stdout) == (128 + signal.SIGTERM, "cleaned up\n")


def test_a_child_is_ended_at_its_limit(tmp_path: Path) -> None:
    script = f"sleep 100 & echo $! > {tmp_path}/pid; wait"
    begin = time.monotonic()
    with pytest.raises(processes.TookTooLong, match=r"^waiting took longer than 0\.5 s"):
        processes.run(["bash", "-c", script], what="waiting", limit_s=0.5)
    assert time.monotonic() - begin < 10
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()


def test_a_child_within_its_limit() -> None:
    assert processes.run(["echo", "done"], what="echo", limit_s=60) == "done\n"


def test_lock_waits_for_its_holder(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom flatboot.common import locks\n"
        "with locks.exclusive(Path(sys.argv[1]), 'work'):\n"
        "    print('held', flush=True)\n    time.sleep(2)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    begin = time.monotonic()
    with locks.exclusive(tmp_path / "lock", "work"):
        assert time.monotonic() - begin > 0.3
    assert holder.wait(10) == 0


#: Modules that start children by themselves, each with the reason.
STARTERS = {
    "common/processes.py": "the one way",
    "guest/qemu.py": "a guest is spoken to while it runs",
    "distro/distro_boot.py": "a guest has the terminal",
    "cli/selftest.py": "pytest hears of Ctrl-C by itself",
    "cli/selftest_mutants.py": "so it does",
    "cli/selftest_plan.py": "so it does",
    "bootlog/bootlog_way.py": "systemd-analyze may hang, and has a time limit",
}


def test_children_are_started_in_one_way() -> None:
    package = Path(processes.__file__).parents[1]
    names = re.compile(r"^import subprocess|create_subprocess_|os\.(system|popen|fork|spawn)", re.M)
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if names.search(file.read_text())
    }
    assert found == STARTERS.keys()
