"""Interrupts are never off for long while the memory map grows."""

from __future__ import annotations

import pytest
from guests import BLOCKS, HUGE_2M, LAST_BLOCK, Guests, asked

pytestmark = pytest.mark.groups("memory-map")

#: The kernel's own tracer, which keeps the longest time; one instruction, of any CPU, takes a
#: nanosecond here.
TRACING = "/sys/kernel/tracing/"
LIMIT_US = 100
#: Where the emulator may give another CPU its turn, whose instructions count as well: up to 284,000
#: of them were seen, after a boot that had waited for its memory map too.
TURN = "sysvec_apic_timer_interrupt"
PROGRAMS = (
    f"poke await listed {BLOCKS}{LAST_BLOCK}/state online",
    f"poke write tracer {TRACING}current_tracer irqsoff",
    f"poke write reset {TRACING}tracing_max_latency 0",
)
SHOWN = (
    f"poke show longest {TRACING}tracing_max_latency",
    f"poke show where {TRACING}trace",
)
LOADS = {
    "small pages": ("latency 3072 4k {cpus}",),
    "huge pages": ("latency 3072 thp {cpus}",),
    "a pool": (f"poke write pool {HUGE_2M} 1500",),
    "a walk": ("poke drain flags /proc/kpageflags",),
}


@pytest.mark.long
@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("load", LOADS)
def test_interrupts_are_off_for_a_moment_only(guests: Guests, load: str, cpus: int) -> None:
    programs = (*PROGRAMS, *(one.format(cpus=cpus) for one in LOADS[load]), *SHOWN)
    record = guests(asked("flatboot", "4G", programs, "lazy", cpus=cpus, config="irqs-off"))
    assert record.results["write.tracer"] == record.results["write.reset"] == "ok"
    longest = int(record.files["longest"])
    assert longest > 0
    if cpus == 1 or TURN not in record.files["where"]:
        assert longest <= LIMIT_US
