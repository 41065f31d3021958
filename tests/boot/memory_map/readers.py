"""The guest that the tests of readers of struct pages boot."""

from __future__ import annotations

from pathlib import Path

from guests import asked

from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record

#: Two nodes of 1 GiB with a CPU each. Boot takes what it needs from both ends of a node.
MEMORY = "2G"
#: In the middle of node 0 and of node 1: free, and left to be initialised.
PENDING = 0x28000000
PENDING_OF_NODE_1 = 0x58000000
#: Past the end of memory.
BEYOND = 0x180000000
#: On a busy host the emulated timer may come too late for the kernel's test of it.
_LATE_TIMER = "no_timer_check"
#: A block of the memory map.
BLOCK = 4 << 20


def lazy(
    *programs: str,
    memory: str = MEMORY,
    cpus: int = 2,
    mode: str = "lazy",
    cmdline: str = "",
    arguments: tuple[str, ...] = (),
    files: tuple[tuple[str, Path], ...] = (),
) -> BootSpec:
    """Return the ask for a debug guest on the wall clock, each CPU on a node of its own."""
    return asked(
        "flatboot",
        memory,
        programs,
        mode,
        cpus=cpus,
        nodes=cpus,
        config="debug",
        cmdline=f"{_LATE_TIMER} {cmdline}".strip(),
        clock="wall",
        files=files,
        arguments=arguments,
    )


def answer(record: Record, key: str) -> str:
    """Return a result without what the kernel printed into its line."""
    return record.results[key].partition("[")[0]
