"""Guests with the kernel of Debian's config and the profile of virtual machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distro_guest import PROFILE, Guest

from flatboot.distro import disk, distro_kernel
from flatboot.distro.disk import System
from flatboot.distro.installing import Disk
from flatboot.kernel import bases


@pytest.fixture(scope="session")
def package() -> Path:
    """The package of the kernel that is tried."""
    made = distro_kernel.kernel("flatboot", bases.default(), PROFILE).package()
    assert made is not None
    return made


@pytest.fixture(scope="session")
def made(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return disk.make(tmp_path_factory.mktemp("disk"), System(package, PROFILE))


@pytest.fixture
def start(made: Disk) -> Iterator[Callable[..., Guest]]:
    """Return what starts a guest with so much memory, so many CPUs, and further words for QEMU."""
    started: list[Guest] = []

    def starts(memory: str, cpus: int, *words: str, other: Disk | None = None) -> Guest:
        guest = Guest(other or made, memory, cpus, *words)
        started.append(guest)
        return guest

    yield starts
    for guest in started:
        guest.close()
