"""Boots of a matrix as jobs: each with a key, carried out here or on another machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from flatboot.campaign.matrix import Cell, Matrix
from flatboot.common import arches, progress
from flatboot.common.errors import FlatbootError
from flatboot.guest import qemu
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.image_files import AnyImage
from flatboot.record import spans
from flatboot.record.record import TRACE_FILE, Record
from flatboot.record.results import Results

#: Carries out a boot; ``flatboot.guest.stored.measure`` is one.
Measure = Callable[[BootSpec], Awaitable[Record]]

#: Parameters and guest program of a boot whose CPU callbacks are traced.
TRACE_CMDLINE = "trace_event=cpuhp:* trace_buf_size=512K trace_clock=x86-tsc"
TRACE_PROGRAM = f"poke show {TRACE_FILE} {TRACE_FILE}"


@dataclass(frozen=True)
class Job:
    """One boot of a sweep, with all that another machine needs to know to do it.

    Attributes:
        cell: what it is in the matrix.
        digest: of the files that the boot reads; see ``flatboot.guest.image_files``.
        spec: the boot itself.
        key: what tells it from others, whichever QEMU does it.
    """

    cell: Cell
    digest: str
    spec: BootSpec
    key: str

    @property
    def image(self) -> AnyImage:
        """The kernel's image."""
        image = self.spec.image
        assert isinstance(image, AnyImage)
        return image

    @property
    def traced(self) -> bool:
        """Whether the callbacks of CPU bring-up are traced."""
        return TRACE_PROGRAM in self.spec.programs


def job(cell: Cell, image: AnyImage, digest: str, matrix: Matrix) -> Job:
    """Return the boot of *cell* of *matrix*, of the kernel *image* whose files have *digest*."""
    cmdline = f"{cell.cmdline} {TRACE_CMDLINE}" if matrix.trace else cell.cmdline
    exact = matrix.clock == "exact"
    spec = BootSpec(
        image,
        cell.machine,
        cmdline.strip(),
        matrix.clock,
        (TRACE_PROGRAM,) if matrix.trace else (),
        phases=matrix.phases,
        # The work of CPU bring-up is counted where that can be.
        spans=matrix.trace and exact and cell.machine.arch in spans.ARCHES,
        timeout_s=matrix.timeout_s,
        run=cell.repetition - 1,
    )
    return Job(cell, digest, spec, spec.key())


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


async def ready(jobs: Sequence[Job]) -> None:
    """Check that this machine can boot *jobs*: it has QEMU, for such machines, and a compiler.

    Raises:
        FlatbootError: it lacks something.
        UsageError: its QEMU cannot make a machine.
    """
    for machine in {job.cell.machine for job in jobs}:
        arch = arches.load(machine.arch)
        qemu.machine_arguments(arch, machine, await qemu.capabilities(arch))
    specs = [job.spec for job in jobs]
    for spec in {(s.machine.arch, s.clock, s.programs): s for s in specs}.values():
        spec.initramfs()


async def carry_out(job: Job, measure: Measure) -> Record:
    """Boot *job* and return the record.

    Raises:
        FlatbootError: the boot failed, or the kernel wrote no trace that was asked for.
    """
    record = await measure(job.spec)
    if job.traced and "cpuhp_" not in record.files.get(TRACE_FILE, ""):
        raise FlatbootError(
            "the kernel traced no callbacks of CPUs: it needs CONFIG_BOOTTIME_TRACING and a tracer"
        )
    return record


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
