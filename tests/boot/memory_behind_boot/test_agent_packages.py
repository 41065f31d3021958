"""The agent's packages in Debian 13: installed, upgraded, gone, and nothing left of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flatboot.common import paths
from flatboot.distro import user_space

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
# As chroot does, but with /proc and a root that is a mount, which rpm asks for.
_IN_ROOT = (
    'mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && shift && exec chroot . "$@"'
)
_ENVIRONMENT = ("DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin")
NAME = "deferred-memd"


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

    def enabled(self) -> str:
        """Return whether the agent's unit is enabled."""
        return self.run(f"systemctl is-enabled {NAME} || :").strip()

    def files(self) -> set[Path]:
        """Return what it holds where packages put files, the data of dpkg and rpm aside."""
        return {
            path.relative_to(self.folder)
            for part in ("usr", "etc", "boot", "var/lib/systemd")
            for path in (self.folder / part).rglob("*")
            if not path.is_dir() or path.is_symlink()
        }


@pytest.fixture
def root(tmp_path: Path) -> Root:
    folder = tmp_path / "root"
    folder.mkdir()
    archive = user_space.archive()
    command = ["tar", "--extract", f"--file={archive}", f"--directory={folder}"]
    subprocess.run([*command, "--exclude=./dev/*"], check=True)
    return Root(folder)


def sources(root: Root, version: str) -> Path:
    """Put the agent's folder, as of *version*, into the root; return its place here."""
    place = root.folder / "root" / version
    shutil.copytree(paths.repo() / "agent", place, ignore=shutil.ignore_patterns(NAME, "*.deb"))
    program = place / f"{NAME}.c"
    text = program.read_text()
    now = f'#define VERSION "{NAME} '
    assert text.count(now) == 1
    start = text.index(now) + len(now)
    program.write_text(text[:start] + version + text[text.index('"', start) :])
    return place


def test_debian_package(root: Root) -> None:
    for version in ("8.1", "8.2"):
        place = sources(root, version)
        make = ["make", "-C", str(place), "deb", "MAINTAINER=A <a@example.org>"]
        subprocess.run(make, check=True, capture_output=True)
    before = root.files()
    installed = "lsinitramfs /boot/initrd.img-*"
    root.run("dpkg --install /root/8.1/*.deb")
    assert root.enabled() == "enabled"
    assert f"usr/sbin/{NAME}" in root.run(installed)
    root.run(f"systemctl disable {NAME}; dpkg --install /root/8.2/*.deb")
    assert root.run(f"{NAME} --version").strip() == f"{NAME} 8.2"
    assert root.enabled() == "disabled"
    root.run(f"dpkg --remove {NAME}")
    assert NAME not in root.run(installed)
    root.run(f"dpkg --purge {NAME}")
    assert root.files() == before


def test_rpm_package(root: Root) -> None:
    """Its scripts run in Debian as anywhere; of other packages it needs none but a shell."""
    packages = "rpm gcc make libc6-dev"
    root.run(f"apt-get update && apt-get install --yes --no-install-recommends {packages}")
    for version in ("8.1", "8.2"):
        sources(root, version)
        root.run(f"make -C /root/{version} rpm RPMFLAGS=--nodeps")
    before = root.files()
    root.run("rpm --install --nodeps /root/8.1/*/*.rpm")
    assert root.enabled() == "enabled"
    root.run(f"systemctl disable {NAME}; rpm --upgrade --nodeps /root/8.2/*/*.rpm")
    assert root.run(f"{NAME} --version").strip() == f"{NAME} 8.2"
    assert root.enabled() == "disabled"
    root.run(f"systemctl enable {NAME}; rpm --erase {NAME}")
    assert root.files() == before
