"""Debian's own configs: fetched once, and what comes on top of them; no network."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path

import pytest
from fakes import write

from flatboot.common import arches
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import fetch, groups, kconfig
from flatboot.kernel.make import Make

CONFIGS = '\n[debian-cloud]\ndebian = ["cloud-{arch}"]\nfragments = ["x86_64.config"]\n'

# An apt that has one version of one package, and keeps what it was asked in.
APT = """#!/bin/sh
echo "$@" >> ASKED
for word in "$@"; do case $word in -o*) ;; *) break ;; esac; shift; done
case $1 in
madison) echo " linux-config-7.3 | 7.3.4-1 | mirror" ;;
show) echo "Size: 11" ;;
download) cp PACKAGE linux-config-7.3.deb ;;
esac
"""


@pytest.fixture
def asked(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with a package of configs; what apt was asked for is in the file."""
    root = tmp_path / "root"
    write(root, {"DEBIAN/control": _control("linux-config-7.3")})
    config = lzma.compress(b'CONFIG_B=y\nCONFIG_SYSTEM_TRUSTED_KEYS="lost.pem"\n')
    folder = root / "usr/src/linux-config-7.3"
    folder.mkdir(parents=True)
    (folder / "config.amd64_none_cloud-amd64.xz").write_bytes(config)
    package, asked = tmp_path / "package.deb", tmp_path / "asked"
    subprocess.run(["dpkg-deb", "--build", root, package], check=True, capture_output=True)
    script = APT.replace("ASKED", str(asked)).replace("PACKAGE", str(package))
    write(tmp_path / "tools", {"apt-get": script, "apt-cache": script})
    for tool in (tmp_path / "tools").iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"), prepend=os.pathsep)
    write(tmp_path, {"apt/sources.list": "deb http://127.0.0.1:9/debian bookworm main\n"})
    monkeypatch.setattr(fetch, "APT_DIR", tmp_path / "apt")
    table = checkout / "kernel/bases.toml"
    pinned = f'package = "linux-config-7.3"\namd64 = "{fetch.sha256(package)}"\n'
    table.write_text(f'{table.read_text()}[bases."7.3".configs]\n{pinned}')
    configs = checkout / "kernel/configs/configs.toml"
    configs.write_text(configs.read_text() + CONFIGS)
    return asked


def _control(name: str) -> str:
    return (
        f"Package: {name}\nVersion: 7.3.4-1\nArchitecture: amd64\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: none\n"
    )


def test_fragments_come_on_top_of_debians(asked: Path, kernel_tree: Path) -> None:
    arch = arches.load("x86_64")
    config = kconfig.resolve("debian-cloud", groups.every(), arch)
    dotconfig = kconfig.configure(Make(kernel_tree, kernel_tree / "o.test", arch, "gcc"), config)
    assert config.folder_name == "debian-cloud"
    lines = dotconfig.read_text().splitlines()
    assert {"CONFIG_B=y", "CONFIG_X=8", 'CONFIG_SYSTEM_TRUSTED_KEYS=""'} <= {*lines}


def test_the_package_is_fetched_once_for_its_architecture(asked: Path) -> None:
    arch = arches.load("x86_64")
    first = kconfig.resolve("debian-cloud", (), arch)
    assert "-oAPT::Architecture=amd64" in asked.read_text().split()
    asked.unlink()
    assert kconfig.resolve("debian-cloud", (), arch) == first
    assert not asked.exists()


def test_a_config_that_the_package_lacks_is_named(checkout: Path, asked: Path) -> None:
    table = checkout / "kernel/configs/configs.toml"
    table.write_text(table.read_text().replace("cloud-{arch}", "rt-{arch}"))
    with pytest.raises(FlatbootError, match="has no config rt-amd64"):
        kconfig.resolve("debian-cloud", (), arches.load("x86_64"))


def test_an_architecture_without_configs_is_named(asked: Path) -> None:
    with pytest.raises(UsageError, match=r"the base 7\.3 has no configs of Debian for arm64"):
        kconfig.resolve("debian-cloud", (), arches.load("arm64"))
