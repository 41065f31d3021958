"""Code that a CPU ran although the kernel had replaced it: a fault of the emulator.

A kernel that changes its own code (static keys, tracing) first puts a breakpoint over the
instruction, which other CPUs handle as long as it is there. QEMU's TCG translates code before it
runs it. Where each virtual CPU has a thread, QEMU 7.2 could translate the breakpoint while another
CPU took it away, and keep that translation for good. The kernel then dies of a breakpoint that its
memory does not hold. On a busy host 3 of 40 boots of a stock kernel with two CPUs did, and 4 of 35
with 16. On two idle cores 28 of 54 boots with 32 CPUs did, with any way of CPU bring-up; with QEMU
10.0 none of 40.
"""

from __future__ import annotations

import re

_BREAKPOINT = "cc"
# The Code: line marks the byte after the breakpoint; lines of other CPUs may come between.
_OOPS = re.compile(
    r"Oops: int3: .*?RIP: \w+:(?P<where>[\w.]+)\+.*?Code:[0-9a-f ]* (?P<code>[0-9a-f]{2}) <",
    re.DOTALL,
)


def where(console: str) -> str | None:
    """Return the function in which the guest met a breakpoint that was not in memory, or None."""
    if oops := _OOPS.search(console):
        return oops["where"] if oops["code"] != _BREAKPOINT else None
    # A console without the Code: line does not tell; a breakpoint in memory comes again.
    return "a function that its console does not name" if "Oops: int3:" in console else None
