"""The files of a kernel that a boot reads, also on a machine that did not build it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path

from flatboot.common import arches, atomic, paths
from flatboot.common.errors import FlatbootError
from flatboot.guest import boot_spec
from flatboot.kernel.build import KernelImage
from flatboot.kernel.own_kernel import OwnKernel

#: A kernel that flatboot built, or the user's own.
AnyImage = KernelImage | OwnKernel


def files(image: AnyImage, arch: str) -> list[Path]:
    """Return the file that QEMU boots and, where there is one, the symbol table.

    Raises:
        FlatbootError: there is nothing to boot.
    """
    found = [boot_spec.boot_file(image, arches.load(arch)), image.system_map]
    return [path for path in found if path.is_file()]


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the SHA-256 of the names and contents of *files*."""
    total = hashlib.sha256()
    for name, content in files:
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def content(image: AnyImage, arch: str) -> dict[str, bytes]:
    """Return what is in the files that a boot reads, by name.

    Raises:
        FlatbootError: there is nothing to boot, or a file cannot be read.
    """
    try:
        return {path.name: path.read_bytes() for path in files(image, arch)}
    except OSError as error:
        raise FlatbootError(f"cannot read {error.filename}: {error.strerror}") from error


def find(image: AnyImage, arch: str, wanted: str) -> AnyImage | None:
    """Return *image* as this machine's cache has it, or None.

    Args:
        image: the image, wherever it lies on the machine that asks.
        arch: the architecture that it boots on.
        wanted: the digest of its files; a copy with other files is not taken.
    """
    folders = [_sent(wanted)]
    if isinstance(image, KernelImage):
        folders.append(paths.cache() / "kernels" / image.key[:32])
    for folder in folders:
        here = dataclasses.replace(image, directory=folder)
        try:
            if digest(content(here, arch).items()) == wanted:
                return here
        except FlatbootError:
            continue
    return None


def receive(sent: dict[str, bytes], wanted: str) -> None:
    """Keep files that another machine sent, where ``find`` sees them.

    Raises:
        FlatbootError: they are not the files with the digest *wanted*.
    """
    if digest(sent.items()) != wanted:
        raise FlatbootError("the kernel image arrived damaged: try again")
    for name, data in sent.items():
        with atomic.new_file(_sent(wanted) / Path(name).name) as new:
            new.write_bytes(data)


def _sent(wanted: str) -> Path:
    return paths.cache() / "sent" / wanted[:32]
