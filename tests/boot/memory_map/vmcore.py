"""The memory of a crashed kernel as tests read it: an ELF core, its vmcoreinfo, its memory map."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

PAGE = 4096
_WORDS = PAGE // 8
_NOTE, _LOAD = 4, 1
#: A count of program headers that does not fit: the first section header has it.
_MANY = 0xFFFF
#: What x86-64 adds to an address of the kernel's own image, and its page tables.
_KERNEL = 0xFFFFFFFF80000000
_PRESENT, _LEAF = 1 << 0, 1 << 7
_ADDRESS = 0x000FFFFFFFFFF000
_SHIFTS = (39, 30, 21, 12)

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Segment:
    """Memory that is in the file: its physical address, its place there, its length in bytes."""

    physical: int
    offset: int
    length: int


class Core:
    """An ELF core of x86-64, such as /proc/vmcore or what ``makedumpfile -E`` writes.

    Attributes:
        info: vmcoreinfo, by key, such as "SIZE(page)".
        segments: the memory that is there, whole pages only.
    """

    def __init__(self, path: Path) -> None:
        """Open *path*; ValueError if it is no ELF core."""
        self._bytes: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        head = self._slice(0, 64)
        if head[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path} is no ELF file of 64 bits")
        headers, sections = struct.unpack_from("<QQ", head, 32)
        (count,) = struct.unpack_from("<H", head, 56)
        if count == _MANY:
            (count,) = struct.unpack_from("<I", self._slice(sections, 64), 44)
        self.info: dict[str, str] = {}
        self.segments: list[Segment] = []
        table = self._slice(headers, count * 56)
        for kind, _, offset, _, physical, length, _, _ in struct.iter_unpack("<IIQQQQQQ", table):
            if kind == _NOTE:
                self.info |= _vmcoreinfo(self._slice(offset, length))
            elif kind == _LOAD and length >= PAGE:
                cut = -physical % PAGE
                whole = (length - cut) // PAGE * PAGE
                self.segments.append(Segment(physical + cut, offset + cut, whole))

    def _slice(self, offset: int, length: int) -> bytes:
        return self._bytes[offset : offset + length].tobytes()

    def number(self, key: str) -> int:
        """Return a number, size, offset or symbol of vmcoreinfo."""
        base = 16 if key.startswith("SYMBOL") else 0
        return int(self.info[key], base)

    def present(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the pages that are there, sorted, each once."""
        parts = [
            np.arange(part.physical // PAGE, (part.physical + part.length) // PAGE)
            for part in self.segments
        ]
        return np.unique(np.concatenate(parts))

    def pages(self) -> Iterator[tuple[int, Words]]:
        """Yield the physical address of each piece of memory, and its pages as rows of words."""
        for part in self.segments:
            raw = self._bytes[part.offset : part.offset + part.length]
            yield part.physical, raw.view(np.uint64).reshape(-1, _WORDS)

    def read(self, physical: int, length: int) -> bytes:
        """Return memory of one segment; KeyError if it is not there."""
        for part in self.segments:
            at = physical - part.physical
            if at >= 0 and at + length <= part.length:
                return self._slice(part.offset + at, length)
        raise KeyError(f"no memory at {physical:#x}")

    def mapped(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield what the kernel maps in a range of its addresses: virtual, physical, length."""
        root = self.number("SYMBOL(swapper_pg_dir)") - _KERNEL + self.number("NUMBER(phys_base)")
        virtual = start
        while virtual < end:
            table = root
            for shift in _SHIFTS:
                index = virtual >> shift & 511
                (entry,) = struct.unpack("<Q", self.read(table + index * 8, 8))
                table = entry & _ADDRESS
                if not entry & _PRESENT or entry & _LEAF or shift == _SHIFTS[-1]:
                    break
            size = 1 << shift
            step = size - virtual % size
            if entry & _PRESENT:
                physical = (entry & _ADDRESS) // size * size + virtual % size
                yield virtual, physical, min(step, end - virtual)
            virtual += step

    def virtual(self, address: int, length: int) -> bytes:
        """Return memory by its address in the kernel; KeyError if some of it is not there."""
        pieces = self.mapped(address, address + length)
        memory = b"".join(self.read(physical, size) for _, physical, size in pieces)
        if len(memory) < length:
            raise KeyError(f"no memory at {address:#x}")
        return memory[:length]

    def word(self, address: int) -> int:
        """Return the 64-bit word at an address in the kernel."""
        return int.from_bytes(self.virtual(address, 8), "little")

    def memory_map(self) -> Iterator[tuple[int, int, int]]:
        """Yield pieces of the memory map: number of the first page, physical address, length."""
        size, base = self.number("SIZE(page)"), self.number("SYMBOL(vmemmap)")
        section = 1 << self.number("NUMBER(SECTION_SIZE_BITS)")
        most = max(part.physical + part.length for part in self.segments)
        end = base + -(-most // section) * section // PAGE * size
        for virtual, physical, length in self.mapped(base, end):
            yield (virtual - base) // size, physical, length


def _vmcoreinfo(notes: bytes) -> dict[str, str]:
    at = 0
    while at + 12 <= len(notes):
        name_length, length, _ = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_length].rstrip(b"\0")
        start = at + 12 + -(-name_length // 4) * 4
        if name == b"VMCOREINFO":
            lines = notes[start : start + length].rstrip(b"\0").decode().splitlines()
            return dict(line.split("=", 1) for line in lines if "=" in line)
        at = start + -(-length // 4) * 4
    return {}
