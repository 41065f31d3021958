"""What kernels are compiled for where they need not boot: kernel/targets.toml."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from flatboot.common import arches, paths, typed


@dataclass(frozen=True)
class CompileTarget:
    """An architecture, as a cross compiler sees it.

    Attributes:
        kernel_arch: the value of make's ARCH.
        cross_prefix: the prefix of the cross compiler.
        native_hosts: the machines that need none.
        defconfig: the target of make that makes the config which a distribution begins with.
        forced: lines that each config gets.
        name: its name.
    """

    kernel_arch: str
    cross_prefix: str
    native_hosts: tuple[str, ...]
    defconfig: str
    forced: tuple[str, ...]
    name: str = ""

    @property
    def cross_compile(self) -> str:
        """The value of make's CROSS_COMPILE on this host; empty where none is needed."""
        return arches.cross_compile(self.cross_prefix, self.native_hosts)


def every() -> tuple[CompileTarget, ...]:
    """Return all targets, in the order of their table."""
    table = typed.load(paths.kernel_dir() / "targets.toml", dict[str, CompileTarget])
    return tuple(dataclasses.replace(target, name=name) for name, target in table.items())
