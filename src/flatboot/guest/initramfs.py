"""The initramfs of a measured guest: /init, the programs it runs, and what it is told to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from flatboot.common.arches import Arch
from flatboot.common.errors import UsageError
from flatboot.guest import cprogram

SOURCES = Path(__file__).parent / "programs"
_FLAGS = ("-static", "-O2", "-s", "-Wall", "-Wextra", "-Werror")
_ENTRY = "flatboot_start"

#: What /init prints before it runs anything, where the kernel has it.
DUMPED = (
    "/proc/version",
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/zoneinfo",
    "/proc/vmstat",
    "/proc/iomem",
    "/sys/devices/system/node/node*/meminfo",
    "/sys/kernel/mm/deferred_init/mode",
    "/sys/kernel/mm/deferred_init/remaining_kb",
)

_DIRECTORY, _REGULAR, _CHARACTER = 0o040755, 0o100000, 0o020600
_FILE = _REGULAR | 0o755


def names() -> list[str]:
    """Return the names of the guest programs besides init, sorted."""
    return sorted(path.stem for path in SOURCES.glob("*.c") if path.stem != "init")


def make(
    arch: Arch,
    programs: Sequence[str],
    clock: str,
    more: Mapping[str, Path] | None = None,
    dumped: Sequence[str] = DUMPED,
) -> bytes:
    """Return a newc archive with /init and *programs*; the same arguments give the same bytes.

    Args:
        arch: the architecture of the guest.
        programs: command lines of guest programs to run one after another, such as "fill 64M".
        clock: "exact" or "wall".
        more: further files by their paths in the guest, which keep their modes; those in bin/ may
            be run as *programs*.
        dumped: what /init prints.

    Raises:
        UsageError: a program is unknown.
        FlatbootError: the compiler is missing or refuses a program.
    """
    commands = [shlex.split(program) for program in programs]
    more = more or {}
    known = {*names(), *(Path(path).name for path in more if Path(path).parent == Path("bin"))}
    for command in commands:
        if not command or command[0] not in known:
            raise UsageError(
                f"unknown guest program {' '.join(command)!r}: there are {', '.join(sorted(known))}"
            )
    folders = {"bin", "dev", "etc", "proc", "sys", "tmp"}
    folders |= {str(parent) for path in more for parent in Path(path).parents} - {"."}
    files: dict[str, tuple[int, bytes]] = {name: (_DIRECTORY, b"") for name in folders}
    for path, source in more.items():
        files[path] = (_REGULAR | source.stat().st_mode & 0o777, source.read_bytes())
    files["dev/console"] = (_CHARACTER, b"")
    files["etc/clock"] = (_FILE, clock.encode())
    files["etc/dump"] = (_FILE, "".join(f"{path}\n" for path in dumped).encode())
    files["etc/run"] = (_FILE, "".join("\t".join(words) + "\n" for words in commands).encode())
    files["init"] = (_FILE, compiled("init", arch).read_bytes())
    for name in sorted({command[0] for command in commands} & set(names())):
        files[f"bin/{name}"] = (_FILE, compiled(name, arch).read_bytes())
    return archive(files)


def compiled(name: str, arch: Arch) -> Path:
    """Return the guest program *name* as a static executable, compiled at most once.

    Raises:
        FlatbootError: the compiler is missing or refuses the program.
    """
    compiler = f"{arch.cross_compile}gcc"
    flags = [*_FLAGS, *((f"-Wl,-e,{_ENTRY}",) if name == "init" else ())]
    return cprogram.compiled(f"guest/{name}-{arch.name}", compiler, flags, SOURCES / f"{name}.c")


def archive(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return a newc cpio archive of *files*, each a path with its mode and content.

    A character device is the console, 5:1. Times and owners are 0, so equal files give equal
    bytes. The format: Documentation/driver-api/early-userspace/buffer-format.rst in the kernel.
    """
    out = bytearray()
    entries = [*sorted(files.items()), ("TRAILER!!!", (0, b""))]
    for number, (name, (mode, content)) in enumerate(entries, start=1):
        device = (5, 1) if mode == _CHARACTER else (0, 0)
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        out += b"\0" * (-len(out) % 4)
        out += content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)
