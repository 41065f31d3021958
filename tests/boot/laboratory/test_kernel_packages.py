"""A kernel as Debian packages in Debian 13: installed beside its own, upgraded, gone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from debian_root import Root, unpacked

from flatboot.kernel import bases, packages

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return unpacked(tmp_path / "root")


def newer(package: Path, folder: Path) -> Path:
    """Return *package* with the next Debian revision, in *folder*."""
    place = folder / "newer"
    subprocess.run(["dpkg-deb", "--raw-extract", package, place], check=True)
    control = place / "DEBIAN/control"
    text = control.read_text()
    assert text.count("-1\n") == 1
    control.write_text(text.replace("-1\n", "-2\n"))
    made = folder / package.name.replace("-1_", "-2_")
    subprocess.run(["dpkg-deb", "--build", place, made], check=True)
    return made


def test_a_kernel_comes_beside_debians_and_goes_without_a_trace(root: Root, tmp_path: Path) -> None:
    made = packages.deb(bases.default(), "flatboot", "debian-cloud")
    first = packages.image(made)
    name = first.name.partition("_")[0]
    version = name.removeprefix("linux-image-")
    before = root.files()
    for package in (first, newer(first, tmp_path)):
        place = root.folder / "root" / package.name
        place.write_bytes(package.read_bytes())
        root.run(f"apt-get install --yes /root/{package.name}")
        place.unlink()
        assert root.run(f"dpkg-query --show {name}").split()[1] in package.name
        new = {str(path) for path in root.files() - before}
        assert {f"boot/vmlinuz-{version}", f"boot/initrd.img-{version}"} <= new
        assert any(path.startswith(f"usr/lib/modules/{version}/kernel/") for path in new)
        listed = root.run(f"lsinitramfs /boot/initrd.img-{version}")
        assert "virtio_blk" in listed
    assert before <= root.files()
    root.run(f"apt-get purge --yes {name}")
    assert root.files() == before
