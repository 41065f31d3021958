"""The work tree: what an update touches."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flatboot.kernel import sources, tree
from flatboot.kernel.layer import File, Layer
from flatboot.kernel.sources import Source


def times(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def tarball(kernel_tree: Path, tmp_path: Path) -> Source:
    file = tmp_path / "linux.tar.gz"
    subprocess.run(["tar", "-czf", file, "-C", tmp_path, "linux"], check=True)
    return sources.resolve(str(file))


def update(source: Source, **files: str | None) -> Path:
    layer = Layer(
        {
            f"mm/{name}.c": None if text is None else File(text.encode())
            for name, text in files.items()
        }
    )
    with tree.work_tree(source, "flatboot", layer) as where:
        return where


def test_only_changed_files_are_written(checkout: Path, tarball: Source) -> None:
    where = update(tarball, a="patched", new="new")
    before = times(where)
    update(tarball, a="patched", new="newer")
    after = times(where)
    assert {name for name in after if after[name] != before.get(name)} == {"mm/new.c"}


def test_dropped_hook_restores_the_file_as_new(checkout: Path, tarball: Source) -> None:
    original = (tarball.directory() / "mm/a.c").read_text()
    where = update(tarball, a="patched", new="new", b=None)
    assert not (where / "mm/b.c").exists()
    before = times(where)
    update(tarball)
    assert (where / "mm/a.c").read_text() == original
    assert (where / "mm/b.c").read_text() == "b\n"
    assert not (where / "mm/new.c").exists()
    assert times(where)["mm/a.c"] > before["mm/a.c"]


def test_source_is_never_written(checkout: Path, tarball: Source) -> None:
    original = (tarball.directory() / "mm/a.c").read_text()
    update(tarball, a="patched")
    assert (tarball.directory() / "mm/a.c").read_text() == original


def test_object_folders_survive_an_update(checkout: Path, tarball: Source) -> None:
    where = update(tarball, a="one")
    (where / "o.test").mkdir()
    (where / "o.test/a.o").write_text("object")
    update(tarball, a="two")
    assert (where / "o.test/a.o").read_text() == "object"


def test_interrupted_update_starts_anew(checkout: Path, tarball: Source) -> None:
    where = update(tarball, a="one")
    (where.parent / "state.json").unlink()
    (where / "mm/a.c").write_text("half")
    update(tarball)
    assert (where / "mm/a.c").read_text() == (tarball.directory() / "mm/a.c").read_text()


def test_a_file_comes_where_a_folder_was_and_back(checkout: Path, kernel_tree: Path) -> None:
    (kernel_tree / "mm/deep").mkdir()
    (kernel_tree / "mm/deep/d.c").write_text("deep\n")
    where = update(sources.resolve(str(kernel_tree)))
    shutil.rmtree(kernel_tree / "mm/deep")
    (kernel_tree / "mm/deep").write_text("flat\n")
    update(sources.resolve(str(kernel_tree)))
    assert (where / "mm/deep").read_text() == "flat\n"
    (kernel_tree / "mm/deep").unlink()
    (kernel_tree / "mm/deep").mkdir()
    (kernel_tree / "mm/deep/d.c").write_text("deep\n")
    update(sources.resolve(str(kernel_tree)))
    assert (where / "mm/deep/d.c").read_text() == "deep\n"


def test_edits_of_a_folder_come_along(checkout: Path, kernel_tree: Path) -> None:
    where = update(sources.resolve(str(kernel_tree)), b="patched")
    before = times(where)
    (kernel_tree / "mm/a.c").write_text("edited\n")
    (kernel_tree / "mm/b.c").write_text("edited below the hook\n")
    (kernel_tree / "mm/c.c").write_text("added\n")
    (kernel_tree / "Kconfig").write_text("edited\n")
    (kernel_tree / "scripts/kconfig/merge_config.sh").unlink()
    update(sources.resolve(str(kernel_tree)), b="patched")
    after = times(where)
    assert (where / "mm/a.c").read_text() == "edited\n"
    assert (where / "mm/b.c").read_text() == "patched"
    assert (where / "mm/c.c").read_text() == "added\n"
    assert not (where / "scripts/kconfig/merge_config.sh").exists()
    assert after["Makefile"] == before["Makefile"]
