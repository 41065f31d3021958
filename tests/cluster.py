"""A Dask scheduler and its workers on loopback, as processes that end with the tests."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

DASK = Path(sys.executable).parent / "dask"


class Cluster:
    """A scheduler and workers, each worker with a cache of its own."""

    def __init__(
        self, folder: Path, stack: contextlib.ExitStack, modules: Sequence[Path] = ()
    ) -> None:
        """Start the scheduler.

        Args:
            folder: gets logs and caches.
            stack: ends all processes when it closes.
            modules: folders of modules that the workers import from first.
        """
        self._folder = folder
        self._path = ":".join(map(str, modules))
        self._stack = stack
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.scheduler = self._start("scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0")
        self.address = self._said("scheduler", r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, name: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a worker."""
        return self._start(
            name,
            *("worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard"),
            *("--local-directory", str(self._folder / name)),
            environment={
                "XDG_CACHE_HOME": str(self._folder / f"cache-{name}"),
                "PYTHONPATH": self._path,
                **(environment or {}),
            },
        )

    def wait(self, name: str) -> None:
        """Wait until a worker is there."""
        self._said(name, r"Registered to:")

    def two_workers(self) -> dict[str, subprocess.Popen[str]]:
        """Start two workers and return them when they are there."""
        self.workers = {name: self.worker(name) for name in ("one", "two")}
        for name in self.workers:
            self.wait(name)
        return self.workers

    def cache(self, name: str) -> Path:
        """Return a worker's cache."""
        return self._folder / f"cache-{name}" / "flatboot"

    def _start(
        self, name: str, *words: str, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        log = self._stack.enter_context((self._folder / f"{name}.log").open("w"))
        process = subprocess.Popen(
            [sys.executable, DASK, *words],
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _said(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if match := re.search(pattern, (self._folder / f"{name}.log").read_text()):
                return match[match.lastindex or 0]
            time.sleep(0.05)
        raise AssertionError(f"{name} does not say {pattern}")
