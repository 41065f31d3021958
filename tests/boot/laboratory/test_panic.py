"""What a guest says that panics while its first process prints."""

from __future__ import annotations

import asyncio
import dataclasses
import shlex

import pytest
from guests import asked

from flatboot.guest import qemu, shell

PRINTING, LAST_WORDS = b"flatboot: begin", b"---[ end Kernel panic"
TIMEOUT_S = 120.0


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_panic_is_told_while_the_first_process_prints(cpus: int) -> None:
    """The console's port belongs to a process that was interrupted, or on a CPU that stopped."""
    ask = asked("stock", "512M", cpus=cpus, cmdline="unknown_nmi_panic", clock="wall")
    command = shlex.split(shell.command_line(dataclasses.replace(ask, phases=False), shell=False))

    async def panicked() -> bytes:
        async with qemu.start(command) as guest, asyncio.timeout(TIMEOUT_S):
            for awaited in (PRINTING, LAST_WORDS):
                while awaited not in guest.console and guest.process.returncode is None:
                    await asyncio.sleep(0.001)
                if awaited == PRINTING:
                    await guest.qmp.execute("inject-nmi")
            return bytes(guest.console)

    console = asyncio.run(panicked())
    assert b"Kernel panic - not syncing: NMI: Not continuing" in console
    assert b"flatboot: complete" not in console
