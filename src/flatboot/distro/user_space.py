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
            packages = f"--include={','.join(PACKAGES)}"
            mirror = fetch.mirror(fetch.APT_DIR)
            with atomic.new_file(final) as new, progress.step(f"{SUITE} of {mirror}"):
                processes.run(
                    [
                        "mmdebstrap",
                        "--variant=minbase",
                        "--format=tar",
                        packages,
                        SUITE,
                        new,
                        mirror,
                    ],
                    what=f"making {SUITE} of {mirror}",
                )
    return final
