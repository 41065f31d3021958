"""A base's source package, from the machine's own Debian mirror into the cache.

The machine's apt set-up is read and never touched: apt runs on a private sources list with private
state and cache folders, as root or as any user.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic, locks, paths, processes, progress, typed
from flatboot.common.errors import FlatbootError
from flatboot.kernel.bases import Base

APT_DIR = Path("/etc/apt")
KEYRINGS = tuple(
    Path("/usr/share/keyrings") / f"debian-archive-keyring.{suffix}" for suffix in ("gpg", "pgp")
)
_ELSEWHERE = "or name a kernel tree or tarball with --tree"


@dataclass(frozen=True)
class Package:
    """A fetched source package: its file, version and checksum."""

    file: Path
    version: str
    sha256: str


def fetch(base: Base) -> Package:
    """Return the source package of *base*, downloading it if the cache does not have it.

    Raises:
        FlatbootError: no mirror, no network, no such package, or a wrong checksum (the file is
            removed then).
    """
    folder = paths.cache() / "downloads"
    record = folder / f"{base.name}.json"
    with locks.exclusive(folder / f".{base.name}.lock", f"download of {base.package}"):
        return _recorded(base, record) or _download(base, record)


def sha256(file: Path) -> str:
    """Return the SHA-256 checksum of *file* in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _recorded(base: Base, record: Path) -> Package | None:
    if not record.is_file():
        return None
    known = typed.load(record, dict[str, str])
    package = Package(record.parent / known["file"], known["version"], known["sha256"])
    if known["pinned"] != base.sha256 or not package.file.is_file():
        return None
    return package


def _download(base: Base, record: Path) -> Package:
    folder = record.parent
    with tempfile.TemporaryDirectory(prefix=".apt-", dir=folder) as private:
        apt = _Apt(Path(private), base)
        version = apt.choose_version()
        fetched = apt.download(version)
        package = Package(folder / fetched.name, version, sha256(fetched))
        if version == base.version and package.sha256 != base.sha256:
            raise FlatbootError(
                f"{fetched.name} has the wrong checksum {package.sha256} (expected {base.sha256}), "
                f"so it was removed: try again, {_ELSEWHERE}"
            )
        fetched.replace(package.file)
    with atomic.new_file(record) as new:
        known = {"file": package.file.name, "version": version, "sha256": package.sha256}
        new.write_text(json.dumps({**known, "pinned": base.sha256}, indent=2) + "\n")
    return package


class _Apt:
    """apt with a sources list, state and cache of its own, for one package of one suite."""

    def __init__(self, private: Path, base: Base) -> None:
        if shutil.which("apt-get") is None:
            raise FlatbootError(
                f"{base.package} comes from a Debian mirror and this machine has no apt-get: name "
                "a kernel tree or tarball with --tree"
            )
        self._base = base
        self._folder = private / "package"
        for folder in ("package", "state/lists/partial", "cache/archives/partial"):
            (private / folder).mkdir(parents=True)
        self._mirror = mirror(APT_DIR)
        signed_by = next((str(k) for k in KEYRINGS if k.is_file()), None)
        if signed_by is None:
            raise FlatbootError(
                f"the Debian archive keyring {KEYRINGS[0]} is missing: install "
                "debian-archive-keyring"
            )
        sources = private / "sources.list"
        sources.write_text(f"deb [signed-by={signed_by}] {self._mirror} {base.suite} main\n")
        settings = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": private / "state",
            "Dir::State::lists": private / "state/lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": private / "cache",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
        }
        self._options = [f"-o{name}={value}" for name, value in settings.items()]

    def choose_version(self) -> str:
        """Return the pinned version where the suite has it, else the newest one accepted."""
        self._update()
        table = self._run("apt-cache", "madison", self._base.package)
        there = [fields[1].strip() for row in table.splitlines() if (fields := row.split("|"))[1:]]
        if self._base.version in there:
            return self._base.version
        accepted = [version for version in there if version.startswith(self._base.accepts)]
        if not accepted:
            raise FlatbootError(
                f"{self._mirror} has no {self._base.package} {self._base.accepts}x in "
                f"{self._base.suite} (it has {', '.join(there) or 'none'}): update the checkout, "
                f"{_ELSEWHERE}"
            )
        progress.warn(
            f"{self._base.package} {self._base.version} is gone from {self._base.suite}; taking "
            f"{accepted[0]}, with which nothing was tested"
        )
        return accepted[0]

    def download(self, version: str) -> Path:
        """Download *version* and return its file."""
        show = self._run("apt-cache", "show", f"{self._base.package}={version}")
        match = re.search(r"^Size: (\d+)$", show, re.MULTILINE)
        total = int(match[1]) if match else None
        with (
            progress.step(f"downloading {self._base.package} {version}", total) as step,
            progress.watching(step, self._size),
        ):
            self._run("apt-get", "download", f"{self._base.package}={version}")
        return next(self._folder.glob("*.deb"))

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.iterdir())

    def _update(self) -> None:
        with progress.step(f"reading {self._base.suite} of {self._mirror}"):
            self._run("apt-get", "update")

    def _run(self, tool: str, command: str, *arguments: str) -> str:
        try:
            return processes.run(
                [tool, *self._options, command, *arguments],
                what=f"{tool} {command}",
                cwd=self._folder,
            )
        except processes.CommandFailed as error:
            reasons = re.findall(r"^(?:E|Err|W): ?(.*)$", error.output, re.MULTILINE)
            raise FlatbootError(
                f"cannot get {self._base.package} from {self._mirror}: "
                f"{reasons[0] if reasons else error}; check the network, {_ELSEWHERE}"
            ) from error


def mirror(apt_dir: Path) -> str:
    """Return the address of the Debian mirror that the sources in *apt_dir* name first.

    Both formats are read: deb822 (``*.sources``) and one line an entry (``*.list``).

    Raises:
        FlatbootError: no source is a Debian archive.
    """
    files = [apt_dir / "sources.list", *sorted((apt_dir / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        read = _deb822 if file.suffix == ".sources" else _one_line
        for uri in read(file.read_text()):
            if re.search(r"debian[^/]*/?$", uri) and "security" not in uri:
                return uri
    raise FlatbootError(
        f"no Debian mirror in {apt_dir}/sources.list and sources.list.d: name a kernel tree or "
        "tarball with --tree"
    )


def _deb822(text: str) -> Iterator[str]:
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for stanza in re.split(r"\n\s*\n", text):
        unfolded = re.sub(r"\n[ \t]+", " ", stanza)
        pairs = re.findall(r"^([\w-]+):[ \t]*(.*)$", unfolded, re.MULTILINE)
        fields = {name.lower(): value for name, value in pairs}
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes") != "no":
            yield from fields["uris"].split()


def _one_line(text: str) -> Iterator[str]:
    for match in re.finditer(r"^\s*deb\s+(?:\[[^]]*\]\s*)?(\S+)", text, re.MULTILINE):
        yield match[1]
