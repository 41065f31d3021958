"""The disks of a guest: its root file system, and a boot loader with kernel and initramfs."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes, progress
from flatboot.common.errors import FlatbootError
from flatboot.distro import grub, user_space
from flatboot.guest import cprogram, initramfs
from flatboot.kernel import parameters

_FILES = Path(__file__).parent / "files"
_MARK, _TOLD = "usr/local/sbin/mark", "usr/local/sbin/told"
#: Boot loaders, and what is to be known of each.
LOADERS = {
    "systemd-boot": "of UEFI alone, keeps the times of firmware and loader",
    "grub": "of UEFI and BIOS, installed by the guest itself",
}
_CMDLINE = f"rw console=ttyS0 quiet panic=-1 rdinit=/mark init=/{_MARK}"
_UNITS = "etc/systemd/system"
_ROOT = {
    "etc/hostname": "debian\n",
    f"{_UNITS}/told.service": f"[Service]\nExecStart=/{_TOLD}\n",
    f"{_UNITS}/serial-getty@ttyS0.service.d/mark.conf": (
        f"[Service]\nExecStart=\nExecStart=/{_MARK} /run/login /sbin/agetty - vt220\n"
    ),
}
_LOADER = {
    "loader/loader.conf": "timeout 0\ndefault debian.conf\n",
    "loader/entries/debian.conf": (
        "title Debian\nlinux /vmlinuz\ninitrd /initrd.img\noptions root=LABEL=root {cmdline}\n"
    ),
}
_SIZE = "1G"
#: The mode of a file that may be run.
_PROGRAM = 0o100755
_MARK_FLAGS = ("-static", "-O2", "-Wall", "-Wextra", "-Werror")
#: What analyze needs, for the suite's Python.
_PYTHON = (
    *("--quiet", "--only-binary=:all:", "--python-version=3.13"),
    *("--platform=manylinux2014_x86_64", "pydantic", "rich", "typer", "zstandard"),
)


@dataclass(frozen=True)
class Disks:
    """The disks of a guest, in their order: what QEMU calls the file of each."""

    files: tuple[str, ...]


def make(folder: Path, kernel: Path | None, profile: str, loader: str) -> Disks:
    """Make the disks of a guest in *folder*, which needs 2 GB.

    Args:
        folder: a new or empty folder.
        kernel: the kernel's package; None for the kernel that Debian comes with.
        profile: whose boot parameters the kernel gets; "" for none.
        loader: of `LOADERS`.

    Raises:
        FlatbootError: there is no user space, a tool fails, or this is not root, who alone can
            keep the owners of files.
    """
    if os.geteuid() != 0:
        raise FlatbootError("a guest's disks keep the owners of its files: run this as root")
    mark = cprogram.compiled("distro/mark", "gcc", _MARK_FLAGS, _FILES / "mark.c")
    archive = user_space.archive(kernel)
    root = folder / "root"
    with progress.step("making the guest's disks"):
        root.mkdir()
        _run("tar", "--extract", f"--file={archive}", f"--directory={root}", "--exclude=./dev/*")
        _fill(root, mark)
        files: tuple[str, ...]
        if loader == "grub":
            files = (str(grub.disk(folder, root, _CMDLINE, profile)),)
        else:
            line = parameters.profile(profile).line if profile else ""
            _fill_loader(folder / "loader", root, f"{_CMDLINE} {line}")
            image = folder / "root.img"
            _run("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, image, _SIZE)
            files = (f"fat:{folder / 'loader'}", str(image))
        shutil.rmtree(root)
    return Disks(files)


def _fill(root: Path, mark: Path) -> None:
    """Put what measures into the root file system and the initramfs, and what tells of it."""
    _write(root, _ROOT)
    initrd = next((root / "boot").glob("initrd.img-*"))
    first = initramfs.archive({"mark": (_PROGRAM, mark.read_bytes())})
    initrd.write_bytes(first + initrd.read_bytes())
    shadow = root / "etc/shadow"
    shadow.write_text(re.sub(r"^root:[^:]*:", "root::", shadow.read_text(), flags=re.MULTILINE))
    wants = root / _UNITS / "multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "told.service").symlink_to("../told.service")
    shutil.copy2(mark, root / _MARK)
    shutil.copy2(_FILES / "told.sh", root / _TOLD)
    (root / _TOLD).chmod(0o755)
    lab = root / "opt/flatboot"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(paths.repo() / "src", lab / "src", ignore=ignored)
    pinned = f"--constraint={paths.repo() / 'requirements.lock'}"
    pip = [sys.executable, "-m", "pip", "install", f"--target={lab / 'lib'}", pinned]
    processes.run([*pip, *_PYTHON], what="installing analyze in the guest")


def _fill_loader(loader: Path, root: Path, cmdline: str) -> None:
    """Put systemd-boot, and the kernel and initramfs of *root*, on the loader's disk."""
    _write(loader, {name: text.format(cmdline=cmdline) for name, text in _LOADER.items()})
    (loader / "EFI/BOOT").mkdir(parents=True)
    program = root / "usr/lib/systemd/boot/efi/systemd-bootx64.efi"
    shutil.copy2(program, loader / "EFI/BOOT/BOOTX64.EFI")
    shutil.copy2(next((root / "boot").glob("vmlinuz-*")), loader / "vmlinuz")
    shutil.copy2(next((root / "boot").glob("initrd.img-*")), loader / "initrd.img")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _run(tool: str, *arguments: str | Path) -> None:
    processes.run([tool, *arguments], what=tool)
