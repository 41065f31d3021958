"""Boots of a matrix as jobs: each with a key, carried out here or on another machine."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from flatboot.campaign.matrix import Cell
from flatboot.common import arches, progress
from flatboot.common.errors import FlatbootError
from flatboot.guest import initramfs, qemu
from flatboot.guest.boot import Boot, Clock
from flatboot.guest.image_files import AnyImage
from flatboot.kernel.build import KernelImage
from flatboot.record import spans
from flatboot.record.record import TRACE_FILE, Record
from flatboot.record.results import Results

#: Carries out a boot; ``flatboot.guest.boot.measure`` is one.
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
        digest: of the files that the boot reads; see ``flatboot.guest.image_files``.
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
