"""Programs of this machine, borrowed for guests, with the shared libraries that they need."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
from pathlib import Path

from flatboot.common import processes
from flatboot.common.errors import FlatbootError

#: The Debian packages of the programs that guests borrow.
PACKAGES = {
    "bash": "bash",
    "busybox": "busybox-static",
    "dmesg": "util-linux",
    "gzip": "gzip",
    "hugeadm": "libhugetlbfs-bin",
    "hugectl": "libhugetlbfs-bin",
    "kexec": "kexec-tools",
    "killall": "psmisc",
    "makedumpfile": "makedumpfile",
    "pgrep": "procps",
    "stress-ng": "stress-ng",
    "timeout": "coreutils",
}
_MACHINE = "x86_64"
_LIBRARY = re.compile(r"^\t(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LOST = re.compile(r"^\t(\S+) => not found$", re.MULTILINE)
#: The C library opens this one by itself, beside it, to end a thread.
_C_LIBRARY, _UNWINDER = "libc.so.6", "libgcc_s.so.1"
_MISSING = re.compile(r"^ldd: .*: No such file or directory$", re.MULTILINE)
_STATIC = re.compile(r"not a dynamic executable|statically linked")
#: Prints the files of all modules that an interpreter has when it has imported some.
_IMPORTED = """
import sys
for name in sys.argv[1:]:
    __import__(name)
for file in {getattr(module, "__file__", None) for module in sys.modules.values()} - {None}:
    print(file)
"""


def files(*programs: str) -> dict[str, Path]:
    """Return what a guest needs to run *programs* of this machine: its paths, and the files here.

    Each program is at ``bin/NAME``, its shared libraries and the loader where it looks for them.
    They are for x86-64 guests.

    Args:
        programs: names of commands, such as "stress-ng".

    Raises:
        FlatbootError: a program or a library is missing, or this machine is not x86-64.
    """
    if platform.machine() != _MACHINE:
        raise FlatbootError(
            f"guests borrow programs of x86-64 machines, and this one is {platform.machine()}: use"
            " an x86-64 machine"
        )
    found = {f"bin/{program}": _program(program) for program in programs}
    return found | libraries(*found.values())


def python(*modules: str) -> dict[str, Path]:
    """Return what a guest needs to run ``python3`` with *modules*; otherwise as ``files``."""
    program = Path(sys.executable).resolve()
    said = processes.run(
        [program, "-I", "-c", _IMPORTED, *modules], what=f"importing {', '.join(modules)}"
    )
    imported = [Path(line) for line in said.splitlines()]
    binaries = [path for path in imported if path.suffix == ".so"]
    found = {str(path).lstrip("/"): path for path in imported}
    return found | {"bin/python3": program} | libraries(program, *binaries)


def libraries(*programs: Path) -> dict[str, Path]:
    """Return the loader and the shared libraries that *programs* need, by their guest paths.

    Raises:
        FlatbootError: a program or a library is missing.
    """
    try:
        said = processes.run(["ldd", *programs], what=f"ldd {shlex.join(map(str, programs))}")
    except processes.CommandFailed as error:
        if not _STATIC.search(error.output) or _MISSING.search(error.output):
            raise
        said = error.output
    if lost := _LOST.findall(said):
        raise FlatbootError(
            f"{', '.join(map(str, programs))} needs {', '.join(lost)}, which is not here: install"
            " it"
        )
    found = {Path(path) for path in _LIBRARY.findall(said)}
    found |= {path.with_name(_UNWINDER) for path in found if path.name == _C_LIBRARY}
    return {str(path).lstrip("/"): path for path in found}


def _program(name: str) -> Path:
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *processes.SBIN])
    path = shutil.which(name, path=folders)
    if path is None:
        package = PACKAGES.get(name, f"package that has {name}")
        raise FlatbootError(f"{name} is not there: install {package} to run it in a guest")
    return Path(path)
