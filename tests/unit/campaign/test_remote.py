"""A sweep on a real Dask scheduler and real workers on loopback, with boots that are made up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sweeps
from distributed.comm.core import CommClosedError

from cluster import Cluster
from flatboot.campaign import remote, sweep
from flatboot.campaign.jobs import Job
from flatboot.common.errors import FlatbootError
from flatboot.guest import image_files
from flatboot.record.record import Record
from flatboot.record.results import Results

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this flatboot for the workers: nobody edits it while the tests run."""
    copy = tmp_path_factory.mktemp("source") / "flatboot"
    shutil.copytree(
        Path(remote.__file__).parents[1], copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    return copy


@pytest.fixture(autouse=True)
def as_the_workers_have_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this side know itself by the copy, too."""
    monkeypatch.setattr(remote, "__file__", str(package / "campaign" / "remote.py"))
    identity = remote._identity
    identity.cache_clear()
    yield
    identity.cache_clear()


@pytest.fixture(scope="module")
def cluster(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers for the tests that leave them as they are."""
    with contextlib.ExitStack() as stack:
        made = Cluster(tmp_path_factory.mktemp("cluster"), stack, [package.parent, HERE])
        made.two_workers()
        yield made


def run(jobs: list[Job], folder: Path, address: str) -> tuple[list[Record], dict[str, str]]:
    with Results.open(folder / "r.sqlite", create=True) as kept:
        sweep.run(jobs, kept, scheduler=address, measure=sweeps.measure)
        return kept.records(), kept.failures()


def noting(folder: Path, words: str) -> tuple[Path, dict[str, str]]:
    """Return a folder that gets the boots' notes, and the command line that asks for that."""
    notes = folder / "notes"
    notes.mkdir()
    return notes, {"noting": f"folder={notes} {words}"}


def pid_of(record: Record) -> int:
    return int(record.results["pid"])


def pids(records: list[Record]) -> set[int]:
    return set(map(pid_of, records))


def when(reached: Callable[[], bool], act: Callable[[], object]) -> threading.Thread:
    """Do something, in a thread, as soon as something else is so."""

    def wait() -> None:
        while not reached():
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_boots_on_all_workers(tmp_path: Path, cluster: Cluster) -> None:
    notes, cmdline = noting(tmp_path, "seconds=0.3 fail=4G")
    jobs = sweeps.jobs(tmp_path, "a", "b", memory=["2G", "4G", "8G"], cmdline=cmdline)
    records, failures = run(jobs, tmp_path, cluster.address)
    assert pids(records) == {worker.pid for worker in cluster.workers.values()}
    assert sorted(record.results["kernel"] for record in records) == (
        ["the kernel a"] * 2 + ["the kernel b"] * 2
    )
    # The kernels were not there: each worker has both in its cache now, and nothing else.
    for name in cluster.workers:
        sent = cluster.cache(name) / "sent"
        assert sorted(path.read_text() for path in sent.glob("*/vmlinux")) == [
            "the kernel a",
            "the kernel b",
        ]
    assert {record.results["directory"] for record in records} <= {
        str(path) for name in cluster.workers for path in (cluster.cache(name) / "sent").iterdir()
    }
    assert len(failures) == 2
    assert all(reason.startswith("the guest panicked") for reason in failures.values())
    assert len(list(notes.glob("start-*"))) == 6

    # A damaged copy is noticed and sent again; what is done is not done again.
    for path in cluster.cache("one").glob("sent/*/vmlinux"):
        path.write_text("damaged")
    more = sweeps.jobs(tmp_path, "a", memory=["2G", "16G", "32G"], cmdline=cmdline)
    records, _ = run(more, tmp_path, cluster.address)
    assert [record.results["kernel"] for record in records[4:]] == ["the kernel a"] * 2

    # On the wall clock the workers of one host take turns.
    for note in notes.iterdir():
        note.unlink()
    wall = sweeps.jobs(tmp_path, "a", "b", cmdline=cmdline, clock="wall")
    run(wall, tmp_path, cluster.address)
    times = sorted((float(note.read_text().split()[1]), note.name) for note in notes.iterdir())
    assert [name.partition("-")[0] for _, name in times] == ["start", "end"] * 2


def test_ctrl_c_ends_the_boots_on_the_workers(tmp_path: Path, cluster: Cluster) -> None:
    notes, cmdline = noting(tmp_path, "seconds=60")
    jobs = sweeps.jobs(tmp_path, "a", memory=["2G", "4G", "8G"], cmdline=cmdline)
    thread = when(
        lambda: len(list(notes.glob("start-*"))) == 2, lambda: os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        run(jobs, tmp_path, cluster.address)
    thread.join(1)
    assert len(list(notes.glob("cancelled-*"))) == 2
    assert len(list(notes.glob("start-*"))) == 2
    assert all(worker.poll() is None for worker in cluster.workers.values())


def test_workers_and_a_scheduler_that_die(
    tmp_path: Path, package: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notes, cmdline = noting(tmp_path, "seconds=0.5")
    sizes = ["2G", "4G", "8G"]

    def started() -> int:
        return len(list(notes.glob("start-*")))

    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, [package.parent, HERE])
        jobs = sweeps.jobs(tmp_path, "a", memory=sizes, cmdline=cmdline)
        with pytest.raises(
            FlatbootError, match=r"at \S+ has no worker: start one with dask worker"
        ):
            run(jobs, tmp_path, cluster.address)

        workers = cluster.two_workers()
        thread = when(lambda: started() == 2, workers["one"].kill)
        records, failures = run(jobs, tmp_path, cluster.address)
        thread.join(1)
        assert (len(records), failures) == (3, {})
        assert workers["two"].pid in pids(records)
        said = " ".join(capfd.readouterr().err.split())
        assert "went away: its boots are done elsewhere" in said

        for note in notes.iterdir():
            note.unlink()
        jobs = sweeps.jobs(tmp_path, "b", memory=sizes, cmdline=cmdline)
        thread = when(lambda: started() == 2, cluster.scheduler.kill)
        records, failures = run(jobs, tmp_path, cluster.address)
        thread.join(1)
        # One was done there, one ended with the worker, and that and the last one were done here.
        assert (len(records), failures) == (6, {})
        assert [record.machine.memory_bytes >> 30 for record in records[3:]] == [2, 4, 8]
        assert [pid == os.getpid() for pid in map(pid_of, records[3:])] == [False, True, True]
        workers["two"].wait(20)
        assert (started(), len(list(notes.glob("end-*")))) == (4, 3)
        assert len(list(notes.glob("cancelled-*"))) == 1
        said = " ".join(capfd.readouterr().err.split())
        assert re.search(
            r"scheduler at \S+ went away; boots that are left and are done here: 2", said
        )
        assert "Traceback" not in said


def test_workers_that_are_not_fit(
    tmp_path: Path, cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "flatboot"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    unfit = [
        cluster.worker("old", {"PYTHONPATH": f"{other.parent}:{HERE}"}),
        cluster.worker("bare", {"PATH": str(tmp_path / "bin")}),
    ]
    cluster.wait("old")
    cluster.wait("bare")
    jobs = sweeps.jobs(tmp_path, "a", memory=["2G", "4G", "8G", "16G"])
    records, _ = run(jobs, tmp_path, cluster.address)
    assert pids(records) <= {worker.pid for worker in cluster.workers.values()}
    for worker in unfit:
        worker.kill()
    said = " ".join(capfd.readouterr().err.split())
    assert re.search(r"is left out: it has no flatboot, or an older one \(.*No module named", said)
    assert "is left out: qemu-system-x86_64 is not there: install QEMU" in said


def test_workers_of_another_version(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity() -> str:
        return "0" * 64

    # By this name the workers find their own; only what this side says is another.
    identity.__module__, identity.__qualname__ = remote.__name__, "_identity"
    monkeypatch.setattr(remote, "_identity", identity)
    with pytest.raises(
        FlatbootError, match=r"no worker of .* is fit: its flatboot is another version than this"
    ):
        run(sweeps.jobs(tmp_path, "a"), tmp_path, cluster.address)


class Dying:
    """Passes for a client of a scheduler whose workers die of their first boot.

    *lives* workers come one after the other.
    """

    status = "running"

    def __init__(self, lives: int) -> None:
        self._lives = lives
        self._number = 0
        self.boots = 0
        self.breaks = 0

    async def nthreads(self) -> dict[str, int]:
        self._number = min(self.boots, self._lives)
        return {f"tcp://worker:{self._number}": 1} if self._number < self._lives else {}

    async def run(self, function: Any, *arguments: Any, workers: list[str], **more: Any) -> Any:
        if self.breaks:
            self.breaks -= 1
            return dict.fromkeys(workers, CommClosedError("in the scheduler's broadcast"))
        answers: dict[str, Any] = {
            "_identity": remote._identity(),
            "_prepare": set(),
            "_leave": None,
        }
        return dict.fromkeys(workers, answers[function.__name__])

    def submit(self, *arguments: Any, **more: Any) -> Dying:
        self.boots += 1
        return self

    def __await__(self) -> Iterator[Any]:
        return asyncio.sleep(60).__await__()

    def release(self) -> None:
        pass


def with_dying(lives: int, monkeypatch: pytest.MonkeyPatch) -> Dying:
    client = Dying(lives)

    @contextlib.asynccontextmanager
    async def connected(address: str) -> AsyncIterator[Dying]:
        yield client

    monkeypatch.setattr(remote, "_connected", connected)
    monkeypatch.setattr(remote, "_POLL_S", 0.01)
    return client


def test_a_boot_that_kills_its_workers_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_dying(9, monkeypatch)
    (job,) = sweeps.jobs(tmp_path, "a")
    records, failures = run([job], tmp_path, "tcp://scheduler")
    assert (records, client.boots) == ([], 3)
    assert failures == {job.key: "3 workers went away while they booted it"}


@pytest.mark.parametrize("breaks", [2, 3])
def test_a_connection_that_breaks_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: int
) -> None:
    client = with_dying(9, monkeypatch)
    client.breaks = breaks
    if breaks == 2:
        run(sweeps.jobs(tmp_path, "a"), tmp_path, "tcp://scheduler")
        assert client.boots == 3
        return
    with pytest.raises(FlatbootError, match="it has no flatboot, or an older one"):
        run(sweeps.jobs(tmp_path, "a"), tmp_path, "tcp://scheduler")
    assert client.boots == 0


def test_when_no_worker_comes_back_the_rest_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    client = with_dying(2, monkeypatch)
    monkeypatch.setattr(remote, "_PATIENCE_S", 0.1)
    records, _ = run(sweeps.jobs(tmp_path, "a"), tmp_path, "tcp://scheduler")
    assert client.boots == 2
    assert pids(records) == {os.getpid()}
    said = " ".join(capfd.readouterr().err.split())
    assert "has no fit worker any more; boots that are left and are done here: 1" in said


def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_CONNECT_S", 0.5)
    jobs = sweeps.jobs(tmp_path, "a")
    for address in ("tcp://127.0.0.1:9", "carrier-pigeon://roof"):
        with pytest.raises(FlatbootError, match=f"no Dask scheduler answers at {address}.*: start"):
            run(jobs, tmp_path, address)


def test_an_image_that_arrives_damaged(tmp_path: Path) -> None:
    (job,) = sweeps.jobs(tmp_path, "a")
    sent = image_files.content(job.image, "x86_64")
    assert image_files.find(job.image, "x86_64", job.digest) is None
    with pytest.raises(FlatbootError, match="the kernel image arrived damaged"):
        image_files.receive({**sent, "vmlinux": b"other"}, job.digest)
    assert image_files.find(job.image, "x86_64", job.digest) is None
    image_files.receive(sent, job.digest)
    found = image_files.find(job.image, "x86_64", job.digest)
    assert found is not None
    assert image_files.content(found, "x86_64") == sent
