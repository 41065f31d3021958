"""Many records in one SQLite file, which any later command and any SQL tool reads."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from flatboot.common import disk
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import excerpts, record
from flatboot.record.record import Record

SCHEMA = 2
# What SQLite notes in the file's head: the program that the file belongs to ("Flat").
_APPLICATION = 0x466C6174
_MAGIC = b"SQLite format 3\0"
_TABLES = f"""
PRAGMA auto_vacuum = FULL;
BEGIN IMMEDIATE;
CREATE TABLE boots (
    boot INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    base TEXT NOT NULL,
    version TEXT NOT NULL,
    flavour TEXT NOT NULL,
    config TEXT NOT NULL,
    config_hash TEXT NOT NULL,
    arch TEXT NOT NULL,
    memory_bytes INTEGER NOT NULL,
    cpus INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    cmdline TEXT NOT NULL,
    clock TEXT NOT NULL,
    to_init INTEGER NOT NULL,
    host_peak_bytes INTEGER NOT NULL,
    created TEXT NOT NULL,
    record BLOB NOT NULL
);
CREATE TABLE texts (
    boot INTEGER PRIMARY KEY REFERENCES boots ON DELETE CASCADE,
    console BLOB NOT NULL,
    log BLOB NOT NULL
);
CREATE TABLE phases (
    boot INTEGER NOT NULL REFERENCES boots ON DELETE CASCADE,
    name TEXT NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL
);
CREATE INDEX phases_of_boot ON phases (boot);
CREATE TABLE calls (
    boot INTEGER NOT NULL REFERENCES boots ON DELETE CASCADE,
    function TEXT NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL
);
CREATE INDEX calls_of_boot ON calls (boot);
CREATE TABLE failures (
    key TEXT PRIMARY KEY,
    reason TEXT NOT NULL
);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {SCHEMA};
COMMIT;
"""


class Damaged(FlatbootError):
    """A file that is no results file, or no longer one."""


class Results:
    """An open results file; as a context manager it closes on exit.

    The table ``boots`` holds each record (JSON, compressed by zlib) beside columns for SQL, and
    ``texts`` its console and log, likewise, which are most of it and which few ask for; ``phases``
    and ``calls`` hold its phases and initcalls, in units of the record's clock; ``failures`` what
    did not boot when it was last tried, and why.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Belong to the open *connection*; ``open`` makes one."""
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, *, create: bool = False) -> Self:
        """Open the results file *path*, or make it if it is missing and *create* says so.

        Raises:
            FlatbootError: it is missing, cannot be read or made, or a newer flatboot wrote it.
            Damaged: it is no results file, or an older one.
        """
        if not path.exists() and not create:
            raise FlatbootError(f"there is no {path}: make it with flatboot sweep --output {path}")
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=60)
        try:
            with _explained(path):
                _prepare(connection, path, create)
        except BaseException:
            connection.close()
            raise
        return cls(path, connection)

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, key: str, record: Record) -> None:
        """Keep *record* under *key*, in place of what was there, and forget the key's failure.

        It is on the disk when this returns.

        Raises:
            FlatbootError: the file cannot be written.
        """
        kernel, machine = record.kernel, record.machine
        row = {
            "key": key,
            "base": kernel.base,
            "version": kernel.version,
            "flavour": kernel.flavour,
            "config": kernel.config,
            "config_hash": kernel.config_hash,
            "arch": machine.arch,
            "memory_bytes": machine.memory_bytes,
            "cpus": machine.cpus,
            "nodes": max(len(machine.nodes), 1),
            "cmdline": record.cmdline,
            "clock": record.clock,
            "to_init": record.to_init,
            "host_peak_bytes": record.host_peak_bytes,
            "created": record.created,
            "record": _packed(dataclasses.replace(record, console="", log="").text()),
        }
        with _explained(self.path), self._connection as connection:
            connection.execute("DELETE FROM boots WHERE key = ?", (key,))
            connection.execute("DELETE FROM failures WHERE key = ?", (key,))
            boot = connection.execute(
                f"INSERT INTO boots ({', '.join(row)}) VALUES (:{', :'.join(row)})", row
            ).lastrowid
            texts = (boot, _packed(record.console), _packed(record.log))
            connection.execute("INSERT INTO texts VALUES (?, ?, ?)", texts)
            connection.executemany(
                "INSERT INTO phases VALUES (?, ?, ?, ?)",
                [(boot, phase.name, phase.start, phase.length) for phase in record.phases],
            )
            connection.executemany(
                "INSERT INTO calls VALUES (?, ?, ?, ?)",
                [(boot, call.function, call.start, call.length) for call in record.calls],
            )

    def fail(self, key: str, reason: str) -> None:
        """Note that the boot *key* failed for *reason*; nothing else about it changes.

        Raises:
            FlatbootError: the file cannot be written.
        """
        with _explained(self.path), self._connection as connection:
            connection.execute("INSERT OR REPLACE INTO failures VALUES (?, ?)", (key, reason))

    def find(self, key: str) -> Record | None:
        """Return the whole record of *key*, or None.

        Raises:
            Damaged: the file or the record cannot be read.
        """
        with _explained(self.path):
            row = self._connection.execute(
                "SELECT record, console, log FROM boots JOIN texts USING (boot) WHERE key = ?",
                (key,),
            ).fetchone()
            if row is None:
                return None
            console, log = map(_unpacked, row[1:])
            return dataclasses.replace(_parsed(row[0], key, self.path), console=console, log=log)

    def prune(self, most: int) -> None:
        """Forget all but the *most* records that were added last.

        Raises:
            FlatbootError: the file cannot be written.
        """
        with _explained(self.path), self._connection as connection:
            connection.execute(
                "DELETE FROM boots WHERE boot <= (SELECT max(boot) FROM boots) - ?", (most,)
            )

    def keys(self) -> set[str]:
        """Return the keys of all records."""
        with _explained(self.path):
            return {key for (key,) in self._connection.execute("SELECT key FROM boots")}

    def failures(self) -> dict[str, str]:
        """Return why boots failed that have not succeeded since, by key."""
        with _explained(self.path):
            return dict(self._connection.execute("SELECT key, reason FROM failures"))

    def records(self) -> list[Record]:
        """Return all records, without console and log, in the order in which they were added.

        Raises:
            FlatbootError: the file cannot be read, or a newer flatboot wrote one of them.
        """
        return list(self.by_key().values())

    def by_key(self, keys: Collection[str] | None = None) -> dict[str, Record]:
        """Return the records of *keys*, or all, by their keys and without console and log.

        They come in the order in which they were added.

        Raises:
            FlatbootError: the file cannot be read, or a newer flatboot wrote one of them.
        """
        with _explained(self.path):
            rows = self._connection.execute(
                "SELECT key, record FROM boots"
                " WHERE ?1 IS NULL OR key IN (SELECT value FROM json_each(?1)) ORDER BY boot",
                (None if keys is None else json.dumps(sorted(keys)),),
            ).fetchall()
            return {key: _parsed(blob, key, self.path) for key, blob in rows}


def read(paths: Sequence[Path]) -> list[Record]:
    """Return every record in *paths*: record files, folders of them (``*.json``), results files.

    A file of excerpts counts as a record file that holds many; what an excerpt lacks is empty.
    They come in the order of *paths*; a folder's in the order of their names, excerpts in that of
    theirs, and those of a results file in the order in which they were added.

    Raises:
        FlatbootError: one of them cannot be read, or is no record and no results file.
        UsageError: there is no record in any of them.
    """
    found: list[Record] = []
    for path in paths:
        if path.is_dir():
            found += [one for file in sorted(path.glob("*.json")) for one in _of_file(file)]
        elif path.suffix == ".sqlite" or _is_database(path):
            with Results.open(path) as results:
                found += results.records()
        else:
            found += _of_file(path)
    if not found:
        raise UsageError(f"there is no record in {', '.join(map(str, paths)) or 'nothing'}")
    return found


def _parsed(blob: bytes, key: str, path: Path) -> Record:
    return record.parse(zlib.decompress(blob), f"boot {key} in {path}")


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode())


def _unpacked(blob: bytes) -> str:
    return zlib.decompress(blob).decode()


def _of_file(path: Path) -> list[Record]:
    """Return the record in *path*, or those of all its excerpts."""
    with disk.reading(path):
        text = path.read_bytes()
    if excerpts.is_file(text):
        return [kept.record for kept in excerpts.parse(text, str(path)).values()]
    return [record.parse(text, str(path))]


def _is_database(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
    return False


def _prepare(connection: sqlite3.Connection, path: Path, create: bool) -> None:
    """Check that the file is ours, or make its tables if it is empty."""
    connection.execute("PRAGMA foreign_keys = ON")
    if _ours(connection, path):
        return
    if not create or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise Damaged(f"{path} is not a results file of flatboot: name another file")
    try:
        connection.executescript(_TABLES)
    except sqlite3.OperationalError:
        # Somebody else has made them meanwhile.
        connection.rollback()
        if not _ours(connection, path):
            raise


def _ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has our tables.

    Raises:
        FlatbootError: their layout is not the known one.
    """
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
    schema = connection.execute("PRAGMA user_version").fetchone()[0]
    told = f"{path} has schema {schema} and this flatboot knows {SCHEMA}"
    if ours and schema > SCHEMA:
        raise FlatbootError(f"{told}: update flatboot")
    if ours and schema < SCHEMA:
        raise Damaged(f"{told}: name another file")
    return bool(ours)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite or the file system says of *path* into one sentence."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.InterfaceError) as error:
        raise FlatbootError(f"cannot use {path} as a results file: {error}") from error
    except (sqlite3.Error, zlib.error) as error:
        raise Damaged(f"cannot use {path} as a results file: {error}") from error
    except OSError as error:
        raise FlatbootError(f"cannot write {path}: {error.strerror}") from error
