"""The download of a base: mirrors, checksums, versions, no network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from flatboot.common import progress
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import bases, fetch

DEB822 = """\
Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

# Types: deb
# URIs: http://commented.example/debian
Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm

Types: deb deb-src
URIs: http://first.example/debian/
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: main
"""

# An apt of which only the listed versions exist; the package's content is "hello world".
APT = """#!/bin/sh
for word in "$@"; do case $word in -o*) ;; *) break ;; esac; shift; done
case $1 in
update) ;;
madison) for v in VERSIONS; do echo " linux-source-7.3 | $v | mirror"; done ;;
show) echo "Size: 11" ;;
download) printf 'CONTENT' > "linux-source-7.3_${2#*=}_all.deb" ;;
esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt configuration with one mirror."""
    etc = tmp_path / "etc-apt"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list").write_text("deb http://127.0.0.1:9/debian bookworm main\n")
    monkeypatch.setattr(fetch, "APT_DIR", etc)
    return etc


def fake_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: str, content: str = "hello world"
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache"):
        script = APT.replace("VERSIONS", versions).replace("CONTENT", content)
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)


def test_first_debian_mirror_of_deb822_sources(apt: Path) -> None:
    (apt / "sources.list").unlink()
    (apt / "sources.list.d" / "debian.sources").write_text(DEB822)
    (apt / "sources.list.d" / "other.list.disabled").write_text("deb http://x.example/debian a b\n")
    assert fetch.mirror(apt) == "http://first.example/debian/"


def test_first_debian_mirror_of_one_line_sources(apt: Path) -> None:
    (apt / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb http://vendor.example/apt stable main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://right.example/debian bookworm main\n"
    )
    assert fetch.mirror(apt) == "http://right.example/debian"


def test_no_debian_mirror(apt: Path) -> None:
    (apt / "sources.list").write_text("deb http://vendor.example/ubuntu noble main\n")
    with pytest.raises(FlatbootError, match=r"no Debian mirror in .*: add one"):
        fetch.mirror(apt)


def test_unknown_base_lists_what_there_is(checkout: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown base '6.1': choose one of 7\.3"):
        bases.load("6.1")


def test_pinned_version_is_fetched_once(
    checkout: Path, apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, "7.3.9-1 7.3.4-1")
    package = fetch.fetch(bases.load("7.3"))
    assert package.version == "7.3.4-1"
    assert package.file.read_text() == "hello world"
    monkeypatch.setenv("PATH", "/nonexistent")
    assert fetch.fetch(bases.load("7.3")) == package


def test_later_version_is_taken_with_a_warning(
    checkout: Path,
    apt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_apt(tmp_path, monkeypatch, "7.4.1-1 7.3.9-1", content="another")
    warned: list[str] = []
    monkeypatch.setattr(progress, "warn", warned.append)
    package = fetch.fetch(bases.load("7.3"))
    assert package.version == "7.3.9-1"
    assert package.sha256 == fetch.sha256(package.file)
    assert "7.3.4-1 is gone from some-suite; taking 7.3.9-1" in warned[0]


def test_no_acceptable_version(
    checkout: Path, apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, "7.4.1-1")
    with pytest.raises(FlatbootError, match=r"has no linux-source-7.3 7\.3\.x .*it has 7.4.1-1"):
        fetch.fetch(bases.load("7.3"))


def test_wrong_checksum_is_refused_and_removed(
    checkout: Path, apt: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, "7.3.4-1", content="hello w0rld")
    with pytest.raises(FlatbootError, match=r"wrong checksum .* so it was removed"):
        fetch.fetch(bases.load("7.3"))
    assert [path.name for path in (cache / "downloads").iterdir()] == [".7.3.lock"]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="not a Debian machine")
@pytest.mark.skipif(
    not any(keyring.is_file() for keyring in fetch.KEYRINGS), reason="no Debian keyring"
)
def test_no_network_is_one_sentence(checkout: Path, apt: Path, cache: Path) -> None:
    with pytest.raises(FlatbootError) as caught:
        fetch.fetch(bases.load("7.3"))
    assert "cannot get linux-source-7.3 from http://127.0.0.1:9/debian" in str(caught.value)
    assert "check the network" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in (cache / "downloads").iterdir()] == [".7.3.lock"]
