"""The supported kernel bases: the table kernel/bases.toml."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from flatboot.common import paths, typed
from flatboot.common.errors import check_known
from flatboot.kernel import groups


@dataclass(frozen=True)
class Base:
    """A kernel base as a Debian source package.

    Attributes:
        package: the Debian package that holds the source.
        suite: the Debian suite that has it.
        version: the package's pinned version.
        sha256: the checksum of the pinned package file.
        accepts: what the version of a later package must begin with to be taken in its place.
        configs: the package of Debian's configs that comes with it ("package"), and the checksum of
            the pinned one for each of Debian's architectures.
        name: its name here, and that of its folder in the hooks of each group.
    """

    package: str
    suite: str
    version: str
    sha256: str
    accepts: str
    configs: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class _BasesFile:
    default: str
    bases: dict[str, Base]


def _table() -> _BasesFile:
    return typed.load(paths.kernel_dir() / "bases.toml", _BasesFile)


def names() -> list[str]:
    """Return the names of the bases in the order of the table."""
    return list(_table().bases)


def with_hooks() -> list[str]:
    """Return the names of the bases that the flatboot flavour can be made of."""
    every = groups.every()
    return [name for name in names() if any(group.serves(name) for group in every)]


def default() -> str:
    """Return the name of the base that is used where none is named."""
    return _table().default


def load(name: str) -> Base:
    """Return the base *name*.

    Raises:
        UsageError: there is no such base.
    """
    table = _table().bases
    check_known("base", name, table)
    return dataclasses.replace(table[name], name=name)
