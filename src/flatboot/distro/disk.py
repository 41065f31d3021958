"""The disk of a guest: Debian with a kernel, what measures its boot, and a boot loader."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes, progress
from flatboot.common.errors import FlatbootError
from flatboot.distro import installing, user_space
from flatboot.distro.firmware import FIRMWARE
from flatboot.distro.installing import LOADERS, Disk
from flatboot.guest import cprogram, initramfs

_FILES = Path(__file__).parent / "files"
_MARK, _TOLD = f"{installing.PROGRAMS}/mark", f"{installing.PROGRAMS}/told"
_CMDLINE = f"rw console=ttyS0 quiet panic=-1 rdinit=/mark init=/{_MARK}"
_UNITS = "etc/systemd/system"
_ROOT = {
    "etc/hostname": "debian\n",
    f"{_UNITS}/told.service": f"[Service]\nExecStart=/{_TOLD}\n",
    f"{_UNITS}/serial-getty@ttyS0.service.d/mark.conf": (
        f"[Service]\nExecStart=\nExecStart=/{_MARK} /run/login /sbin/agetty - vt220\n"
    ),
}
#: The mode of a file that may be run.
_PROGRAM = 0o100755
_MARK_FLAGS = ("-static", "-O2", "-Wall", "-Wextra", "-Werror")
#: What analyze needs, for the suite's Python.
_PYTHON = (
    *("--quiet", "--only-binary=:all:", "--python-version=3.13"),
    *("--platform=manylinux2014_x86_64", "pydantic", "rich", "typer", "zstandard"),
)


@dataclass(frozen=True)
class System:
    """What is on a guest's disk.

    Attributes:
        kernel: the kernel's package; None for the kernel that Debian comes with.
        profile: whose boot parameters the kernel gets; "" for none.
        loader: of `installing.LOADERS`.
        firmware: what starts the loader, of `firmware.FIRMWARE`.
        initramfs: what makes that, of `user_space.INITRAMFS`.
        packages: further packages of Debian.
        program: what the guest runs at its end, as root; None for nothing.
    """

    kernel: Path | None = None
    profile: str = ""
    loader: str = "systemd-boot"
    firmware: str = "uefi"
    initramfs: str = "initramfs-tools"
    packages: tuple[str, ...] = ()
    program: Path | None = None


def check_host() -> None:
    """Check that disks can be made here.

    Raises:
        FlatbootError: this is not root, who alone can keep the owners of files, or no x86-64
            machine, whose programs the guest is installed with.
    """
    if os.geteuid() != 0:
        raise FlatbootError("a guest's disk keeps the owners of its files: run this as root")
    if platform.machine() != "x86_64":
        raise FlatbootError(
            f"guests are x86-64, this is {platform.machine()}: use an x86-64 machine"
        )


def make(folder: Path, system: System) -> Disk:
    """Make the disk of a guest in *folder*, which is empty and needs 2 GB.

    Raises:
        FlatbootError: there is no user space, a tool fails, or as `check_host`.
    """
    check_host()
    mark = cprogram.compiled("distro/mark", "gcc", _MARK_FLAGS, _FILES / "mark.c")
    archive = user_space.archive(system.kernel, system.initramfs, system.packages)
    root = folder / "root"
    with progress.step("making the guest's disk"):
        root.mkdir()
        unpack = ["tar", "--extract", f"--file={archive}", f"--directory={root}"]
        processes.run([*unpack, "--exclude=./dev/*"], what="tar")
        _fill(root, mark)
        if system.program:
            installing.add_program(root, "run", system.program)
    loader, starts = LOADERS[system.loader], FIRMWARE[system.firmware]
    made = installing.disk(folder, root, _CMDLINE, system.profile, loader, starts)
    shutil.rmtree(root)
    return made


@contextlib.contextmanager
def temporary(system: System) -> Iterator[Disk]:
    """Make the disk of a guest in the cache, and remove it in the end; as `make`."""
    with (
        processes.hang_up_terminates(),
        tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as folder,
    ):
        yield make(Path(folder), system)


def _fill(root: Path, mark: Path) -> None:
    """Put what measures into the root file system and the initramfs, and what tells of it."""
    for name, text in _ROOT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    initrd = next((root / "boot").glob("initrd.img-*"))
    first = initramfs.archive({"mark": (_PROGRAM, mark.read_bytes())})
    initrd.write_bytes(first + initrd.read_bytes())
    shadow = root / "etc/shadow"
    shadow.write_text(re.sub(r"^root:[^:]*:", "root::", shadow.read_text(), flags=re.MULTILINE))
    wants = root / _UNITS / "multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "told.service").symlink_to("../told.service")
    installing.add_program(root, "mark", mark)
    installing.add_program(root, "told", _FILES / "told.sh")
    lab = root / "opt/flatboot"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(paths.repo() / "src", lab / "src", ignore=ignored)
    pinned = f"--constraint={paths.repo() / 'requirements.lock'}"
    pip = [sys.executable, "-m", "pip", "install", f"--target={lab / 'lib'}", pinned]
    processes.run([*pip, *_PYTHON], what="installing analyze in the guest")
