"""A disk with GRUB, which the guest installs on it as its user would, for UEFI and for BIOS."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from flatboot.common import processes, progress
from flatboot.distro import guest_console
from flatboot.kernel import parameters

_SCRIPT = Path(__file__).parent / "files/install-grub.sh"
_INSTALLER = "usr/local/sbin/install-grub"
_MAINTAINER = "flatboot <root@localhost>"
_DISK_MIB, _ROOT_MIB = 1400, 1340
#: EFI's partition, the one for what of GRUB a BIOS starts, and the root file system's.
_PARTITIONS = """\
label: gpt
size=48M, type=uefi
size=1M, type=21686148-6449-6E6F-744E-656564454649
type=linux
"""
_SETTINGS = 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="{cmdline}"\n'
_SECTOR = 512
_LIMIT_S = 900
_QEMU = (
    "qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1G"
    " -display none -no-reboot -nic none"
)
_CMDLINE = f"root=LABEL=root rw console=ttyS0 quiet panic=-1 init=/{_INSTALLER}"


def disk(folder: Path, root: Path, cmdline: str, profile: str) -> Path:
    """Return a disk, made in *folder*, of the files below *root*, which get GRUB's settings.

    Args:
        folder: has room for 2 GB.
        root: a root file system with a kernel and GRUB's packages.
        cmdline: what the kernel's command line has besides where the root is.
        profile: whose boot parameters the package installs that makes GRUB add them; "" for none.

    Raises:
        FlatbootError: a tool is missing or fails, or GRUB could not be installed.
    """
    settings = root / "etc/default/grub"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(_SETTINGS.format(cmdline=cmdline))
    shutil.copy2(_SCRIPT, root / _INSTALLER)
    (root / _INSTALLER).chmod(0o755)
    if profile:
        parameters.deb(profile, _MAINTAINER, root)
    image = folder / "disk.img"
    with image.open("wb") as new:
        new.truncate(_DISK_MIB << 20)
    processes.run(["sfdisk", "--quiet", image], what="sfdisk", stdin=_PARTITIONS)
    table = processes.run(["sfdisk", "--json", image], what="sfdisk")
    start = json.loads(table)["partitiontable"]["partitions"][-1]["start"]
    options = ["-q", "-t", "ext4", "-L", "root", "-E", f"offset={start * _SECTOR}"]
    size = f"{_ROOT_MIB}M"
    processes.run(["mke2fs", *options, "-d", root, image, size], what="mke2fs")
    _install(folder, root, image)
    return image


def _install(folder: Path, root: Path, image: Path) -> None:
    console = folder / "console"
    command = [*_QEMU.split(), "-append", _CMDLINE, "-serial", f"file:{console}"]
    command += ["-kernel", str(next((root / "boot").glob("vmlinuz-*")))]
    command += ["-initrd", str(next((root / "boot").glob("initrd.img-*")))]
    command += ["-drive", f"file={image},format=raw,if=virtio,cache=unsafe"]
    what = "the guest that installs GRUB"
    with progress.step("installing GRUB in the guest"):
        guest_console.run(command, what, console, _LIMIT_S)
    if "GRUB is installed" not in console.read_text(errors="replace"):
        raise guest_console.failed(f"{what} failed", console)
