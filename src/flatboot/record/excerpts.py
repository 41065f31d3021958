"""Excerpts of records: what tables read of their boots and no more, those of a table in one file.

A record holds all that a boot left, its console above all. An excerpt of it holds what was booted
and what that cost, and of all else what ``Reads`` names. The file is JSON with each value on a line
of its own, in the order of the keys, so that a figure that changed is a line that changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flatboot.common import atomic, disk, locks, units
from flatboot.common.errors import FlatbootError
from flatboot.record.record import EmulatedMachine, Kernel, Phase, Record, Span

SCHEMA = 1
_BEGIN = re.compile(rb'\s*\{\s*"boots"')
# What tells the later of two functions of one name in a file: no symbol has it.
_AGAIN = " #"
_DIGITS = 8
# The fields of a record that an excerpt may lack.
_PARTS = frozenset(
    [
        *("phases", "calls", "notes", "results", "files", "wall_s", "console", "log"),
        *("functions", "spans"),
    ]
)


@dataclass(frozen=True)
class Reads:
    """What is read of a record besides what was booted, and what that cost.

    A pattern is one of ``fnmatch``: * stands for anything.

    Attributes:
        results: patterns of the results' names.
        files: paths, and patterns of the lines that are read of each.
        log: patterns of lines of the kernel log.
        phases: whether phases are read,
        functions: functions,
        spans: and spans.
    """

    results: tuple[str, ...] = ()
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    log: tuple[str, ...] = ()
    phases: bool = False
    functions: bool = False
    spans: bool = False

    def lacks(self, other: Reads) -> list[str]:
        """Return the names of the fields in which *other* reads what this does not."""
        mine = self._read()
        return [name for name, read in other._read().items() if not read <= mine[name]]

    def _read(self) -> dict[str, set[object]]:
        """Return what is read, by the field that names it."""
        return {
            "results": set(self.results),
            "files": {(path, line) for path, lines in self.files for line in lines},
            "log": set(self.log),
            "phases": {self.phases, False},
            "functions": {self.functions, False},
            "spans": {self.spans, False},
        }


#: Of a boot whose cost is all that is read.
NOTHING = Reads()


@dataclass(frozen=True)
class Excerpt:
    """What is kept of a boot.

    Attributes:
        record: the record; whatever *reads* does not name is empty.
        reads: what it was made for.
    """

    record: Record
    reads: Reads


def excerpt(whole: Record, reads: Reads) -> Excerpt:
    """Return what *reads* names of the record *whole*."""
    kept = Record(
        kernel=whole.kernel,
        machine=whole.machine,
        cmdline=whole.cmdline,
        clock=whole.clock,
        to_init=whole.to_init,
        phases=whole.phases if reads.phases else [],
        calls=[],
        notes=[],
        results={name: value for name, value in whole.results.items() if _any(name, reads.results)},
        files={path: _lines(whole.files.get(path, ""), lines) for path, lines in reads.files},
        host_peak_bytes=whole.host_peak_bytes,
        ram_bytes=whole.ram_bytes,
        wall_s=0.0,
        console="",
        log=_lines(whole.log, reads.log),
        created=whole.created,
        functions=whole.functions if reads.functions else {},
        spans=whole.spans if reads.spans else [],
    )
    return Excerpt(kept, reads)


def _any(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _lines(text: str, patterns: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if _any(line, patterns))


class _Named(dict[str, str]):
    """Texts by names, of which only those can be asked for that were named before."""

    def __init__(self, texts: Mapping[str, str], patterns: Iterable[str], where: str) -> None:
        super().__init__(texts)
        self._patterns = tuple(patterns)
        self._where = where

    def __getitem__(self, name: str) -> str:
        self._check(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._check(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None, /) -> Any:
        self._check(name)
        return super().get(name, default)

    def _check(self, name: object) -> None:
        if not _any(str(name), self._patterns):
            raise _unnamed(self._where, str(name))


@dataclass(frozen=True)
class Guarded(Record):
    """A record that tells who reads what *reads* does not name, instead of being empty there.

    Attributes:
        reads: what may be read.
        where: the boot, for the error.
    """

    reads: Reads = NOTHING
    where: str = ""

    def __getattribute__(self, name: str) -> Any:
        """Return the attribute *name*.

        Raises:
            FlatbootError: it is a part of the record that is not among what is read.
        """
        if name in _PARTS and not getattr(super().__getattribute__("reads"), name, False):
            raise _unnamed(super().__getattribute__("where"), name)
        return super().__getattribute__(name)


def guarded(kept: Excerpt, reads: Reads, where: str) -> Record:
    """Return the record of *kept*, of which nothing can be read but what *reads* names.

    *where* is the boot, for the error.
    """
    record = kept.record
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    fields["results"] = _Named(record.results, reads.results, where)
    fields["files"] = _Named(record.files, (path for path, _ in reads.files), where)
    return Guarded(**fields, reads=reads, where=where)


def _unnamed(where: str, name: str) -> FlatbootError:
    return FlatbootError(
        f"a table reads {name} of {where} and does not say so: name it in the reads of its Wanted,"
        " and boot anew"
    )


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class _Head(BaseModel):
    """What every schema has."""

    version: int = Field(alias="schema", strict=True)


class _Phase(_Model):
    name: str
    length: int


class _Cost(_Model):
    """A span without its functions; what is not written is as here."""

    calls: int
    open: int = 0
    total: int = 0
    waiting: int = 0
    working: int = 0
    spinning: int = 0
    step: int = -1


class _Boot(_Model):
    """A boot, whose kernel, machine and reads are names; what is not written is as here."""

    kernel: str
    machine: str
    reads: str
    cmdline: str
    clock: str
    created: str
    to_init: int
    host_peak_bytes: int
    ram_bytes: int = 0
    results: dict[str, str] = {}
    files: dict[str, list[str]] = {}
    log: list[str] = []
    phases: list[_Phase] = []
    functions: dict[str, int] = {}
    spans: dict[str, dict[str, _Cost]] = {}


class _ExcerptFile(_Model):
    version: int = Field(alias="schema")
    boots: dict[str, _Boot]
    kernels: dict[str, Kernel]
    machines: dict[str, EmulatedMachine]
    reads: dict[str, Reads]


def is_file(text: bytes) -> bool:
    """Return whether *text* is meant to be a file of excerpts; whether it is whole, is not said."""
    return _BEGIN.match(text) is not None


def load(path: Path) -> dict[str, Excerpt]:
    """Return the excerpts in the file *path*, by their names.

    Raises:
        FlatbootError: it cannot be read, is damaged, or a newer flatboot wrote it.
    """
    with disk.reading(path):
        return parse(path.read_bytes(), str(path))


def parse(text: bytes, where: str) -> dict[str, Excerpt]:
    """Return the excerpts that *text* holds, by their names; *where* it stands is for the errors.

    Raises:
        FlatbootError: it is damaged, or a newer flatboot wrote it.
    """
    try:
        version = _Head.model_validate_json(text).version
        if version > SCHEMA:
            raise FlatbootError(
                f"{where} has schema {version} and this flatboot knows {SCHEMA}: update flatboot"
            )
        file = _ExcerptFile.model_validate_json(text)
        return {name: _read(boot, file) for name, boot in file.boots.items()}
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _damaged(where, f"{place}: {first['msg']}" if place else first["msg"]) from error
    except KeyError as error:
        raise _damaged(where, f"it lacks {error.args[0]}, which a boot names") from error


def _damaged(where: str, why: str) -> FlatbootError:
    return FlatbootError(
        f"{where} is not a whole file of excerpts of records ({why}): take it from git again, or"
        " delete it and boot anew"
    )


def text(kept: Mapping[str, Excerpt]) -> str:
    """Return the file that holds *kept*, the same for the same excerpts."""
    boots, kernels, machines, reads = {}, {}, {}, {}
    for name, one in kept.items():
        record = one.record
        kernel, machine, read = (
            _kernel_name(record.kernel),
            _machine_name(record.machine),
            _hash(one.reads),
        )
        kernels[kernel], machines[machine], reads[read] = record.kernel, record.machine, one.reads
        boots[name] = _Boot(
            kernel=kernel,
            machine=machine,
            reads=read,
            cmdline=record.cmdline,
            clock=record.clock,
            created=record.created,
            to_init=record.to_init,
            host_peak_bytes=record.host_peak_bytes,
            ram_bytes=record.ram_bytes,
            results=record.results,
            files={path: said.splitlines() for path, said in record.files.items()},
            log=record.log.splitlines(),
            phases=[_Phase(name=phase.name, length=phase.length) for phase in record.phases],
            functions=record.functions,
            spans=_by_caller(record.spans),
        )
    file = _ExcerptFile(schema=SCHEMA, boots=boots, kernels=kernels, machines=machines, reads=reads)
    data = file.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def add(path: Path, name: str, kept: Excerpt) -> None:
    """Put *kept* into the file *path* as *name*, in place of what was there; make it if need be.

    The file is written whole or not at all, and whatever others put into it meanwhile stays.

    Raises:
        FlatbootError: it is damaged, or a newer flatboot wrote it.
    """
    with locks.exclusive(path.with_name(f".{path.name}.lock"), f"writing {path.name}"):
        before = load(path) if path.exists() else {}
        with atomic.new_file(path) as temporary:
            temporary.write_text(text({**before, name: kept}))


def _read(boot: _Boot, file: _ExcerptFile) -> Excerpt:
    """Return a boot of *file*.

    Raises:
        KeyError: the file lacks what the boot names.
    """
    phases, start = [], 0
    for phase in boot.phases:
        phases.append(Phase(phase.name, start, phase.length))
        start += phase.length
    record = Record(
        kernel=file.kernels[boot.kernel],
        machine=file.machines[boot.machine],
        cmdline=boot.cmdline,
        clock=boot.clock,
        to_init=boot.to_init,
        phases=phases,
        calls=[],
        notes=[],
        results=boot.results,
        files={path: "".join(f"{line}\n" for line in said) for path, said in boot.files.items()},
        host_peak_bytes=boot.host_peak_bytes,
        ram_bytes=boot.ram_bytes,
        wall_s=0.0,
        console="",
        log="".join(f"{line}\n" for line in boot.log),
        created=boot.created,
        functions=dict(sorted(boot.functions.items(), key=lambda item: (-item[1], item[0]))),
        spans=_spans(boot.spans),
    )
    return Excerpt(record, file.reads[boot.reads])


def _by_caller(spans: Iterable[Span]) -> dict[str, dict[str, _Cost]]:
    found: dict[str, dict[str, _Cost]] = {}
    for span in spans:
        functions = found.setdefault(span.caller, {})
        name, number = span.function, 1
        while name in functions:
            number += 1
            name = f"{span.function}{_AGAIN}{number}"
        fields = {key: getattr(span, key) for key in _Cost.model_fields}
        functions[name] = _Cost(**fields)
    return found


def _spans(by_caller: Mapping[str, Mapping[str, _Cost]]) -> list[Span]:
    """Return the spans in the order of a record: those that cost most first."""
    made = [
        Span(caller, name.partition(_AGAIN)[0], **cost.model_dump())
        for caller, functions in by_caller.items()
        for name, cost in functions.items()
    ]
    return sorted(made, key=lambda span: (-span.working, span.caller, span.function))


def _kernel_name(kernel: Kernel) -> str:
    return f"{kernel.flavour}-{kernel.config}-{_hash(kernel)}"


def _machine_name(machine: EmulatedMachine) -> str:
    size = units.binary_size(machine.memory_bytes).replace(" ", "")
    return f"{machine.arch}-{size}-{machine.cpus}c-{_hash(machine)}"


def _hash(value: Kernel | EmulatedMachine | Reads) -> str:
    """Return a short word for *value*, which no other has."""
    whole = json.dumps(dataclasses.asdict(value), sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]
