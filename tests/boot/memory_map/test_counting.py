"""Counting instructions by kernel function misses none."""

from __future__ import annotations

from typing import Any

from flatboot.guest import boot
from flatboot.guest.machine import machine

#: Instructions around the two ends that one side counts and the other does not.
ENDS = 16


def test_every_instruction_is_counted_once(kernels: Any) -> None:
    record = boot.boot(kernels("stock"), machine(memory="512M"), functions=True)
    assert abs(sum(record.functions.values()) - record.to_init) <= ENDS
    assert record.functions["start_kernel"] > 0
    assert record.functions["firmware"] > 0
