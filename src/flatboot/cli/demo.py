"""``flatboot demo``: stock and flatboot from 2 GiB to 1 TiB, one table, records and a plot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from flatboot.common import host, progress, units
from flatboot.common.processes import run_coroutine
from flatboot.guest import stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName
from flatboot.record.record import Record
from flatboot.show import plot

_CONFIG = "bench"
_SMALL, _LARGE = 2 << 30, 1 << 40
_BETWEEN = (16 << 30, 128 << 30)
# What the boots beside the largest one take at most.
_BESIDE = 4e9
_LAZY = "deferred_init=lazy"


def run(base: str, output: Path, *, fresh: bool) -> list[Record]:
    """Boot both kernels of *base*, write records and plot to *output*, and return the records.

    With *fresh*, boots that the store has are done again.
    """
    available = host.available_memory()
    largest = largest_stock(available)
    if largest < _LARGE:
        progress.warn(
            f"a stock boot of {units.binary_size(_LARGE)} touches"
            f" {units.decimal_size(host.boot_memory(_LARGE))} and"
            f" {units.decimal_size(available)} is free: stock goes up to"
            f" {units.binary_size(largest)}, flatboot to {units.binary_size(_LARGE)}"
        )
    wanted = plan(base, largest)
    for flavour in ("stock", "flatboot"):
        KernelName(flavour, _CONFIG, base=base).image()
    side_by_side = available >= host.boot_memory(largest) + _BESIDE
    with progress.step("booting", total=len(wanted)) as step:
        records = run_coroutine(_boot_all(wanted, 2 if side_by_side else 1, step, fresh))
    for record in records:
        name = f"{record.kernel.flavour}-{units.short_size(record.machine.memory_bytes)}.json"
        record.save(output / name)
    plot.cost_against_memory(records, output / "boot-cost.svg")
    return records


def plan(base: str, largest: int) -> list[BootSpec]:
    """Return the boots of the demo, the longest first: phases at both ends, bare in between."""
    sizes = sorted({largest, *(size for size in _BETWEEN if size < largest), _SMALL}, reverse=True)
    return [
        *(_boot(base, "stock", "", size, size in (largest, _SMALL)) for size in sizes),
        *(
            _boot(base, "flatboot", _LAZY, size, size in (_LARGE, _SMALL))
            for size in (_LARGE, *reversed(_BETWEEN), _SMALL)
        ),
    ]


def largest_stock(available: float) -> int:
    """Return the largest machine, in bytes, that a stock kernel boots on in *available* bytes."""
    size = _LARGE
    while size > _SMALL and host.boot_memory(size) > available:
        size //= 2
    return size


def _boot(base: str, flavour: str, cmdline: str, size: int, phases: bool) -> BootSpec:
    image = KernelName(flavour, _CONFIG, base=base)
    return BootSpec(image, machine(memory=size), cmdline, phases=phases)


async def _boot_all(
    wanted: Sequence[BootSpec], at_once: int, whole: progress.Step, fresh: bool
) -> list[Record]:
    """Carry out the boots, *at_once* at a time: the exact clock does not mind company."""
    gate = asyncio.Semaphore(at_once)
    done = 0

    async def one(spec: BootSpec) -> Record:
        nonlocal done
        title = f"{spec.image.flavour}, {units.binary_size(spec.machine.memory_bytes)}"
        async with gate:
            with progress.step(title) as step:
                record = await stored.measure(
                    spec, lambda phase: step.update(0, phase), fresh=fresh
                )
        done += 1
        whole.update(done)
        return record

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(spec)) for spec in wanted]
    return [task.result() for task in tasks]
