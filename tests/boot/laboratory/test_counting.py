"""What is counted by kernel function: instructions, of which none is missed, and lines."""

from __future__ import annotations

from flatboot.guest import stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName

#: Instructions around the two ends that one side counts and the other does not.
ENDS = 16
STOCK = KernelName("stock", "users")


def test_every_instruction_is_counted_once() -> None:
    record = stored.boot(BootSpec(STOCK, machine(memory="512M"), functions="instructions"))
    assert abs(sum(record.functions.values()) - record.to_init) <= ENDS
    assert record.functions["start_kernel"] > 0
    assert record.functions["firmware"] > 0


def test_lines_come_from_other_cpus() -> None:
    alone = stored.boot(BootSpec(STOCK, machine(memory="512M"), functions="lines"))
    assert alone.functions == {}
    assert not alone.notes
    four = stored.boot(BootSpec(STOCK, machine(memory="512M", cpus=4), functions="lines"))
    # Each CPU that comes up writes to those that are there.
    assert four.functions["set_cpu_sibling_map"] > 0
    assert "firmware" not in four.functions
