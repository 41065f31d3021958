"""Debian packages of a kernel, made by the kernel's own package target, kept in the cache."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from flatboot.common import atomic, disk, paths
from flatboot.common.errors import FlatbootError
from flatboot.kernel import build, kconfig, make, tree

_LOCALVERSIONS = {"stock": "", "flatboot": "-flatboot"}
_TOOLS = ("dpkg-buildpackage", "dh", "rsync", "kmod", "cpio")
_MADE = ("*.deb", "*.changes", "*.buildinfo")


def deb(
    base: str,
    flavour: str,
    config: str,
    arch: str = "x86_64",
    *,
    cc: str = "gcc",
    named: Sequence[str] = (),
) -> Path:
    """Return a folder with a kernel and its modules as Debian packages, building them first.

    The flatboot flavour is called ``<version>-flatboot``, so that it installs beside others.
    Arguments and errors are those of `build.kernel`; errors also where a tool is missing.
    """
    with disk.full_is_an_error():
        wanted = build.request(base, flavour, config, arch, cc, named)
        final = _folder(wanted)
        if not final.is_dir():
            for tool in _TOOLS:
                if shutil.which(tool) is None:
                    raise FlatbootError(
                        f"{tool} is not there, which Debian packages need: install it"
                    )
            with tree.work_tree(wanted.source, wanted.tree_name, wanted.layer()) as where:
                if not final.is_dir():
                    _build(wanted, where, final)
        return final


def is_built(base: str, flavour: str, config: str, arch: str = "x86_64") -> bool:
    """Return whether the cache has the packages of this kernel."""
    return _folder(build.request(base, flavour, config, arch, "gcc")).is_dir()


def image(folder: Path) -> Path:
    """Return the package of the kernel itself, of those that `deb` made in *folder*."""
    return next(path for path in folder.glob("linux-image-*.deb") if "-dbg_" not in path.name)


def _folder(wanted: build.Request) -> Path:
    key = wanted.key(make.compiler_version(wanted.arch, wanted.cc))
    return paths.cache() / "packages" / key[:32]


def _build(wanted: build.Request, where: Path, final: Path) -> None:
    for old in _packages(where):
        old.unlink()
    maker = make.Make(where, where / f"{wanted.objects_name}-deb", wanted.arch, wanted.cc)
    kconfig.configure(maker, wanted.config)
    names = (
        f"LOCALVERSION={_LOCALVERSIONS[wanted.flavour]}",
        f"KDEB_PKGVERSION={wanted.source.version()}-1",
    )
    build.compile_kernel(maker, f"packages of {wanted.title}", "bindeb-pkg", *names)
    with atomic.new_dir(final) as new:
        for path in _packages(where):
            shutil.move(path, new / path.name)


def _packages(where: Path) -> list[Path]:
    return [path for pattern in _MADE for path in where.glob(pattern)]
