"""The few fields of an ELF header that the lab needs."""

from __future__ import annotations

import struct
from pathlib import Path

_ENTRY_OFFSET = 24


def entry_point(path: Path) -> int:
    """Return the address at which the 64-bit little-endian program *path* begins."""
    with path.open("rb") as file:
        (entry,) = struct.unpack_from("<Q", file.read(64), _ENTRY_OFFSET)
    return int(entry)
