"""CPUs of a guest: asked for, counted, and what became of them."""

from __future__ import annotations

import re

import pytest
from guests import asked

from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record

#: QEMU's CPUs do not say that their clocks agree: each would measure its delay loop for a second.
KNOWN_DELAY = "lpj=4000000"
#: Two packages of four cores of two threads.
THREADS = ("-smp", "16,sockets=2,cores=4,threads=2")
#: One kernel that is quick, and, with the long tests, those that check themselves.
WHERE = [
    ("users", "x86_64"),
    ("bench", "arm64"),
    pytest.param("debug", "x86_64", marks=pytest.mark.long),
    pytest.param("debug", "arm64", marks=pytest.mark.long),
]
WAIT = ("cpus wait", "cpus try")
TRACE = "/sys/kernel/tracing/trace"


def many_cpus(cmdline: str, *programs: str, **more: object) -> BootSpec:
    """Return a boot of a machine with 8 CPUs, or as *more* has it."""
    ask = {"clock": "wall", "cpus": 8, "cmdline": f"{KNOWN_DELAY} {cmdline}".strip(), **more}
    return asked("flatboot", "2G", programs or WAIT, **ask)  # type: ignore[arg-type]


def cpus_of(text: str) -> set[int]:
    """Return the CPUs of a list such as "0-3,8"."""
    found = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def came_up(record: Record) -> tuple[int, int, int]:
    """Return how many CPUs came up behind boot, how many should have, and in how many groups."""
    line = re.findall(r"cpu: (\d+) of (\d+) CPUs came up behind boot, in (\d+) groups", record.log)
    up, wanted, groups = map(int, line[0])
    return up, wanted, groups


def assert_usable(record: Record, cpus: int) -> None:
    """Fail unless *cpus* CPUs are online, run programs, and their devices say so."""
    assert len(cpus_of(record.results["cpus.online"])) == cpus
    assert (record.results["cpus.ran"], record.results["cpus.stale"]) == (str(cpus), "0")


def given_up(record: Record) -> dict[int, int]:
    """Return the CPUs that did not come up, with the error."""
    found = re.findall(r"cpu: CPU(\d+) did not come up: error (-\d+)", record.log)
    return {int(cpu): int(error) for cpu, error in found}
