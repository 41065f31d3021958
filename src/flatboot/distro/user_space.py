"""Debian's user space with a kernel, from the machine's own mirror into the cache."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from flatboot.common import atomic, locks, paths, processes, progress
from flatboot.kernel import fetch

SUITE = "trixie"
PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "kmod", "procps", "login", "util-linux", "kexec-tools"),
    *("zstd", "python3", "dosfstools"),
    *("systemd-boot-efi", "systemd-boot-tools", "systemd-ukify", "sbsigntool", "openssl"),
    *("grub2-common", "grub-efi-amd64-bin", "grub-pc-bin"),
)
#: What makes the initramfs, and what else mmdebstrap is asked for: dracut would take the drivers
#: that this machine needs.
INITRAMFS = {
    "initramfs-tools": (),
    "dracut": (
        '--essential-hook=mkdir -p "$1/etc/dracut.conf.d"',
        '--essential-hook=echo hostonly=no >"$1/etc/dracut.conf.d/every-machine.conf"',
    ),
}
#: Debian's own kernel for virtual machines.
_DEBIANS = "linux-image-cloud-amd64"


def archive(kernel: Path | None, initramfs: str, more: tuple[str, ...] = ()) -> Path:
    """Return Debian 13 with a kernel as a tar archive, made at most once.

    Args:
        kernel: the kernel's package, which apt installs; None for that of Debian.
        initramfs: what makes its initramfs, of `INITRAMFS`.
        more: further packages of Debian.

    Raises:
        FlatbootError: there is no mirror, or what makes it fails.
    """
    name = kernel.name.partition("_")[0] if kernel else _DEBIANS
    packages, hooks = [*PACKAGES, initramfs, *more], list(INITRAMFS[initramfs])
    if kernel:
        hooks += _installs(kernel)
    else:
        packages.append(_DEBIANS)
    parts = (SUITE, *packages, *hooks, fetch.sha256(kernel) if kernel else "")
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    chosen = hashlib.sha256(" ".join(more).encode()).hexdigest()[:8]
    title = "-".join((SUITE, name, initramfs, chosen))
    final = paths.cache() / "distro" / f"{title}_{digest[:16]}.tar"
    with locks.exclusive(final.parent / f".{SUITE}.lock", f"Debian's {SUITE}"):
        if not final.is_file():
            mirror = fetch.mirror(fetch.APT_DIR)
            what = f"making {SUITE} of {mirror} with {name}"
            include = f"--include={','.join(packages)}"
            options = ("--variant=minbase", "--format=tar", include, *hooks)
            outdated = list(final.parent.glob(f"{title}_*.tar"))
            with atomic.new_file(final) as new, progress.step(what):
                processes.run(["mmdebstrap", *options, SUITE, new, mirror], what=what)
            for file in outdated:
                file.unlink()
    return final


def _installs(kernel: Path) -> tuple[str, ...]:
    """Return what has mmdebstrap install the package of a *kernel*.

    That is in the end, as its user does: the package depends on nothing, so before that there may
    be nothing yet which makes its initramfs.
    """
    return (
        f'--customize-hook=cp {shlex.quote(str(kernel))} "$1/kernel.deb"',
        '--customize-hook=chroot "$1" apt-get install --yes /kernel.deb',
        '--customize-hook=rm "$1/kernel.deb"',
    )
