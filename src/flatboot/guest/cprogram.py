"""The lab's C programs, for guests and for QEMU, compiled at most once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from flatboot.common import atomic, paths, processes


def compiled(
    place: str, compiler: str, flags: Sequence[str], source: Path, headers: Sequence[Path] = ()
) -> Path:
    """Return what *compiler* makes of *source* and the headers beside it, compiled at most once.

    Args:
        place: where in the cache, such as "guest/init-x86_64"; the hash of all that goes in is
            put behind it.
        compiler: its name.
        flags: all options but the output.
        source: the one C file.
        headers: what it includes besides.

    Raises:
        FlatbootError: the compiler is missing or refuses the program.
    """
    digest = hashlib.sha256(repr((processes.version(compiler), list(flags))).encode())
    for path in (source, *sorted(source.parent.glob("*.h")), *headers):
        digest.update(path.read_bytes())
    final = paths.cache() / f"{place}-{digest.hexdigest()[:16]}"
    if not final.exists():
        with atomic.new_file(final) as temporary:
            command = [compiler, *flags, "-o", str(temporary), str(source)]
            processes.run(command, what=f"compiling {source.name}")
        final.chmod(0o755)
    return final
