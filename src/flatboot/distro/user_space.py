"""Debian's user space, from the machine's own mirror into the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flatboot.common import atomic, locks, paths, processes, progress
from flatboot.kernel import fetch

SUITE = "trixie"
PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "kmod", "procps", "login", "util-linux"),
    *("initramfs-tools", "zstd", "linux-image-cloud-amd64", "systemd-boot-efi", "python3"),
)


def archive() -> Path:
    """Return Debian 13 with its kernel for virtual machines as a tar archive, made at most once.

    Raises:
        FlatbootError: there is no mirror, or what makes it fails.
    """
    digest = hashlib.sha256(" ".join((SUITE, *PACKAGES)).encode()).hexdigest()
    final = paths.cache() / "distro" / f"{SUITE}-{digest[:16]}.tar"
    with locks.exclusive(final.parent / f".{SUITE}.lock", f"Debian's {SUITE}"):
        if not final.is_file():
            mirror = fetch.mirror(fetch.APT_DIR)
            what = f"making {SUITE} of {mirror}"
            options = ("--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}")
            with atomic.new_file(final) as new, progress.step(what):
                processes.run(["mmdebstrap", *options, SUITE, new, mirror], what=what)
    return final
