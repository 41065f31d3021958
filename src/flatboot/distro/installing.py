"""A disk with a boot loader, which the guest installs on it as its user would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import processes, progress
from flatboot.distro import guest_console
from flatboot.distro.firmware import Firmware
from flatboot.kernel import parameters

_FILES = Path(__file__).parent / "files"
#: Where the programs that are ours lie in the root file system.
PROGRAMS = "usr/local/sbin"
_FIRST = f"{PROGRAMS}/first"
#: What the root file system has besides its files, and the disk besides the root file system.
_ROOM_MIB, _BESIDES_MIB = 500, 260
#: EFI's partition, the one for what of GRUB a BIOS starts, and the root file system's.
_PARTITIONS = """\
label: gpt
size=240M, type=uefi
size=1M, type=21686148-6449-6E6F-744E-656564454649
type=linux
"""
_SECTOR = 512
_LIMIT_S = 900
_QEMU = "qemu-system-x86_64 -accel tcg -m 1G -display none -no-reboot -nic none"
_CMDLINE = f"root=LABEL=root rw console=ttyS0 quiet panic=-1 init=/{_FIRST}"
_SYSTEMD_BOOT = {
    "etc/kernel/cmdline": "root=LABEL=root {cmdline}\n",
    "etc/kernel/entry-token": "debian\n",
}


@dataclass(frozen=True)
class Loader:
    """A boot loader.

    Attributes:
        what: what is to be known of it.
        script: the file that installs it; "" for QEMU, which loads the kernel itself.
        settings: the files that its user writes, with what in them.
        is_packaged: whether the boot parameters of a profile come by a package of ours.
    """

    what: str
    script: str
    settings: Mapping[str, str]
    is_packaged: bool = False


LOADERS = {
    "systemd-boot": Loader(
        "of UEFI alone, keeps the times of firmware and loader",
        "install-systemd-boot.sh",
        {**_SYSTEMD_BOOT, "etc/kernel/install.conf": "layout=bls\n"},
    ),
    "uki": Loader(
        "the same, with the kernel, its initramfs and its command line in one file",
        "install-systemd-boot.sh",
        {**_SYSTEMD_BOOT, "etc/kernel/install.conf": "layout=uki\nuki_generator=ukify\n"},
    ),
    "grub": Loader(
        "of UEFI and BIOS",
        "install-grub.sh",
        {"etc/default/grub": 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="{cmdline}"\n'},
        is_packaged=True,
    ),
    "none": Loader("of microvm, where QEMU loads the kernel", "", {}),
}
#: With this, what UEFI starts is signed with the user's own key.
_SIGNED = {
    "etc/kernel/uki.conf": (
        "[UKI]\nSecureBootPrivateKey=/etc/kernel/own.key\n"
        "SecureBootCertificate=/etc/kernel/own.crt\n"
    )
}


@dataclass(frozen=True)
class Disk:
    """A guest's disk.

    Attributes:
        image: the disk.
        variables: those of its firmware; None if that keeps none.
        words: what has QEMU load the kernel; nothing if a loader does.
    """

    image: Path
    variables: Path | None
    words: tuple[str, ...] = ()


def disk(
    folder: Path, root: Path, cmdline: str, profile: str, loader: Loader, firmware: Firmware
) -> Disk:
    """Return a disk, made in *folder*, of the files below *root*, which get the loader's settings.

    Args:
        folder: has room for the files below *root* once more and 1 GB.
        root: a root file system with a kernel and the packages of the loaders.
        cmdline: what the kernel's command line has besides where the root is.
        profile: whose boot parameters it has as well; "" for none.
        loader: what starts the kernel.
        firmware: what starts the loader. One that keeps variables gets the user's key.

    Raises:
        FlatbootError: a tool is missing or fails, or the loader could not be installed.
    """
    cmdline = f"{cmdline} {firmware.cmdline}".strip()
    if profile and loader.is_packaged:
        parameters.deb(profile, parameters.NOBODY, root)
    elif profile:
        cmdline = f"{cmdline} {parameters.profile(profile).line}"
    signed = _SIGNED if firmware.variables else {}
    for name, text in {**loader.settings, **signed}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.format(cmdline=cmdline))
    if loader.script:
        add_program(root, "first", _FILES / "first.sh")
        add_program(root, "install-loader", _FILES / loader.script)
    image = folder / "disk.img"
    used = processes.run(["du", "--summarize", "--block-size=MiB", root], what="du")
    root_mib = int(used.partition("M")[0]) * 11 // 10 + _ROOM_MIB
    with image.open("wb") as new:
        new.truncate(root_mib + _BESIDES_MIB << 20)
    processes.run(["sfdisk", "--quiet", image], what="sfdisk", stdin=_PARTITIONS)
    table = processes.run(["sfdisk", "--json", image], what="sfdisk")
    start = json.loads(table)["partitiontable"]["partitions"][-1]["start"]
    options = ["-q", "-t", "ext4", "-L", "root", "-E", f"offset={start * _SECTOR}"]
    processes.run(["mke2fs", *options, "-d", root, image, f"{root_mib}M"], what="mke2fs")
    if not loader.script:
        kernel, initrd = (Path(shutil.copy2(file, folder)) for file in _kernel(root))
        return Disk(image, None, _loads(kernel, initrd, f"root=LABEL=root {cmdline}"))
    _install(folder, root, image)
    if firmware.variables is None:
        return Disk(image, None)
    return Disk(image, _enrolled(folder, image, firmware, firmware.variables))


def add_program(root: Path, name: str, program: Path) -> None:
    """Put *program* below *root* as what is run by its *name*."""
    to = root / PROGRAMS / name
    shutil.copyfile(program, to)
    to.chmod(0o755)


def _install(folder: Path, root: Path, image: Path) -> None:
    """Have the guest install its loader on the disk *image*."""
    words = _loads(*_kernel(root), _CMDLINE)
    console = folder / "console"
    what = "the guest that installs its boot loader"
    with progress.step("the guest installs its boot loader"):
        _run(words, image, what, console)
    if "The boot loader is installed" not in console.read_text(errors="replace"):
        raise guest_console.failed(f"{what} failed", console)


def _kernel(root: Path) -> tuple[Path, Path]:
    """Return the kernel below *root*, and its initramfs."""
    boot = root / "boot"
    return next(boot.glob("vmlinuz-*")), next(boot.glob("initrd.img-*"))


def _loads(kernel: Path, initrd: Path, cmdline: str) -> tuple[str, ...]:
    """Return QEMU's words to load *kernel* itself."""
    return ("-kernel", str(kernel), "-initrd", str(initrd), "-append", cmdline)


def _enrolled(folder: Path, image: Path, firmware: Firmware, unset: Path) -> Path:
    """Have the loader give the firmware the user's key; return the variables with it.

    As *unset*, the firmware starts anything. The loader that finds it so resets the guest after
    it gave it the key.
    """
    variables = folder / "variables"
    shutil.copyfile(unset, variables)
    words = ["-M", firmware.qemu_machine, *firmware.words(variables, keeps=True)]
    with progress.step("the guest's firmware gets a key"):
        _run(words, image, "the guest whose firmware gets a key", folder / "console")
    return variables


def _run(words: Sequence[str], image: Path, what: str, console: Path) -> None:
    command = [*_QEMU.split(), "-cpu", "max", *words, "-serial", f"file:{console}"]
    command += ["-drive", f"file={image},format=raw,if=virtio,cache=unsafe"]
    guest_console.run(command, what, console, _LIMIT_S)
