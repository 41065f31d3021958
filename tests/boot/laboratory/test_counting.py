"""Counting instructions by kernel function misses none."""

from __future__ import annotations

from flatboot.guest import stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName

#: Instructions around the two ends that one side counts and the other does not.
ENDS = 16


def test_every_instruction_is_counted_once() -> None:
    record = stored.boot(
        BootSpec(KernelName("stock", "users"), machine(memory="512M"), functions=True)
    )
    assert abs(sum(record.functions.values()) - record.to_init) <= ENDS
    assert record.functions["start_kernel"] > 0
    assert record.functions["firmware"] > 0
