"""TOML and JSON as typed values; what does not fit them is one sentence with file and key."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from flatboot.common import disk
from flatboot.common.errors import FlatbootError, UsageError

_T = TypeVar("_T")
_adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)
_WORDS = {
    "bool_type": "write true or false",
    "dataclass_type": "write a table",
    "dict_type": "write a table",
    "float_type": "write a number",
    "int_type": "write a whole number",
    "literal_error": "choose {expected}",
    "string_type": "write a text in quotes",
    "too_short": "give it a value",
    "tuple_type": "write a list",
    "value_error": "{error}",
}


def toml(path: Path) -> dict[str, Any]:
    """Return what the TOML file *path* holds.

    Raises:
        FlatbootError: it cannot be read.
        UsageError: it is no TOML.
    """
    try:
        with disk.reading(path):
            return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def load(path: Path, kind: type[_T]) -> _T:
    """Return what the TOML or JSON file *path* holds, as ``json`` takes it.

    Raises:
        FlatbootError: it cannot be read, or does not fit.
    """
    if path.suffix == ".toml":
        return check(toml(path), kind, str(path))
    with disk.reading(path):
        return json(path.read_bytes(), kind, str(path))


def check(data: Mapping[str, Any], kind: type[_T], where: str = "") -> _T:
    """Return *data*, as TOML has it, as ``json`` does."""
    return json(to_json(data), kind, where)


def json(text: str | bytes, kind: type[_T], where: str) -> _T:
    """Return the JSON *text* as a *kind*, of dataclasses, tuples, dicts and plain types.

    Nothing is converted but whole numbers to floats, and no field is unknown; *where* the text
    comes from is for the error.

    Raises:
        FlatbootError: it does not fit.
    """
    try:
        fitting: _T = _adapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        said = _sentence(error, kind)
        raise FlatbootError(f"{where}: {said}" if where else said) from error
    return fitting


def _sentence(found: ValidationError, kind: Any) -> str:
    """Return what is wrong, and at which key; a misspelt key goes before the one that it lacks."""
    error = min(found.errors(), key=lambda one: one["type"] == "missing")
    if error["type"] == "json_invalid":
        return f"it holds no JSON: {error['ctx']['error']}"
    *path, last = error["loc"] or ("",)
    while path and isinstance(last, int):  # the value says which of a list it is
        *path, last = path
    title = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in [*path, last])
    key = title.lstrip(".")
    if error["type"] == "missing":
        return f"{key} is missing"
    if error["type"] == "unexpected_keyword_argument":
        return f"unknown key {key!r}: there are {', '.join(_fields(kind, path))}"
    words = _WORDS.get(error["type"], error["msg"].replace("Input should", "it should"))
    said = f"{error['input']!r:.60}"
    return f"{f'{key} = {said}' if key else said}: {words.format(**error.get('ctx', {}))}"


def _fields(kind: Any, path: list[str | int]) -> list[str]:
    """Return the fields of the dataclass that stands at *path* in a *kind*."""
    for part in path:
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind)[str(part)]
        else:
            kind = next(inner for inner in reversed(typing.get_args(kind)) if inner is not ...)
    return [field.name for field in dataclasses.fields(kind)]
