"""What a guest needs to boot another kernel by kexec, or to have one ready for its crash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from flatboot.common import arches, atomic, paths
from flatboot.guest import borrowed, initramfs

_KERNEL, _INITRD = "next/kernel", "next/initrd"
#: The system calls that load a kernel, and kexec's options for them.
CALLS = {"kexec_load": "-c", "kexec_file_load": "-s"}
#: The guest program that boots what ``load`` has loaded: it stops nothing before.
BOOT = "kexec -e -x"


def files(
    image: Path,
    programs: Sequence[str],
    clock: str,
    more: Mapping[str, Path] | None = None,
) -> dict[str, Path]:
    """Return files for an x86-64 guest: kexec, and a kernel with its initial RAM disk, for `load`.

    The disk lies in the cache, a file for each content.

    Args:
        image: the kernel's image.
        programs: what the next kernel's /init runs, such as "fill 4k 1".
        clock: "exact" or "wall", as the guest's.
        more: further files of the next kernel's RAM disk, by their paths in it.

    Raises:
        UsageError: a program is unknown.
        FlatbootError: kexec is missing, or the compiler, or it refuses a program.
    """
    content = initramfs.make(arches.load("x86_64"), programs, clock, more)
    initrd = paths.cache() / "guest" / f"initrd-{hashlib.sha256(content).hexdigest()[:32]}"
    if not initrd.is_file():
        with atomic.new_file(initrd) as new:
            new.write_bytes(content)
    return {**borrowed.files("kexec"), _KERNEL: image, _INITRD: initrd}


def load(cmdline: str, how: str = "-l", call: str = "kexec_file_load") -> str:
    """Return the guest program that loads what ``files`` brought.

    Args:
        cmdline: parameters of the next kernel.
        how: kexec's option: "-l" to boot it by ``BOOT``, "-p" to have it ready for a crash.
        call: of CALLS.
    """
    return f"kexec {how} {CALLS[call]} /{_KERNEL} --initrd=/{_INITRD} '--command-line={cmdline}'"
