"""What commands keep of earlier runs: a JSON file of rows, each a dataclass with a name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flatboot.common import atomic, typed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Rows = TypeVar("_Rows")


def read(path: Path, kind: type[_Rows]) -> _Rows:
    """Return the rows in the file *path*, as *kind*, such as ``dict[str, Row]``; none without it.

    Raises:
        UsageError: the file does not hold such rows.
    """
    return typed.load(path, kind) if path.is_file() else kind()


def write(path: Path, rows: Mapping[str, DataclassInstance]) -> None:
    """Put *rows* in the file *path*, by name."""
    text = json.dumps(
        {name: asdict(rows[name]) for name in sorted(rows)}, indent=1, ensure_ascii=False
    )
    with atomic.new_file(path) as new:
        new.write_text(f"{text}\n")
