"""Kernel configs: named ones, of fragments or Debian's, or a full .config; checked by lines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes, progress, typed
from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import bases, debian_config
from flatboot.kernel.groups import Group
from flatboot.kernel.make import Make

_SET = re.compile(r"CONFIG_(\w+)=(.*)")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set")
#: An option with its lines up to the help text.
_DEFINITION = re.compile(
    r"^[ \t]*(?:menu)?config (\w+)\n((?:(?![ \t]+help$)[ \t]+.*\n|\n)*)", re.MULTILINE
)
_DEPENDS = re.compile(r"^\s+(depends on (?:.*\\\n)*.*)", re.MULTILINE)
#: Entries of the table that stand for fragments of each group: what the files' names begin with.
_OF_GROUPS = {"groups": "options", "groups-tests": "tests"}
_CERTIFICATES = ("CONFIG_SYSTEM_TRUSTED_KEYS", "CONFIG_SYSTEM_REVOCATION_KEYS")


@dataclass(frozen=True)
class Config:
    """A kernel config that is asked for.

    Attributes:
        name: its name in configs.toml, or the path of a full .config.
        files: the fragments in order.
        full: the full .config on which they come; None for tinyconfig.
    """

    name: str
    files: tuple[Path, ...]
    full: Path | None = None

    @property
    def digest(self) -> str:
        """A hash of what the files hold."""
        total = hashlib.sha256(b"full" if self.full else b"fragments")
        for file in (*([self.full] if self.full else []), *self.files):
            total.update(hashlib.sha256(file.read_bytes()).digest())
        return total.hexdigest()

    @property
    def folder_name(self) -> str:
        """A name for the object folder, the same for successive contents of one config."""
        if "/" not in self.name:
            return self.name
        return f"{Path(self.name).name}-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Missed:
    """A line of a fragment that did not take, and where the tree says why."""

    line: str
    file: Path
    number: int
    reason: str


def _table() -> dict[str, dict[str, tuple[str, ...]]]:
    path = paths.kernel_dir() / "configs" / "configs.toml"
    return typed.load(path, dict[str, dict[str, tuple[str, ...]]])


def names() -> list[str]:
    """Return the names of the named configs."""
    return list(_table())


def resolve(name: str, groups: Sequence[Group], arch: Arch, base: str = "") -> Config:
    """Return the config *name* for *arch*; a word with a slash or dot is a path.

    Args:
        name: of a config in the table, or the path of a full .config.
        groups: the groups that the kernel has; none for the stock flavour.
        arch: the architecture.
        base: the name of the base; configs of Debian are those of the default if it is none of the
            table.

    Raises:
        UsageError: there is no such config or file.
        FlatbootError: Debian's cannot be had.
    """
    table = _table()
    if name in table:
        parts = ("fragments", arch.name, *(["flatboot"] if groups else []), base)
        listed = [file for part in parts for file in table[name].get(part, ())]
        expanded = [file for entry in listed for file in _expanded(entry, groups, arch)]
        for file in expanded:
            if not file.is_file():
                raise FlatbootError(f"the config {name!r} needs {file}, which is not there")
        return Config(name, tuple(expanded), _debians(table[name], arch, base))
    path = Path(name).resolve()
    if path.is_file():
        return Config(str(path), (), path)
    raise UsageError(
        f"unknown config {name!r}: choose one of {', '.join(table)}, or give the path of a .config"
    )


def _debians(entry: Mapping[str, Sequence[str]], arch: Arch, base: str) -> Path | None:
    """Return the .config of Debian on which an *entry* of the table builds."""
    if not (kinds := entry.get("debian")):
        return None
    loaded = bases.load(base if base in bases.names() else bases.default())
    return debian_config.file(loaded, kinds[0].format(arch=arch.debian), arch.debian)


def options(group: Group, *, tests: bool = False) -> list[str]:
    """Return the options that a kernel with *group* sets, without CONFIG_, and those of *tests*.

    Those that only some architectures have are among them.
    """
    entries = ("groups", "groups-tests") if tests else ("groups",)
    found = (sorted(group.folder.glob(f"{_OF_GROUPS[entry]}*.config")) for entry in entries)
    return [name for files in found for file in files for name in settings(file)]


def _expanded(entry: str, groups: Sequence[Group], arch: Arch) -> list[Path]:
    """Return the files that an *entry* of the table stands for."""
    folder = paths.kernel_dir() / "configs"
    if entry == "arch":
        return [folder / f"{name}.config" for name in arch.fragments]
    if entry in _OF_GROUPS:
        names = [f"{_OF_GROUPS[entry]}{of}.config" for of in ("", f"-{arch.name}")]
        every = [group.folder / name for group in groups for name in names]
        return [file for file in every if file.is_file()]
    return [folder / entry]


def configure(make: Make, config: Config, *, check: bool = True) -> Path:
    """Make ``.config`` in the object folder of *make* and return its path.

    Fragments go on top of a full .config or tinyconfig. olddefconfig then settles what is left
    open. With *check*, every line of a fragment must be found in the result.

    Raises:
        FlatbootError: lines of the fragments did not take; it names them all, and their options.
    """
    dotconfig = make.objects / ".config"
    log = make.objects / "config.log"
    what = f"the configuration {config.name}"
    if config.full:
        make.objects.mkdir(parents=True, exist_ok=True)
        dotconfig.write_text(_without_lost_certificates(config.full, make.tree))
    else:
        make.run("tinyconfig", what=what, log=log)
    if config.files:
        _merge(make, config, what, log)
    make.run("olddefconfig", what=what, log=log)
    if check and (lost := missed(config.files, dotconfig, make.tree)):
        lines = [f"  {m.line} ({m.file.name}:{m.number}): {m.reason}" for m in lost]
        raise FlatbootError(
            "\n".join([f"{len(lost)} options of the config {config.name} did not take:", *lines])
        )
    return dotconfig


def _merge(make: Make, config: Config, what: str, log: Path) -> None:
    script = make.tree / "scripts" / "kconfig" / "merge_config.sh"
    processes.run(
        [script, "-m", "-O", make.objects, make.objects / ".config", *config.files],
        what=what,
        cwd=make.objects,
        log=log,
    )


def _without_lost_certificates(file: Path, tree: Path) -> str:
    """Return the text of a full .config less the certificate files that only its makers have."""

    def replace(match: re.Match[str]) -> str:
        if not match[2] or (tree / match[2]).is_file():
            return match[0]
        progress.warn(f"{file} names {match[2]}, which is not there: built without it")
        return f'{match[1]}=""'

    return re.sub(rf'^({"|".join(_CERTIFICATES)})="(.*)"$', replace, file.read_text(), flags=re.M)


def _lines(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, option and value (``n`` where it is not set) of each setting in *file*."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if match := _SET.fullmatch(line.strip()):
            yield number, match[1], match[2]
        elif match := _UNSET.fullmatch(line.strip()):
            yield number, match[1], "n"


def settings(dotconfig: Path) -> dict[str, str]:
    """Return the options that *dotconfig* sets by name, without ``CONFIG_`` and unset ones."""
    return {option: value for _, option, value in _lines(dotconfig) if value != "n"}


def missed(files: Sequence[Path], dotconfig: Path, tree: Path) -> list[Missed]:
    """Return the lines of the fragments *files* that *dotconfig* does not honour.

    Where several lines set one option, the last one counts.
    """
    wanted = {
        option: (file, number, value) for file in files for number, option, value in _lines(file)
    }
    got = settings(dotconfig)
    lost = {option: entry for option, entry in wanted.items() if got.get(option, "n") != entry[2]}
    if not lost:
        return []
    defined = _definitions(tree, lost)
    return [
        Missed(
            line=f"CONFIG_{option}={value}",
            file=file,
            number=number,
            reason=f"it is {got.get(option, 'not set')}; see {defined[option]}"
            if option in defined
            else "this tree has no such option",
        )
        for option, (file, number, value) in lost.items()
    ]


def _definitions(tree: Path, options: Container[str]) -> dict[str, str]:
    """Return where the Kconfig files of *tree* define each of *options*, and what it depends on."""
    found: dict[str, str] = {}
    for file in sorted(tree.rglob("Kconfig*")):
        name = file.relative_to(tree)
        if not file.is_file() or name.parts[0].startswith("o."):
            continue
        text = file.read_text(errors="replace")
        for match in _DEFINITION.finditer(text):
            if match[1] in options:
                number = text.count("\n", 0, match.start()) + 1
                needs = [
                    " ".join(line.replace("\\\n", " ").split())
                    for line in _DEPENDS.findall(match[2])
                ]
                found[match[1]] = ", ".join([f"{name}:{number}", *needs])
    return found
