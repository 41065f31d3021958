"""The agent's packages in Debian 13: installed, upgraded, gone, and nothing left of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from debian_root import Root, unpacked

from flatboot.common import paths

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
NAME = "deferred-memd"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return unpacked(tmp_path / "root")


def enabled(root: Root) -> str:
    """Return whether the agent's unit is enabled."""
    return root.run(f"systemctl is-enabled {NAME} || :").strip()


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
    assert enabled(root) == "enabled"
    assert f"usr/sbin/{NAME}" in root.run(installed)
    root.run(f"systemctl disable {NAME}; dpkg --install /root/8.2/*.deb")
    assert root.run(f"{NAME} --version").strip() == f"{NAME} 8.2"
    assert enabled(root) == "disabled"
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
    assert enabled(root) == "enabled"
    root.run(f"systemctl disable {NAME}; rpm --upgrade --nodeps /root/8.2/*/*.rpm")
    assert root.run(f"{NAME} --version").strip() == f"{NAME} 8.2"
    assert enabled(root) == "disabled"
    root.run(f"systemctl enable {NAME}; rpm --erase {NAME}")
    assert root.files() == before
