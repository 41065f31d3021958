"""Somebody's own kernel, as ``flatboot boot --kernel`` names it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import arches
from flatboot.common.errors import UsageError


@dataclass(frozen=True)
class OwnKernel:
    """A kernel that flatboot did not build; see flatboot.build.KernelImage for the fields.

    Its version is empty: the running guest tells it.
    """

    directory: Path
    base: str
    config_hash: str
    version: str = ""
    flavour: str = "own"
    config: str = "own"
    compiler: str = ""

    @property
    def system_map(self) -> Path:
        """The symbol table, System.map."""
        return self.directory / "System.map"


def _booted() -> list[str]:
    """Return the names of the files that QEMU boots, of all architectures."""
    return sorted({Path(arches.load(name).boot_file).name for name in arches.names()})


def find(path: Path) -> OwnKernel:
    """Return the kernel at *path*: a build folder, or the bootable file in one.

    Raises:
        UsageError: there is nothing at *path*, or a file that is not booted from a build folder.
    """
    if not path.exists():
        raise UsageError(f"there is no kernel at {path}: name a build folder or its vmlinux")
    if path.is_file() and path.name not in _booted():
        raise UsageError(
            f"{path} is not booted by that name: name a build folder, or in it"
            f" {' or '.join(_booted())}"
        )
    directory = (path if path.is_dir() else path.parent).resolve()
    dotconfig = directory / ".config"
    options = dotconfig.read_bytes() if dotconfig.is_file() else b""
    return OwnKernel(directory, str(path), hashlib.sha256(options).hexdigest() if options else "")
