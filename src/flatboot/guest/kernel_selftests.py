"""The kernel's own tests (tools/testing/selftests), built from a base and run in guests.

They are programs of user space and scripts, which find out whether a kernel does what it should.
The guest program ``selftests`` runs them as Documentation/dev-tools/kselftest.rst describes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

from flatboot.common import arches, atomic, disk, locks, paths, progress
from flatboot.common.errors import FlatbootError
from flatboot.guest import borrowed, initramfs
from flatboot.kernel import make, sources, tree
from flatboot.kernel.sources import Source

#: The folders of tools/testing/selftests that are built, where the base has them.
COLLECTIONS = ("mm", "memory-hotplug", "cpu-hotplug", "damon", "liveupdate")
_ARCH = "x86_64"
#: Commands that their scripts need besides those of busybox.
_PROGRAMS = ("bash", "busybox", "dmesg", "gzip", "killall", "pgrep", "timeout")
_PYTHON_MODULES = ("argparse", "json", "os", "subprocess", "time")
#: Headers that their programs need, and the Debian packages that have them.
_HEADERS = {
    "liburing.h": "liburing-dev",
    "numa.h": "libnuma-dev",
    "sys/capability.h": "libcap-dev",
}
_HEADER_DIR = Path("/usr/include")
#: For 6.12.117, whose khugepaged.c lacks kselftest.h, which defines it likewise.
_DEFINED = "USERCFLAGS=-DKSFT_SKIP=4"
_ELF = b"\x7fELF"
_RESULT = re.compile(r"^((?:# ?)*)(ok|not ok) \d+\s+(?:- )?(.*?)\s*(?:# *(\w*) *(.*))?$")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_NOT_RUN = ("SKIP", "XFAIL", "TODO")


def installed(base: str) -> Path:
    """Return the folder with the tests of *base* and run_kselftest.sh, built at most once.

    Raises:
        UsageError: there is no such base.
        FlatbootError: the base cannot be fetched, a header is missing, or the build failed;
            nothing half-made is left.
    """
    for header, package in _HEADERS.items():
        if not (_HEADER_DIR / header).is_file():
            raise FlatbootError(
                f"{header} is not there, which the kernel's own tests need: install {package}"
            )
    source = sources.resolve(base)
    parts = [source.checksum, make.compiler_version(arches.load(_ARCH), "gcc"), COLLECTIONS]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    final = paths.cache() / "selftests" / key[:32]
    with disk.full_is_an_error(), locks.exclusive(final.with_suffix(".lock"), f"tests of {base}"):
        if not final.is_dir():
            _build(source, final)
    return final


def _build(source: Source, final: Path) -> None:
    """Build in a copy of the tree: the tests' makefiles write beside their sources."""
    with tempfile.TemporaryDirectory(prefix=".", dir=final.parent) as scratch:
        where = Path(scratch, "src")
        where.mkdir()
        tree.copy(source, where, "--link")
        maker = make.Make(where, Path(scratch, "objects"), arches.load(_ARCH), "gcc")
        log = final.with_suffix(".log")
        tests = "tools/testing/selftests"
        targets = [name for name in COLLECTIONS if (where / tests / name).is_dir()]
        what = f"building the kernel's own tests, {source.name}"
        with progress.step(what), atomic.new_dir(final) as new:
            maker.run("headers", what=what, log=log)
            maker.run(
                f"--directory={tests}",
                f"ARCH={_ARCH}",
                f"TARGETS={' '.join(targets)}",
                "FORCE_TARGETS=1",
                _DEFINED,
                f"KSFT_INSTALL_PATH={new}",
                "install",
                what=what,
                log=log,
            )


def files(folder: Path, dotconfig: Path) -> dict[str, Path]:
    """Return the files of a guest that runs the tests in *folder* by ``selftests``.

    Args:
        folder: what `installed` returned.
        dotconfig: the kernel's .config, which some of them look at.

    Raises:
        FlatbootError: a program that they need is missing.
    """
    tests = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        **borrowed.files(*_PROGRAMS),
        **borrowed.python(*_PYTHON_MODULES),
        **borrowed.libraries(*(path for path in tests if _is_program(path))),
        **{f"selftests/{path.relative_to(folder)}": path for path in tests},
        "bin/selftests": initramfs.SOURCES / "selftests.sh",
        "boot/config": dotconfig,
    }


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def results(printed: str) -> dict[str, str]:
    """Return the results in what the tests *printed*, by name: "ok", "not ok", "SKIP", ...

    A test's parts, whose lines have one "# " more and come before its own, have its name before
    theirs. What was skipped may have its reason for a name. Addresses in names are left out, and
    names that come again are counted.
    The format: Documentation/dev-tools/ktap.rst in the kernel.
    """
    found: list[tuple[int, str, str]] = []
    for line in printed.splitlines():
        if match := _RESULT.match(line):
            depth, name = match[1].count("#"), _ADDRESS.sub("0x", match[3] or match[5] or "")
            outcome = match[4] if match[4] in _NOT_RUN else match[2]
            first = len(found)
            while first and found[first - 1][0] > depth:
                first -= 1
            found[first:] = [(depth, f"{name} > {part}", how) for _, part, how in found[first:]]
            found.append((depth, name, outcome))
    named: dict[str, str] = {}
    times: Counter[str] = Counter()
    for _, name, outcome in found:
        times[name] += 1
        named[name if times[name] == 1 else f"{name} (again {times[name]})"] = outcome
    return named
