"""Where things lie: the checkout, its kernel part, and the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

from flatboot.common.errors import FlatbootError


def repo() -> Path:
    """Return the root of the checkout that this package runs from.

    The overlay, hooks and configs are part of the checkout, so the package runs from it (an
    editable install) and from nowhere else.

    Raises:
        FlatbootError: the package was copied away from its checkout.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / "kernel" / "bases.toml").is_file():
        raise FlatbootError(
            "this needs flatboot's checkout, with its kernels' patches and configs, which a wheel"
            " has not: clone it, and run ./flatboot there"
        )
    return root


def kernel_dir() -> Path:
    """Return the folder of what goes into a Linux tree: overlay, hooks, configs, bases."""
    return repo() / "kernel"


def cache() -> Path:
    """Return the user's cache folder for downloads, trees and kernels, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "flatboot"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
