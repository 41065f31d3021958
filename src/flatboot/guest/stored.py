"""Boots that are done once: what comes out the same again is taken from the store.

On the exact clock a boot repeats, so the record of the same boot is the same evidence. Now and then
one is done again all the same, and must agree. Boots on the wall clock are always done.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable
from dataclasses import dataclass

from flatboot.common import paths
from flatboot.common.errors import FlatbootError
from flatboot.common.processes import run_coroutine
from flatboot.guest import boot as booting
from flatboot.guest import qemu
from flatboot.guest.boot import unseen
from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record
from flatboot.record.store import Store

#: One in so many boots that the store has is done again.
AGAIN = 20
#: In the environment: do all boots anew, of this process and of those that it starts.
FRESH = "FLATBOOT_FRESH"
#: How far two boots with one CPU may be apart, in instructions, and with several, as a share.
AGREES, AGREES_CPUS = 100, 0.002


@dataclass
class BootTally:
    """How many boots this process did, and how many it took from the store."""

    made: int = 0
    taken: int = 0


tally = BootTally()


def boot(
    spec: BootSpec, on_phase: Callable[[str], None] = unseen, *, fresh: bool = False
) -> Record:
    """Return the record of the boot *spec*; ``measure`` says what it raises."""
    return run_coroutine(measure(spec, on_phase, fresh=fresh))


async def measure(
    spec: BootSpec, on_phase: Callable[[str], None] = unseen, *, fresh: bool = False
) -> Record:
    """Return the record of the boot *spec*: from the store, or of a boot that is done now.

    Args:
        spec: the boot.
        on_phase: called with the name of each phase as it begins, of a boot that is done.
        fresh: whether to do it although the store has it.

    Raises:
        FlatbootError: as ``flatboot.guest.boot.measure`` does; or the boot was done again and came
            out another way; or a newer flatboot wrote the store.
    """
    if not spec.repeats:
        tally.made += 1
        return await booting.measure(spec, on_phase)
    fresh = fresh or FRESH in os.environ
    key = spec.key(await qemu.capabilities(spec.arch))
    store = Store(paths.cache() / "store.sqlite")
    known = None if fresh else store.find(key)
    if known is not None and random.randrange(AGAIN):
        tally.taken += 1
        return _renamed(known, spec)
    made = await booting.measure(spec, on_phase)
    tally.made += 1
    if known is not None:
        _agree(known, made, spec)
    store.add(key, made)
    return made


def _renamed(known: Record, spec: BootSpec) -> Record:
    """Return *known* under the names of the kernel of *spec*.

    A kernel may come out byte by byte like one of another flavour or config, whose boot that was.
    """
    image = spec.image
    kernel = dataclasses.replace(
        known.kernel,
        base=image.base,
        flavour=image.flavour,
        config=image.config,
        config_hash=image.config_hash,
        compiler=image.compiler,
    )
    return dataclasses.replace(known, kernel=kernel)


def _agree(known: Record, made: Record, spec: BootSpec) -> None:
    """Check that a boot came out as it did before.

    Raises:
        FlatbootError: it did not.
    """
    few = AGREES if spec.machine.cpus == 1 else AGREES_CPUS * known.to_init
    if abs(made.to_init - known.to_init) > few:
        raise FlatbootError(
            f"a boot of {known.kernel.flavour}, {known.kernel.config}, {spec.machine.title} took"
            f" {made.to_init:,} instructions and {known.to_init:,} on {known.created}, where it"
            " should repeat: find out why, or take the new one with --fresh"
        )
