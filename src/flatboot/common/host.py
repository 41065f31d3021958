"""What this machine has to boot guests with: memory and cores."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

# Host memory that a guest touches: a stock kernel's memory map, and what a small guest takes.
_PER_GIB = 17e6
_BASE = 0.5e9


def available_memory() -> int:
    """Return the bytes of memory that are free or can be freed."""
    return _memory("MemAvailable")


def memory() -> int:
    """Return the bytes of memory that there are."""
    return _memory("MemTotal")


def boot_memory(size: int) -> float:
    """Return the bytes of host memory that a stock guest with *size* bytes of memory touches."""
    return _BASE + _PER_GIB * size / (1 << 30)


def cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def processor() -> str:
    """Return the name of the processor, or of its architecture where it has none."""
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _memory(name: str) -> int:
    text = Path("/proc/meminfo").read_text()
    match = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
