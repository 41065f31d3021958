"""Debian packages of a kernel, made by the kernel's own package target."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from flatboot.common import disk
from flatboot.common.errors import FlatbootError
from flatboot.kernel import build, kconfig, make, tree

_LOCALVERSIONS = {"stock": "", "flatboot": "-flatboot"}
_TOOLS = ("dpkg-buildpackage", "dh", "rsync", "kmod", "cpio")


def deb(
    base: str,
    flavour: str,
    config: str,
    arch: str,
    output: Path,
    *,
    cc: str = "gcc",
    named: Sequence[str] = (),
) -> list[Path]:
    """Build a kernel with its modules as Debian packages and return them, in the folder *output*.

    The flatboot flavour is called ``<version>-flatboot``, so that it installs beside others.
    Arguments and errors are those of `build.kernel`.
    """
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            raise FlatbootError(f"{tool} is not there, which Debian packages need: install it")
    with disk.full_is_an_error():
        wanted = build.request(base, flavour, config, arch, cc, named)
        make.compiler_version(wanted.arch, cc)
        with tree.work_tree(wanted.source, wanted.tree_name, wanted.layer()) as where:
            for old in _packages(where):
                old.unlink()
            maker = make.Make(where, where / f"{wanted.objects_name}-deb", wanted.arch, cc)
            kconfig.configure(maker, wanted.config)
            names = (
                f"LOCALVERSION={_LOCALVERSIONS[flavour]}",
                f"KDEB_PKGVERSION={wanted.source.version()}-1",
            )
            build.compile_kernel(maker, f"packages of {wanted.title}", "bindeb-pkg", *names)
            output.mkdir(parents=True, exist_ok=True)
            made = sorted(_packages(where))
            return [Path(shutil.move(path, output / path.name)) for path in made]


def _packages(where: Path) -> list[Path]:
    return [
        path for pattern in ("*.deb", "*.changes", "*.buildinfo") for path in where.glob(pattern)
    ]
