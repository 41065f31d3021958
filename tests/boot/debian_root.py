"""Debian 13 in a folder, in which packages are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from flatboot.distro import user_space

# As chroot does, but with /proc and a root that is a mount, which rpm asks for.
_IN_ROOT = (
    'mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && shift && exec chroot . "$@"'
)
_ENVIRONMENT = ("DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin")


class Root:
    """Debian 13 in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, command: str) -> str:
        """Return what a shell command in it prints."""
        chroot = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "sh",
            "-c",
            _IN_ROOT,
            "sh",
            str(self.folder),
        ]
        ran = subprocess.run(
            [*chroot, "env", *_ENVIRONMENT, "sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def files(self) -> set[Path]:
        """Return what it holds where packages put files, the data of dpkg and rpm aside."""
        return {
            path.relative_to(self.folder)
            for part in ("usr", "etc", "boot", "var/lib/systemd")
            for path in (self.folder / part).rglob("*")
            if not path.is_dir() or path.is_symlink()
        }


def unpacked(folder: Path) -> Root:
    """Return Debian 13 in *folder*, which is made."""
    folder.mkdir()
    archive = user_space.archive(None, "initramfs-tools")
    command = ["tar", "--extract", f"--file={archive}", f"--directory={folder}"]
    subprocess.run([*command, "--exclude=./dev/*"], check=True)
    return Root(folder)
