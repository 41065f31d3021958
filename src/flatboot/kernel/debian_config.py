"""Debian's own configs of a base, from the package that its kernel comes with."""

from __future__ import annotations

from pathlib import Path

from flatboot.common import atomic, paths, processes
from flatboot.common.errors import FlatbootError
from flatboot.kernel import fetch
from flatboot.kernel.bases import Base

_SCRIPT = 'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -x -O --wildcards "$2" | xz -d'


def file(base: Base, kind: str, architecture: str) -> Path:
    """Return the full .config of a kernel that Debian makes of *base*.

    Args:
        base: has a package of configs.
        kind: which kernel, as its package is called, such as "cloud-amd64".
        architecture: what Debian calls it, such as "amd64".

    Raises:
        UsageError: the base has no configs for the architecture.
        FlatbootError: the package cannot be fetched, or has no such config.
    """
    package = fetch.fetch_configs(base, architecture)
    final = paths.cache() / "configs" / package.sha256[:16] / kind
    if not final.is_file():
        name = f"./usr/src/linux-config-*/config.{architecture}_none_{kind}.xz"
        arguments: list[str | Path] = ["bash", package.file, name]
        try:
            text = processes.run(
                ["bash", "-c", _SCRIPT, *arguments], what=f"unpacking {package.file}"
            )
        except processes.CommandFailed as error:
            raise FlatbootError(f"{package.file} has no config {kind}: {error}") from error
        with atomic.new_file(final) as new:
            new.write_text(text)
    return final
