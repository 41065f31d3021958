"""Kernel trees of the user's own: folders and tarballs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from fakes import git

from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import sources


@pytest.mark.parametrize(("suffix", "option"), [("tar.gz", "-z"), ("tar.xz", "-J")])
def test_tarball_is_unpacked_once(
    checkout: Path, kernel_tree: Path, tmp_path: Path, suffix: str, option: str
) -> None:
    tarball = tmp_path / f"linux.{suffix}"
    subprocess.run(["tar", "-c", option, "-f", tarball, "-C", tmp_path, "linux"], check=True)
    source = sources.resolve(str(tarball))
    tree = source.directory()
    assert (tree / "mm/a.c").read_text() == (kernel_tree / "mm/a.c").read_text()
    assert source.version() == "7.3.4"
    assert source.base() == "7.3"
    tarball.rename(tmp_path / f"moved.{suffix}")
    assert sources.resolve(str(tmp_path / f"moved.{suffix}")).directory() == tree


def test_broken_tarball_leaves_nothing(checkout: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "linux.tar.xz").write_bytes(b"not a tarball")
    with pytest.raises(FlatbootError, match=r"unpacking .*linux.tar.xz failed"):
        sources.resolve(str(tmp_path / "linux.tar.xz")).directory()
    assert [path for path in (cache / "trees").iterdir() if path.suffix != ".lock"] == []


def test_tarball_of_something_else(checkout: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "other/Makefile").parent.mkdir()
    (tmp_path / "other/Makefile").write_text("all:\n")
    subprocess.run(["tar", "-czf", tmp_path / "o.tar.gz", "-C", tmp_path, "other"], check=True)
    with pytest.raises(UsageError, match=r"o\.tar\.gz is not a kernel tree"):
        sources.resolve(str(tmp_path / "o.tar.gz")).directory()
    assert [path for path in (cache / "trees").iterdir() if path.suffix != ".lock"] == []


def test_neither_folder_nor_tarball(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a folder nor a tarball"):
        sources.resolve(str(tmp_path / "nothing"))


def test_folder_is_known_by_its_content(checkout: Path, kernel_tree: Path, tmp_path: Path) -> None:
    first = sources.resolve(str(kernel_tree))
    assert sources.resolve(str(kernel_tree)) == first
    (kernel_tree / "mm/a.c").write_text("changed\n")
    changed = sources.resolve(str(kernel_tree))
    assert changed.checksum != first.checksum
    assert changed.lineage == first.lineage
    shutil.copytree(kernel_tree, tmp_path / "copy")
    copied = sources.resolve(str(tmp_path / "copy"))
    assert copied.checksum == changed.checksum
    assert copied.lineage != changed.lineage


def test_git_folder_leaves_out_what_git_ignores(checkout: Path, kernel_tree: Path) -> None:
    git(kernel_tree, "init", "-q")
    git(kernel_tree, "add", "-A")
    (kernel_tree / ".config").write_text("built here\n")
    (kernel_tree / "mm/a.o").write_text("object\n")
    (kernel_tree / "mm/c.c").write_text("not added yet\n")
    (kernel_tree / "mm/b.c").unlink()
    names = [name for name, _ in sources.resolve(str(kernel_tree)).files]
    assert "mm/c.c" in names
    assert "mm/a.o" not in names
    assert "mm/b.c" not in names


def test_folder_that_was_built_in_is_refused(checkout: Path, kernel_tree: Path) -> None:
    (kernel_tree / ".config").write_text("\n")
    with pytest.raises(FlatbootError, match="has been built in: run `make mrproper`"):
        sources.resolve(str(kernel_tree))


def test_hooks_of_another_version(checkout: Path, kernel_tree: Path) -> None:
    makefile = kernel_tree / "Makefile"
    makefile.write_text(makefile.read_text().replace("PATCHLEVEL = 3", "PATCHLEVEL = 5"))
    source = sources.resolve(str(kernel_tree))
    with pytest.raises(UsageError, match=r"is Linux 7\.5\.4, for which there are no hooks"):
        source.base()
