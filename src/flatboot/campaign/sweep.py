"""The boots of a matrix, each done once, here or on many machines, into a results file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from flatboot.campaign.jobs import Job, Ledger, Measure, cancelled, carry_out, raise_first, ready
from flatboot.campaign.jobs import job as job_of
from flatboot.campaign.matrix import Matrix, MatrixKernel
from flatboot.common import host, progress
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.processes import run_coroutine
from flatboot.guest import image_files, stored
from flatboot.guest.image_files import AnyImage
from flatboot.kernel import build, own_kernel
from flatboot.record.results import Results


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
        job = job_of(cell, images[cell.kernel], digests[cell.kernel], matrix)
        twin = jobs.setdefault(job.key, job)
        if twin is not job:
            raise UsageError(
                f"{twin.cell.title} and {cell.title} are the same boot: leave one of them out"
            )
    return list(jobs.values())


def run(
    jobs: Sequence[Job],
    results: Results,
    *,
    scheduler: str = "",
    measure: Measure = stored.measure,
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
        from flatboot.campaign import remote  # Dask takes half a second to load.

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
            most = 1 if job.spec.clock == "wall" else host.cores()
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


def _image(kernel: MatrixKernel) -> AnyImage:
    with _about(kernel):
        if kernel.built is not None:
            return own_kernel.find(kernel.built)
        return build.kernel(kernel.source, kernel.flavour, kernel.config, kernel.arch)


@contextlib.contextmanager
def _about(kernel: MatrixKernel) -> Iterator[None]:
    """Say which kernel of the matrix a request within the body is about, if it is wrong."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"kernel {kernel.name}: {error}") from error
