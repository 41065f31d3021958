"""QEMU is told things by its monitor while a guest runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def monitor(folder: Path, commands: str, every_s: float = 0) -> Iterator[tuple[str, ...]]:
    """Yield the arguments for a monitor of QEMU.

    It is told *commands* before the guest starts and, if *every_s* is given, again every so many
    seconds.
    """
    for end in ("in", "out"):
        os.mkfifo(folder / f"monitor.{end}")
    # Open for both, so that nobody waits for the other end.
    told = os.open(folder / "monitor.in", os.O_RDWR | os.O_NONBLOCK)
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            os.write(told, commands.encode())

    teller = threading.Thread(target=repeat)
    try:
        os.write(told, commands.encode())
        if every_s:
            teller.start()
        yield (
            "-chardev",
            f"pipe,id=told,path={folder / 'monitor'}",
            "-mon",
            "chardev=told,mode=readline",
        )
    finally:
        over.set()
        if every_s:
            teller.join()
        os.close(told)
