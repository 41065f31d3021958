"""What all tests share: tests that boot kernels share the kernels and the boots."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from flatboot.kernel import build
from flatboot.kernel.build import KernelImage

BASE = "7.3"
#: A shell that starts the tests in the background has them ignore SIGINT, and their children too.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Kernels:
    """The kernels under test, each built once a session (or never, if the cache has it)."""

    def __init__(self) -> None:
        self._built: dict[tuple[str, str, str], KernelImage] = {}

    def __call__(self, flavour: str, config: str = "bench", arch: str = "x86_64") -> KernelImage:
        """Return the kernel of *flavour* and *config* for *arch*."""
        key = (flavour, config, arch)
        if key not in self._built:
            self._built[key] = build.kernel(BASE, flavour, config, arch)
        return self._built[key]


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    yield Kernels()
