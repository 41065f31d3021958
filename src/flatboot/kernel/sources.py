"""Kernel source trees: a base of the table, or a folder or tarball of the user's own."""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic, locks, paths, processes, progress, typed
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.git import git
from flatboot.kernel import bases, fetch

_TARBALLS = (".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst", ".tgz")


@dataclass(frozen=True)
class Source:
    """A kernel source tree, known by the hash of its content.

    Attributes:
        name: the base's name, or the file name of the user's folder or tarball.
        checksum: SHA-256 of the package or tarball, or of a folder's files (paths, modes, content).
        archive: the file to extract; None for a folder.
        folder: the user's folder; None for an archive.
        files: for a folder, the digest of each file by its path relative to the folder.
    """

    name: str
    checksum: str
    archive: Path | None = None
    folder: Path | None = None
    files: tuple[tuple[str, str], ...] = ()

    @property
    def lineage(self) -> str:
        """A name that successive states of one folder share, so that builds are incremental."""
        if self.folder is not None:
            return hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        return self.checksum[:16]

    def directory(self) -> Path:
        """Return the folder that holds the tree, extracting the archive if need be.

        Raises:
            FlatbootError: the archive cannot be extracted or holds no kernel tree.
        """
        if self.folder is not None:
            return self.folder
        assert self.archive is not None
        final = paths.cache() / "trees" / self.lineage
        if final.is_dir():
            return final
        with (
            locks.exclusive(final.with_suffix(".lock"), f"unpacking {self.archive.name}"),
            progress.step(f"unpacking {self.archive.name}"),
        ):
            if not final.is_dir():
                with atomic.new_dir(final) as new:
                    _extract(self.archive, new)
                    kernel_version(new, self.archive)
        return final

    def version(self) -> str:
        """Return the kernel's version, such as "7.3.4" or "7.4.0-rc1"."""
        directory = self.directory()
        return kernel_version(directory, directory)

    def base(self) -> str:
        """Return the base whose hooks are for this tree: by its version where it is none itself.

        Raises:
            UsageError: there are no hooks for the tree's version.
        """
        names = bases.with_hooks()
        name = self.name if self.name in names else ".".join(self.version().split(".")[:2])
        if name not in names:
            raise UsageError(
                f"{self.name} is Linux {self.version()}, for which there are no hooks: the "
                f"flatboot flavour is there for {', '.join(names)}, the stock flavour for any tree"
            )
        return name


def resolve(base: str) -> Source:
    """Return the source that *base* names: a base of the table, or the path of a folder or tarball.

    A word with a slash in it is a path, any other word the name of a base.

    Raises:
        UsageError: there is no such base, folder or tarball.
        FlatbootError: the base cannot be fetched.
    """
    if "/" not in base:
        package = fetch.fetch(bases.load(base))
        return Source(name=base, checksum=package.sha256, archive=package.file)
    path = Path(base).resolve()
    if path.is_dir():
        kernel_version(path, path)
        files = _digests(path)
        text = "".join(f"{digest} {name}\n" for name, digest in files)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        return Source(name=path.name, checksum=checksum, folder=path, files=files)
    if path.is_file() and path.name.endswith(_TARBALLS):
        return Source(name=path.name, checksum=fetch.sha256(path), archive=path)
    raise UsageError(
        f"{path} is neither a folder nor a tarball ({', '.join(_TARBALLS)}): name a kernel tree"
    )


def kernel_version(tree: Path, named: Path) -> str:
    """Return the version that the Makefile of *tree* gives; *named* is what an error speaks of.

    Raises:
        UsageError: there is no kernel Makefile.
    """
    makefile = tree / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(.*)$", text, re.M))
    if not (tree / "Kconfig").is_file() or len(fields) < 4:
        raise UsageError(f"{named} is not a kernel tree: it has no kernel Makefile at its top")
    numbers = ".".join(str(fields[name]) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
    return numbers + str(fields["EXTRAVERSION"]).strip()


def _extract(archive: Path, target: Path) -> None:
    script = 'tar -x --no-same-owner --strip-components=1 -C "$2" -f "$1"'
    if archive.suffix == ".deb":
        script = (
            'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | '
            "tar -x -O --wildcards './usr/src/linux-source-*.tar.xz' | "
            'tar -x -J --no-same-owner --strip-components=1 -C "$2"'
        )
    processes.run(["bash", "-c", script, "bash", archive, target], what=f"unpacking {archive}")


def _digests(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the path and digest of each source file of the user's *folder*, sorted by path.

    Digests are remembered by the file's size, times and inode, so that only the first call reads
    the whole tree.
    """
    names = _source_files(folder)
    index = (
        paths.cache() / "trees" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}.json"
    )
    known = typed.load(index, dict[str, list[str]]) if index.is_file() else {}
    with progress.step(f"reading {folder}"), ThreadPoolExecutor() as pool:
        read = pool.map(lambda name: _entry(folder / name, known.get(name)), names)
        entries = dict(zip(names, read, strict=True))
    if entries != known:
        with atomic.new_file(index) as new:
            new.write_text(json.dumps(entries))
    return tuple((name, digest) for name, (_, digest) in entries.items())


def _entry(path: Path, known: list[str] | None) -> list[str]:
    stat = path.lstat()
    stamp = f"{stat.st_mode} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
    if known is not None and known[0] == stamp:
        return known
    if path.is_symlink():
        return [stamp, "link " + hashlib.sha256(str(path.readlink()).encode()).hexdigest()]
    kind = "program " if stat.st_mode & 0o100 else "file "
    return [stamp, kind + fetch.sha256(path)]


def _source_files(folder: Path) -> list[str]:
    if (folder / ".git").exists():
        listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = {name for name in listed.split("\0") if name}
        return sorted(name for name in names if _is_source(folder / name))
    if (folder / ".config").exists() or (folder / "include" / "config").exists():
        raise FlatbootError(f"{folder} has been built in: run `make mrproper` there first")
    found = (path for path in folder.rglob("*") if _is_source(path))
    return sorted(str(path.relative_to(folder)) for path in found)


def _is_source(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
