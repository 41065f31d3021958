"""Marks: the moments at which a running guest enters and leaves chosen kernel functions.

Which functions there are, and which phase of the boot each begins, is the table marks.toml.
``flatboot.guest.follow`` takes them from outside, by breakpoints.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import typed
from flatboot.common.arches import Arch

#: The table.
TABLE = Path(__file__).parent / "marks.toml"
# GCC's names for a function that it changed but that still begins where it is called.
_CLONE = re.compile(r"\.(isra|constprop)\.\d+$")


@dataclass(frozen=True)
class MarkSpec:
    """One line of the table; see the comment in marks.toml."""

    functions: tuple[str, ...]
    physical: bool = False
    begins: str | None = None
    during: str | None = None
    then: str | None = None
    calls: bool = False


@dataclass(frozen=True)
class Hit:
    """A function was entered or left.

    Attributes:
        at: when, as the reader of the clock gave it.
        spec: the line of the table.
        leaves: whether the function returned.
        callee: of a ``calls`` line, the function that its first argument points to; else "".
    """

    at: int
    spec: MarkSpec
    leaves: bool
    callee: str


def without_clone(name: str) -> str:
    """Return the name that a function has in the source."""
    return _CLONE.sub("", name)


class Symbols:
    """The addresses of a kernel's functions, from its System.map."""

    def __init__(self, text: str) -> None:
        """Read the lines of a System.map: address, type, name."""
        self._by_name: dict[str, int] = {}
        ordered: list[tuple[int, str]] = []
        for line in text.splitlines():
            words = line.split(maxsplit=2)
            if len(words) < 3:
                continue
            address, kind, name = words
            if kind in "TtWw" or name in ("_text", "_end"):
                self._by_name.setdefault(without_clone(name), int(address, 16))
                ordered.append((int(address, 16), name))
        ordered.sort()
        self._addresses = [address for address, _ in ordered]
        self._names = [name for _, name in ordered]

    def address(self, name: str) -> int | None:
        """Return where the function *name* begins; None if the kernel has no such function."""
        return self._by_name.get(name)

    def bounds(self, name: str) -> tuple[int, int] | None:
        """Return where the function *name* begins and the next one; None if there is no such."""
        address = self.address(name)
        if address is None:
            return None
        index = bisect.bisect_right(self._addresses, address)
        return address, self._addresses[min(index, len(self._addresses) - 1)]

    def name(self, address: int) -> str:
        """Return the function that *address* lies in; the number itself if it lies in none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        return self._names[index] if index >= 0 else hex(address)


@functools.cache
def table() -> tuple[MarkSpec, ...]:
    """Return the marks table."""
    return typed.load(TABLE, dict[str, tuple[MarkSpec, ...]])["marks"]


def places(specs: Sequence[MarkSpec], arch: Arch, symbols: Symbols) -> dict[int, MarkSpec]:
    """Return the address at which each mark's function begins; lines without one are left out."""
    found: dict[int, MarkSpec] = {}
    for spec in specs:
        addresses = (symbols.address(name) for name in spec.functions)
        address = next((a for a in addresses if a is not None), None)
        if address is not None and spec.physical:
            address = physical(address, arch, symbols)
        if address is not None:
            found[address] = spec
    return found


def physical(address: int, arch: Arch, symbols: Symbols) -> int | None:
    """Return where *address* lies before the kernel maps itself; None if that is unknown."""
    virtual = arch.physical.virtual
    base = symbols.address(virtual) if isinstance(virtual, str) else virtual
    return None if base is None else address - base + arch.physical.physical
