"""The tree that a flavour is built in: the source with its layer, updated in place.

A work tree is kept for each lineage and flavour, together with its object folders. An update writes
only files whose content changed, so their time stamps tell make what to build again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from flatboot.common import atomic, locks, paths, processes, progress, typed
from flatboot.kernel.layer import File, Layer
from flatboot.kernel.sources import Source


@contextlib.contextmanager
def work_tree(source: Source, flavour: str, layer: Layer) -> Iterator[Path]:
    """Yield a tree with the content of *source* under *layer*, locked while the body runs.

    Object folders belong directly below it (``o.*``): then all paths that the compiler sees are
    relative, and ccache serves every flavour from every cache folder.
    """
    folder = _home(source, flavour)
    with locks.exclusive(folder / "lock", f"build of {source.name}, {flavour}"):
        _synchronise(folder / "src", folder / "state.json", source, layer)
        yield folder / "src"


def folder(source: Source, flavour: str) -> Path:
    """Return where that tree lies, whether it is there or not."""
    return _home(source, flavour) / "src"


def _home(source: Source, flavour: str) -> Path:
    return paths.cache() / "objects" / f"{source.lineage}-{flavour}"


def _synchronise(tree: Path, state: Path, source: Source, layer: Layer) -> None:
    directory = source.directory()
    if tree.is_dir() and not state.is_file():
        shutil.rmtree(tree)
    old: dict[str, dict[str, str]] = {"files": {}, "layer": {}}
    if tree.is_dir():
        old = typed.load(state, dict[str, dict[str, str]])
    else:
        _create(tree, source)
        old["files"] = dict(source.files)
    new = {
        "files": dict(source.files),
        "layer": {name: file.digest if file else "" for name, file in layer.files.items()},
    }
    if state.is_file() and old == new:
        return
    state.unlink(missing_ok=True)
    outdated = _different(old["files"], new["files"])
    uncovered = old["layer"].keys() - new["layer"].keys()
    renewed = {name for name in outdated | uncovered if _there(directory / name)}
    # A file may come to stand where a folder was, and the other way round.
    for name in (outdated | uncovered) - renewed:
        _remove(tree, name)
    for name in renewed:
        _restore(tree / name, directory / name)
    for name, file in layer.files.items():
        if name in outdated or old["layer"].get(name) != new["layer"][name]:
            if file is None:
                (tree / name).unlink(missing_ok=True)
            else:
                file.write(tree / name)
    with atomic.new_file(state) as written:
        written.write_text(json.dumps(new))


def _different(old: dict[str, str], new: dict[str, str]) -> set[str]:
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _create(tree: Path, source: Source) -> None:
    with atomic.new_dir(tree) as new:
        copy(source, new, "--link")


def copy(source: Source, folder: Path, *options: str) -> None:
    """Copy the files of *source* to *folder*; an archive's with these *options* of cp."""
    directory = source.directory()
    with progress.step(f"copying {source.name}"):
        if source.folder is None:
            command = ("cp", "--archive", *options, f"{directory}/.", str(folder))
            processes.run(command, what=f"copying {directory}")
        for name, _ in source.files:
            _restore(folder / name, directory / name)


def _there(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _remove(tree: Path, name: str) -> None:
    """Remove a file of *tree*, and the folders that it leaves empty."""
    path = tree / name
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        while (path := path.parent) != tree:
            path.rmdir()


def _restore(path: Path, original: Path) -> None:
    """Make *path* a new copy of *original*, whatever stands there now."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    if original.is_symlink():
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(original.readlink())
    else:
        File.read(original).write(path)
