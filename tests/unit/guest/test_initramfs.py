"""The archive that a guest starts from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flatboot.common import arches, elf
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import initramfs

FILES = {"bin": (0o040755, b""), "init": (0o100755, b"#!"), "etc/run": (0o100644, b"x" * 5)}


def test_same_files_same_bytes() -> None:
    turned = dict(reversed(FILES.items()))
    assert initramfs.archive(FILES) == initramfs.archive(turned)


@pytest.mark.skipif(shutil.which("cpio") is None, reason="needs cpio")
def test_cpio_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.cpio").write_bytes(
        initramfs.archive({**FILES, "etc": (0o040755, b""), "dev/console": (0o100600, b"")})
    )
    listed = subprocess.run(
        ["cpio", "-itv", "--quiet", "-F", str(tmp_path / "a.cpio")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert [line.split()[-1] for line in listed] == ["bin", "dev/console", "etc", "etc/run", "init"]
    assert listed[-1].startswith("-rwxr-xr-x")


def test_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arch = arches.load("x86_64")
    content = initramfs.make(arch, ["fill 64M"], "exact")
    assert content == initramfs.make(arch, ["fill 64M"], "exact")
    assert b"fill\t64M\n" in content
    init = initramfs.compiled("init", arch)
    before = init.stat().st_mtime_ns
    assert initramfs.compiled("init", arch).stat().st_mtime_ns == before
    assert elf.entry_point(init) > 0x400000


def test_unknown_program() -> None:
    with pytest.raises(UsageError, match=r"unknown guest program 'emacs -nw': there are .*fill"):
        initramfs.make(arches.load("x86_64"), ["emacs -nw"], "exact")


def test_further_files_keep_their_modes_and_may_be_run(tmp_path: Path) -> None:
    script, data = tmp_path / "hello.sh", tmp_path / "data"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    data.write_text("data")
    data.chmod(0o640)
    more = {"bin/hello": script, "usr/share/x/data": data}
    packed = initramfs.make(arches.load("x86_64"), ["hello you"], "exact", more)
    listing = subprocess.run(
        ["cpio", "-itv"], input=packed, capture_output=True, check=True
    ).stdout.decode()
    modes = {line.split()[-1]: line.split()[0] for line in listing.splitlines()}
    assert modes["bin/hello"] == "-rwxr-xr-x"
    assert modes["usr/share/x/data"] == "-rw-r-----"
    assert modes["usr/share/x"] == "drwxr-xr-x"


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FlatbootError, match="gcc is not there"):
        initramfs.make(arches.load("x86_64"), [], "exact")


def test_a_program_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(initramfs, "SOURCES", tmp_path)
    (tmp_path / "init.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(FlatbootError, match=r"(?s)compiling init.c failed.*nothing"):
        initramfs.make(arches.load("x86_64"), [], "exact")
    assert not list((tmp_path / "cache").rglob("*init*"))
