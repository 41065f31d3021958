"""A base's packages, from the machine's own Debian mirror into the cache.

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
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel.bases import Base

APT_DIR = Path("/etc/apt")
KEYRINGS = tuple(
    Path("/usr/share/keyrings") / f"debian-archive-keyring.{suffix}" for suffix in ("gpg", "pgp")
)
_ELSEWHERE = "or name a kernel tree or tarball with --tree"


@dataclass(frozen=True)
class Package:
    """A fetched package: its file, version and checksum."""

    file: Path
    version: str
    sha256: str


@dataclass(frozen=True)
class _Wanted:
    """A package to fetch; ``name`` is that of its record, ``architecture`` "" for any."""

    name: str
    package: str
    suite: str
    version: str
    sha256: str
    accepts: str
    architecture: str = ""


def fetch(base: Base) -> Package:
    """Return the source package of *base*, downloading it if the cache does not have it.

    Raises:
        FlatbootError: no mirror, no network, no such package, or a wrong checksum (the file is
            removed then).
    """
    pinned = (base.suite, base.version, base.sha256, base.accepts)
    return _fetched(_Wanted(base.name, base.package, *pinned))


def fetch_configs(base: Base, architecture: str) -> Package:
    """Return the package of Debian's configs for *architecture*, as Debian calls it; as `fetch`.

    Raises:
        UsageError: the base has none for it.
        FlatbootError: as `fetch`.
    """
    if architecture not in base.configs:
        raise UsageError(f"the base {base.name} has no configs of Debian for {architecture}")
    pinned = (base.suite, base.version, base.configs[architecture], base.accepts, architecture)
    name = f"{base.name}-configs-{architecture}"
    return _fetched(_Wanted(name, base.configs["package"], *pinned))


def _fetched(wanted: _Wanted) -> Package:
    folder = paths.cache() / "downloads"
    record = folder / f"{wanted.name}.json"
    with locks.exclusive(folder / f".{wanted.name}.lock", f"download of {wanted.package}"):
        return _recorded(wanted, record) or _download(wanted, record)


def sha256(file: Path) -> str:
    """Return the SHA-256 checksum of *file* in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _recorded(wanted: _Wanted, record: Path) -> Package | None:
    if not record.is_file():
        return None
    known = typed.load(record, dict[str, str])
    package = Package(record.parent / known["file"], known["version"], known["sha256"])
    if known["pinned"] != wanted.sha256 or not package.file.is_file():
        return None
    return package


def _download(wanted: _Wanted, record: Path) -> Package:
    folder = record.parent
    with tempfile.TemporaryDirectory(prefix=".apt-", dir=folder) as private:
        apt = _Apt(Path(private), wanted)
        version = apt.choose_version()
        fetched = apt.download(version)
        package = Package(folder / fetched.name, version, sha256(fetched))
        if version == wanted.version and package.sha256 != wanted.sha256:
            raise FlatbootError(
                f"{fetched.name} has the wrong checksum {package.sha256} (expected"
                f" {wanted.sha256}), so it was removed: try again, {_ELSEWHERE}"
            )
        fetched.replace(package.file)
    with atomic.new_file(record) as new:
        known = {"file": package.file.name, "version": version, "sha256": package.sha256}
        new.write_text(json.dumps({**known, "pinned": wanted.sha256}, indent=2) + "\n")
    return package


class _Apt:
    """apt with a sources list, state and cache of its own, for one package of one suite."""

    def __init__(self, private: Path, wanted: _Wanted) -> None:
        if shutil.which("apt-get") is None:
            raise FlatbootError(
                f"{wanted.package} comes from a Debian mirror and this machine has no apt-get: "
                "name a kernel tree or tarball with --tree"
            )
        self._wanted = wanted
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
        sources.write_text(f"deb [signed-by={signed_by}] {self._mirror} {wanted.suite} main\n")
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
            **({"APT::Architecture": wanted.architecture} if wanted.architecture else {}),
        }
        self._options = [f"-o{name}={value}" for name, value in settings.items()]

    def choose_version(self) -> str:
        """Return the pinned version where the suite has it, else the newest one accepted."""
        self._update()
        table = self._run("apt-cache", "madison", self._wanted.package)
        there = [fields[1].strip() for row in table.splitlines() if (fields := row.split("|"))[1:]]
        if self._wanted.version in there:
            return self._wanted.version
        accepted = [version for version in there if version.startswith(self._wanted.accepts)]
        if not accepted:
            raise FlatbootError(
                f"{self._mirror} has no {self._wanted.package} {self._wanted.accepts}x in "
                f"{self._wanted.suite} (it has {', '.join(there) or 'none'}): update the checkout, "
                f"{_ELSEWHERE}"
            )
        progress.warn(
            f"{self._wanted.package} {self._wanted.version} is gone from {self._wanted.suite}; "
            f"taking {accepted[0]}, with which nothing was tested"
        )
        return accepted[0]

    def download(self, version: str) -> Path:
        """Download *version* and return its file."""
        show = self._run("apt-cache", "show", f"{self._wanted.package}={version}")
        match = re.search(r"^Size: (\d+)$", show, re.MULTILINE)
        total = int(match[1]) if match else None
        with (
            progress.step(f"downloading {self._wanted.package} {version}", total) as step,
            progress.watching(step, self._size),
        ):
            self._run("apt-get", "download", f"{self._wanted.package}={version}")
        return next(self._folder.glob("*.deb"))

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.iterdir())

    def _update(self) -> None:
        with progress.step(f"reading {self._wanted.suite} of {self._mirror}"):
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
                f"cannot get {self._wanted.package} from {self._mirror}: "
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
    raise FlatbootError(f"no Debian mirror in {apt_dir}/sources.list and sources.list.d: add one")


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
