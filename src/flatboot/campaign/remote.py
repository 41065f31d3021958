"""Boots on other machines, through a Dask scheduler and its workers.

Dask keeps the connections, tells who is there and runs what it is told to. Which worker boots what
is decided here: a worker must be fit (the same flatboot, QEMU, a compiler) and have the kernel
images before its first boot, and the wall clock wants a host to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import logging
import pickle
import threading
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client, WorkerPlugin, get_worker
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError

from flatboot.campaign import jobs as sweep_jobs
from flatboot.campaign.jobs import Job, Ledger, Measure
from flatboot.common import progress
from flatboot.common.errors import FlatbootError
from flatboot.guest import image_files
from flatboot.guest.image_files import AnyImage
from flatboot.record.record import Record

_CONNECT_S = 10.0
_ANSWER_S = 60.0
_POLL_S = 1.0
_STOP_S = 10.0
# How long to wait for a worker when none is left: one that died may be started again.
_PATIENCE_S = 20.0
# So many workers may go away during a boot before it is the boot that counts as failed.
_DEATHS = 3
# How often a worker is asked whose connection breaks.
_CONNECTIONS = 3
_T = TypeVar("_T")


class _Lost(Exception):
    """The scheduler, or all its workers, went away."""


class _Restarted(Exception):
    """A worker does not know of the sweep: it was started anew at the same address."""


async def run(address: str, ledger: Ledger, measure: Measure) -> None:
    """Boot what is left in *ledger* on the workers of the scheduler at *address*.

    If the scheduler or all its workers go away, this warns and returns with boots left.

    Args:
        address: such as ``tcp://10.0.0.1:8786``.
        ledger: the sweep.
        measure: carries out a boot; the workers import it by its name.

    Raises:
        FlatbootError: there is no scheduler at *address*, or it has no worker that is fit.
    """
    async with _connected(address) as client:
        fleet = _Fleet(client, address, ledger, measure)
        try:
            await fleet.work()
        except _Lost as error:
            progress.warn(f"{error}; boots that are left and are done here: {len(ledger.left)}")
        finally:
            await fleet.leave()


@contextlib.asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Any]:
    # What Dask logs at length, such as a lost connection, is said here in a sentence.
    for name in ("", ".client", ".core", ".comm", ".worker", ".utils"):
        logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
    client: Any = Client(  # type: ignore[no-untyped-call]
        address, asynchronous=True, timeout=_CONNECT_S, set_as_default=False
    )
    try:
        try:
            await client
        except (OSError, ValueError) as error:
            raise FlatbootError(
                f"no Dask scheduler answers at {address} ({error}): start one with dask scheduler"
            ) from error
        yield client
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(client.close(), _STOP_S)


@dataclass
class _Member:
    """A worker that the scheduler has.

    Attributes:
        unfit: why it cannot boot; "" if it can.
        threads: how many boots it takes at once.
        running: the boots on it.
    """

    unfit: str
    threads: int
    running: dict[asyncio.Task[None], Job] = field(default_factory=dict)


class _Fleet:
    """The workers of a scheduler and the boots on them."""

    def __init__(self, client: Any, address: str, ledger: Ledger, measure: Measure) -> None:
        self._client = client
        self._address = address
        self._ledger = ledger
        self._measure = measure
        self._sweep = f"flatboot-{uuid.uuid4().hex}"
        self._queue = deque(ledger.left)
        self._members: dict[str, _Member] = {}
        self._lost_by: Counter[str] = Counter()
        self._tries = 0

    async def work(self) -> None:
        """Boot until nothing is left.

        Raises:
            _Lost: the scheduler or all workers went away.
            FlatbootError: there is no fit worker from the start.
        """
        await self._look()
        self._check()
        idle_s = 0.0
        try:
            while self._queue or self._running():
                self._start()
                idle_s = 0.0 if self._running() else idle_s + _POLL_S
                if idle_s > _PATIENCE_S:
                    raise _Lost(f"the scheduler at {self._address} has no fit worker any more")
                await self._wait()
                await self._look()
        finally:
            await sweep_jobs.cancelled(self._running())

    async def leave(self) -> None:
        """End what still runs on the workers, and wait for that."""
        fit = [address for address, member in self._members.items() if not member.unfit]
        if fit and self._client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                stop = self._client.run(_leave, self._sweep, workers=fit, on_error="ignore")
                await asyncio.wait_for(stop, _STOP_S)

    def _running(self) -> list[asyncio.Task[None]]:
        return [task for member in self._members.values() for task in member.running]

    def _check(self) -> None:
        if not self._members:
            raise FlatbootError(
                f"the scheduler at {self._address} has no worker:"
                f" start one with dask worker {self._address}"
            )
        if all(member.unfit for member in self._members.values()):
            reason = next(iter(self._members.values())).unfit
            raise FlatbootError(f"no worker of the scheduler at {self._address} is fit: {reason}")

    async def _look(self) -> None:
        """See who came and who went."""
        threads = await self._answer(self._client.nthreads())
        for address in [known for known in self._members if known not in threads]:
            await self._gone(address)
        new = [address for address in threads if address not in self._members]
        for address, unfit in zip(
            new, await asyncio.gather(*(self._admit(address) for address in new)), strict=True
        ):
            self._members[address] = _Member(unfit, threads[address])
            if unfit:
                progress.warn(f"the worker at {address} is left out: {unfit}")

    async def _admit(self, address: str) -> str:
        """Make a worker fit and return "", or return why it is not."""
        try:
            theirs = await self._on(address, _identity)
        except FlatbootError as error:
            return f"it has no flatboot, or an older one ({error}): install the same as here"
        if theirs != _identity():
            return "its flatboot is another version than this: install the same"
        try:
            jobs = self._ledger.left
            missing = await self._on(address, _prepare, self._sweep, jobs)
            for job in {job.digest: job for job in jobs if job.digest in missing}.values():
                with progress.step(f"sending the kernel {job.cell.kernel.name} to {address}"):
                    sent = image_files.content(job.image, job.cell.machine.arch)
                    await self._on(address, image_files.receive, sent, job.digest)
        except FlatbootError as error:
            return str(error)
        return ""

    async def _on(self, address: str, function: Any, *arguments: Any) -> Any:
        """Run a function on a worker, beside its tasks, and return what it returns.

        Raises:
            FlatbootError: it raised an error, or the worker is gone.
        """
        for _ in range(_CONNECTIONS):
            answers = await self._answer(
                self._client.run(function, *arguments, workers=[address], on_error="return")
            )
            answer = answers.get(address, FlatbootError("it went away"))
            # The scheduler may use a connection that the worker has just closed.
            if not isinstance(answer, CommClosedError):
                break
        if isinstance(answer, Exception):
            raise FlatbootError(str(answer)) from answer
        return answer

    async def _answer(self, asked: Awaitable[_T]) -> _T:
        """Return the scheduler's answer.

        Raises:
            _Lost: it is gone, or does not answer.
        """
        try:
            return await asyncio.wait_for(asked, _ANSWER_S)
        except (OSError, TimeoutError) as error:
            raise self._lost() from error

    def _lost(self) -> _Lost:
        return _Lost(f"the scheduler at {self._address} went away")

    async def _gone(self, address: str) -> None:
        """Take the boots of a worker that went away back."""
        member = self._members.pop(address)
        if member.unfit:
            return
        progress.warn(f"the worker at {address} went away: its boots are done elsewhere")
        await sweep_jobs.cancelled(member.running)
        left = {job.key for job in self._ledger.left}
        for job in member.running.values():
            self._lost_by[job.key] += 1
            if job.key in left and self._lost_by[job.key] < _DEATHS:
                self._queue.appendleft(job)
            elif job.key in left:
                self._ledger.failed(job, f"{_DEATHS} workers went away while they booted it")

    def _start(self) -> None:
        """Give boots to the workers that have room."""
        for address, member in self._members.items():
            while self._queue and not member.unfit and self._room(address, member):
                job = self._queue.popleft()
                member.running[asyncio.create_task(self._one(address, job))] = job

    def _room(self, address: str, member: _Member) -> bool:
        if self._queue[0].spec.clock == "exact":
            return len(member.running) < member.threads
        return not any(
            other.running for name, other in self._members.items() if _host(name) == _host(address)
        )

    async def _wait(self) -> None:
        """Wait for the end of a boot, but not for long."""
        running = self._running()
        if not running:
            await asyncio.sleep(_POLL_S)
            return
        ended, _ = await asyncio.wait(running, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        for member in self._members.values():
            for task in ended & member.running.keys():
                del member.running[task]
        sweep_jobs.raise_first(ended)

    async def _one(self, address: str, job: Job) -> None:
        self._tries += 1
        name = f"{self._sweep}-{self._tries}"
        call = pickle.dumps((_boot, self._sweep, name, job, self._measure))
        future = self._client.submit(_opaque(), call, key=name, workers=[address], pure=False)
        try:
            with progress.step(f"{job.cell.title} on {address}"):
                record = await future
        except FutureCancelledError as error:
            raise self._lost() from error
        except _Restarted:
            self._members[address].unfit = await self._admit(address)
            self._queue.appendleft(job)
        except Exception as error:  # Whatever a worker raises, the others boot on.
            self._ledger.failed(job, str(error) or type(error).__name__)
        else:
            self._ledger.done(job, record)
        finally:
            future.release()


def _opaque() -> Callable[[bytes], Any]:
    """Return a function that makes a call that was pickled.

    Dask's scheduler unpickles what it hands on. A function that has no name in a module travels as
    its code, and so the scheduler needs no flatboot.
    """

    def make(call: bytes) -> Any:
        function, *arguments = pickle.loads(call)
        return function(*arguments)

    return make


def _host(address: str) -> str:
    return address.rpartition(":")[0]


# What follows runs on the workers.


@functools.cache
def _identity() -> str:
    """Return a hash of this flatboot's files: with equal ones, boots are alike."""
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()


async def _prepare(sweep_name: str, jobs: Sequence[Job], dask_worker: Any) -> set[str]:
    """Make a worker ready for *jobs*; return the digests of the images that it lacks."""
    await sweep_jobs.ready(jobs)
    await dask_worker.plugin_add(plugin=_Boots(), name=sweep_name)
    images = {job.digest: job for job in jobs}
    return {
        digest
        for digest, job in images.items()
        if image_files.find(job.image, job.cell.machine.arch, digest) is None
    }


async def _leave(sweep_name: str, dask_worker: Any) -> None:
    boots = dask_worker.plugins.get(sweep_name)
    if boots is not None:
        await dask_worker.plugin_remove(name=sweep_name)
        while boots.running:
            await asyncio.sleep(0.05)


def _boot(sweep_name: str, name: str, job: Job, measure: Measure) -> Record:
    """Boot *job* in a thread of the worker, as its task *name*."""
    boots = get_worker().plugins.get(sweep_name)
    if not isinstance(boots, _Boots):
        raise _Restarted
    image = image_files.find(job.image, job.cell.machine.arch, job.digest)
    if image is None:
        raise FlatbootError("the kernel's image is gone from the worker's cache: try again")
    return boots.boot(name, _with(job, image), measure)


def _with(job: Job, image: AnyImage) -> Job:
    return dataclasses.replace(job, spec=dataclasses.replace(job.spec, kernel=image))


class _Boots(WorkerPlugin):
    """The boots of one sweep on a worker; ends those that nobody waits for any more.

    Dask does not stop a task that runs already, but tells its plugins that it is no longer wanted:
    when it was cancelled, when the client went away, and when the worker closes.
    """

    def __init__(self) -> None:
        self.running: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = {}
        self._unwanted: set[str] = set()
        self._closed = False
        self._lock = threading.Lock()

    def boot(self, name: str, job: Job, measure: Measure) -> Record:
        """Boot *job* as the task *name*, unless or until it is not wanted any more."""

        async def noted() -> Record:
            with self._noted(name):
                return await sweep_jobs.carry_out(job, measure)

        try:
            return asyncio.run(noted())
        except FlatbootError as error:
            # An error whose maker takes more than a text cannot travel.
            raise FlatbootError(str(error)) from None
        except asyncio.CancelledError:
            raise FlatbootError("it was stopped") from None

    def transition(self, key: Any, start: str, finish: str, **more: Any) -> None:
        """End the boot of the task *key* if Dask does not want it any more."""
        if finish in ("cancelled", "released", "forgotten"):
            self._end(str(key))

    def teardown(self, worker: Any) -> None:
        """End all boots."""
        self._closed = True
        for name in list(self.running):
            self._end(name)

    def _end(self, name: str) -> None:
        with self._lock:
            self._unwanted.add(name)
            if name in self.running:
                loop, task = self.running[name]
                loop.call_soon_threadsafe(task.cancel)

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._closed or name in self._unwanted:
                raise asyncio.CancelledError
            self.running[name] = (asyncio.get_running_loop(), task)
        try:
            yield
        finally:
            with self._lock:
                del self.running[name]
