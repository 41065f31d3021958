"""The kernel's own make, with every setting that the result depends on fixed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flatboot.common import processes
from flatboot.common.errors import FlatbootError

_FIXED = {
    # ccache goes by what each file was made of the last time, and need not preprocess it.
    "CCACHE_DEPEND": "1",
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "flatboot",
    "KBUILD_BUILD_HOST": "localhost",
    "KBUILD_BUILD_VERSION": "1",
}
#: Variables of this process that make does not get.
INHERITED = (
    "ARCH",
    "CROSS_COMPILE",
    "CC",
    "LLVM",
    "O",
    "KBUILD_OUTPUT",
    "KCONFIG_CONFIG",
    "LOCALVERSION",
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "KCFLAGS",
    "KCPPFLAGS",
    "KAFLAGS",
    "KRUSTFLAGS",
    "HOSTCC",
    "HOSTCFLAGS",
    "HOSTLDFLAGS",
    "GNUMAKEFLAGS",
    "LLVM_IAS",
    "CPATH",
    "C_INCLUDE_PATH",
    "W",
    "C",
    "V",
)


class Target(Protocol):
    """What make compiles for."""

    @property
    def kernel_arch(self) -> str:
        """The value of make's ARCH."""

    @property
    def cross_compile(self) -> str:
        """The value of make's CROSS_COMPILE on this host; empty where none is needed."""


def compiler(arch: Target, cc: str) -> str:
    """Return the command of compiler *cc* for *arch*: gcc gets the cross prefix, clang does not."""
    return cc if "clang" in cc or "/" in cc else arch.cross_compile + cc


def compiler_version(arch: Target, cc: str) -> str:
    """Return the first line of what the compiler says of its version.

    Raises:
        FlatbootError: there is no such compiler.
    """
    command = compiler(arch, cc)
    if shutil.which(command) is None:
        raise FlatbootError(f"the compiler {command} is not there: install it, or choose with --cc")
    return processes.version(command)


@dataclass(frozen=True)
class Make:
    """make for one tree, object folder, architecture and compiler."""

    tree: Path
    objects: Path
    arch: Target
    cc: str

    def run(
        self,
        *words: str,
        what: str,
        log: Path,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
        """Run make with *words* (targets and variables); return what it says, also kept in *log*.

        Raises:
            processes.CommandFailed: make's status is not 0.
        """
        self.objects.mkdir(parents=True, exist_ok=True)
        cc = compiler(self.arch, self.cc)
        if shutil.which("ccache"):
            cc = f"ccache {cc}"
        return processes.run(
            [
                "make",
                f"-j{len(os.sched_getaffinity(0))}",
                f"O={self.objects}",
                f"ARCH={self.arch.kernel_arch}",
                f"CROSS_COMPILE={self.arch.cross_compile}",
                f"CC={cc}",
                *words,
            ],
            what=what,
            cwd=self.tree,
            env=_FIXED,
            without=INHERITED,
            log=log,
            on_line=on_line,
        )
