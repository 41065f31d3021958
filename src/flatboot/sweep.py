"""The boots of a matrix, each done once, here or on many machines, into a results file."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from flatboot import (
    arches,
    boot,
    build,
    host,
    image_files,
    initramfs,
    own_kernel,
    progress,
    qemu,
    spans,
)
from flatboot.boot import Boot, Clock
from flatboot.build import KernelImage
from flatboot.errors import FlatbootError, UsageError
from flatboot.image_files import AnyImage
from flatboot.matrix import Cell, Kernel, Matrix
from flatboot.processes import run_coroutine
from flatboot.record import TRACE_FILE, Record
from flatboot.results import Results

#: Carries out a boot; ``flatboot.boot.measure`` is one.
Measure = Callable[[Boot], Awaitable[Record]]

#: Parameters and guest program of a boot whose CPU callbacks are traced.
TRACE_CMDLINE = "trace_event=cpuhp:* trace_buf_size=512K trace_clock=x86-tsc"
TRACE_PROGRAM = f"poke show {TRACE_FILE} {TRACE_FILE}"


@dataclass(frozen=True)
class Job:
    """One boot of a sweep, with all that another machine needs to know to do it.

    Attributes:
        cell: what it is in the matrix.
        image: the kernel's image.
        digest: of the files that the boot reads; see ``flatboot.image_files``.
        clock: "exact" or "wall".
        phases: whether to find out where the time goes.
        trace: whether to trace the callbacks of CPU bring-up.
        timeout_s: host seconds that each run of the guest may take.
    """

    cell: Cell
    image: AnyImage
    digest: str
    clock: Clock
    phases: bool
    trace: bool
    timeout_s: float

    @property
    def key(self) -> str:
        """What tells this boot from others: a hash of the kernel, the machine and what is asked."""
        parts = {
            "kernel": self.image.key if isinstance(self.image, KernelImage) else self.digest,
            "machine": dataclasses.asdict(self.cell.machine),
            "cmdline": self.cell.cmdline,
            "clock": self.clock,
            "phases": self.phases,
            "trace": self.trace,
            "repetition": self.cell.repetition,
        }
        # Records of traced boots from before calls were counted hold none.
        parts |= {"spans": True} if self.counts else {}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def programs(self) -> tuple[str, ...]:
        """The guest programs that the boot runs."""
        return (TRACE_PROGRAM,) if self.trace else ()

    @property
    def counts(self) -> bool:
        """Whether the work of CPU bring-up is counted: of traced boots, where that can be."""
        return self.trace and self.clock == "exact" and self.cell.machine.arch in spans.ARCHES

    def boot(self) -> Boot:
        """Return the boot itself."""
        cmdline = f"{self.cell.cmdline} {TRACE_CMDLINE}" if self.trace else self.cell.cmdline
        return Boot(
            self.image,
            self.cell.machine,
            self.clock,
            cmdline.strip(),
            self.programs,
            self.phases,
            timeout_s=self.timeout_s,
            spans=self.counts,
        )


class Ledger:
    """What of a sweep is done, and what is left."""

    def __init__(self, jobs: Sequence[Job], results: Results, step: progress.Step) -> None:
        """Begin with those of *jobs* left that *results* does not hold."""
        done = results.keys()
        self._left = {job.key: job for job in jobs if job.key not in done}
        self._results = results
        self._step = step
        self._total = len(jobs)

    @property
    def left(self) -> list[Job]:
        """The jobs that have neither succeeded nor failed in this run."""
        return list(self._left.values())

    def done(self, job: Job, record: Record) -> None:
        """Keep the record of *job*."""
        self._results.add(job.key, record)
        self._end(job)

    def failed(self, job: Job, reason: str) -> None:
        """Note that *job* failed, to be tried again by the next sweep."""
        self._results.fail(job.key, reason)
        progress.warn(f"{job.cell.title} failed: {reason}")
        self._end(job)

    def _end(self, job: Job) -> None:
        del self._left[job.key]
        self._step.update(self._total - len(self._left), f"{len(self._left)} left")


def plan(matrix: Matrix) -> list[Job]:
    """Return the boots of *matrix* in its order, building the kernels that are not built yet.

    Raises:
        UsageError: a kernel is unknown, or two cells are the same boot.
        FlatbootError: a kernel cannot be built, or a built one has nothing to boot.
    """
    kernels = list(dict.fromkeys(cell.kernel for cell in matrix.cells))
    for kernel in kernels:
        if kernel.built is None:
            with _about(kernel):
                build.request(kernel.source, kernel.flavour, kernel.config, kernel.arch, "gcc")
    images = {kernel: _image(kernel) for kernel in kernels}
    digests = {
        kernel: image_files.digest(image_files.content(image, kernel.arch).items())
        for kernel, image in images.items()
    }
    jobs: dict[str, Job] = {}
    for cell in matrix.cells:
        job = Job(
            cell=cell,
            image=images[cell.kernel],
            digest=digests[cell.kernel],
            clock=matrix.clock,
            phases=matrix.phases,
            trace=matrix.trace,
            timeout_s=matrix.timeout_s,
        )
        twin = jobs.setdefault(job.key, job)
        if twin is not job:
            raise UsageError(
                f"{twin.cell.title} and {cell.title} are the same boot: leave one of them out"
            )
    return list(jobs.values())


async def ready(jobs: Sequence[Job]) -> None:
    """Check that this machine can boot *jobs*: it has QEMU, for such machines, and a compiler.

    Raises:
        FlatbootError: it lacks something.
        UsageError: its QEMU cannot make a machine.
    """
    for machine in {job.cell.machine for job in jobs}:
        arch = arches.load(machine.arch)
        qemu.machine_arguments(arch, machine, await qemu.capabilities(arch))
    for name, clock, programs in {(job.cell.machine.arch, job.clock, job.programs) for job in jobs}:
        initramfs.make(arches.load(name), programs, clock)


async def carry_out(job: Job, measure: Measure) -> Record:
    """Boot *job* and return the record.

    Raises:
        FlatbootError: the boot failed, or the kernel wrote no trace that was asked for.
    """
    record = await measure(job.boot())
    if job.trace and "cpuhp_" not in record.files.get(TRACE_FILE, ""):
        raise FlatbootError(
            "the kernel traced no callbacks of CPUs: it needs CONFIG_BOOTTIME_TRACING and a tracer"
        )
    return record


def run(
    jobs: Sequence[Job],
    results: Results,
    *,
    scheduler: str = "",
    measure: Measure = boot.measure,
) -> None:
    """Boot those of *jobs* that *results* does not hold; whatever ends this, finished ones stay.

    Args:
        jobs: from ``plan``.
        results: where the records go, and the failures.
        scheduler: address of a Dask scheduler, whose workers boot; "" to boot here. If it goes
            away, the rest is booted here.
        measure: carries out a boot.

    Raises:
        FlatbootError: this machine cannot boot, the scheduler cannot be reached or has no worker
            that can, or the results file cannot be written.
    """
    if {job.key for job in jobs} <= results.keys():
        return
    with progress.step("sweep", total=len(jobs)) as step:
        ledger = Ledger(jobs, results, step)
        run_coroutine(_run(ledger, scheduler, measure))


async def _run(ledger: Ledger, scheduler: str, measure: Measure) -> None:
    if scheduler and ledger.left:
        from flatboot import remote  # Dask takes half a second to load.

        await remote.run(scheduler, ledger, measure)
    if ledger.left:
        await ready(ledger.left)
        await _here(ledger, measure)


async def _here(ledger: Ledger, measure: Measure) -> None:
    """Boot what is left on this machine, as much at once as there are cores and memory for.

    A boot that needs more memory than there is runs alone: its kernel may be one that needs less.
    """
    memory = host.available_memory()
    running: dict[asyncio.Task[None], float] = {}

    async def one(job: Job) -> None:
        try:
            with progress.step(job.cell.title):
                record = await carry_out(job, measure)
        except FlatbootError as error:
            ledger.failed(job, str(error))
        else:
            ledger.done(job, record)

    try:
        for job in ledger.left:
            most = 1 if job.clock == "wall" else host.cores()
            need = host.boot_memory(job.cell.machine.memory_bytes)
            while running and (len(running) >= most or sum(running.values()) + need > memory):
                await _an_end(running)
            running[asyncio.create_task(one(job))] = need
        while running:
            await _an_end(running)
    finally:
        await cancelled(running)


async def _an_end(running: dict[asyncio.Task[None], float]) -> None:
    """Wait until at least one task has ended, and take what ended out of *running*."""
    ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        del running[task]
    raise_first(ended)


def raise_first(ended: Collection[asyncio.Task[None]]) -> None:
    """Raise what one of the *ended* tasks raised, if any did; what others raised is dropped."""
    errors = [error for task in ended if (error := task.exception()) is not None]
    if errors:
        raise errors[0]


async def cancelled(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel *tasks* and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _image(kernel: Kernel) -> AnyImage:
    with _about(kernel):
        if kernel.built is not None:
            return own_kernel.find(kernel.built)
        return build.kernel(kernel.source, kernel.flavour, kernel.config, kernel.arch)


@contextlib.contextmanager
def _about(kernel: Kernel) -> Iterator[None]:
    """Say which kernel of the matrix a request within the body is about, if it is wrong."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"kernel {kernel.name}: {error}") from error
