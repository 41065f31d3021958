"""Interrupts are never off for long while the memory map grows."""

from __future__ import annotations

import pytest
from guests import BLOCKS, HUGE_2M, LAST_BLOCK, Ask, Guests

#: The kernel's own tracer, which keeps the longest time; one instruction, of any CPU, takes a
#: nanosecond here.
TRACING = "/sys/kernel/tracing/"
LIMIT_US = 100
PROGRAMS = (
    f"poke await listed {BLOCKS}{LAST_BLOCK}/state online",
    f"poke write tracer {TRACING}current_tracer irqsoff",
    f"poke write reset {TRACING}tracing_max_latency 0",
)
SHOWN = (f"poke show longest {TRACING}tracing_max_latency",)
LOADS = {
    "small pages": ("latency 3072 4k {cpus}",),
    "huge pages": ("latency 3072 thp {cpus}",),
    "a pool": (f"poke write pool {HUGE_2M} 1500",),
    "a walk": ("poke drain flags /proc/kpageflags",),
}


pytestmark = pytest.mark.long


def longest_us(guests: Guests, load: str, cpus: int, cmdline: str = "") -> int:
    """Return the longest time with interrupts off under a load of LOADS."""
    programs = (*PROGRAMS, *(one.format(cpus=cpus) for one in LOADS[load]), *SHOWN)
    ask = Ask("flatboot", "4G", programs, "lazy", cpus, config="irqs-off", cmdline=cmdline)
    record = guests(ask)
    assert record.results["write.tracer"] == record.results["write.reset"] == "ok"
    return int(record.files["longest"])


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("load", LOADS)
def test_interrupts_are_off_for_a_moment_only(guests: Guests, load: str, cpus: int) -> None:
    assert 0 < longest_us(guests, load, cpus) <= LIMIT_US


@pytest.mark.parametrize("load", ["small pages", "huge pages"])
def test_memory_is_not_cleared_with_interrupts_off(guests: Guests, load: str) -> None:
    """With init_on_free a block is cleared as it is handed out: that takes far longer."""
    assert 0 < longest_us(guests, load, 1, "init_on_free=1") <= LIMIT_US
