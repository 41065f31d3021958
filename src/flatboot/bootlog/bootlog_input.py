"""Where a log comes from: a file, standard input, or the ring buffer of this machine."""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from zstandard import ZstdDecompressor, ZstdError

from flatboot.bootlog import bootlog_lines
from flatboot.bootlog.bootlog import Analysis, analyze_each, analyze_lines
from flatboot.bootlog.bootlog_boots import NoBoot
from flatboot.bootlog.bootlog_lines import Line
from flatboot.common import disk, progress
from flatboot.common.errors import FlatbootError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

T = TypeVar("T")


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


KMSG = Path("/dev/kmsg")
STDIN = "-"
_CHUNK = 1 << 20
#: From this size on reading takes so long that progress is shown.
_LARGE = 64 << 20
_SAMPLE = 1 << 16
_BINARY_SHARE = 0.1
#: What compressed data begin with, their name, and what opens them as a stream.
_COMPRESSED: dict[bytes, tuple[str, Callable[[BufferedReader], _Stream]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ": ("xz", lzma.LZMAFile),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda file: _Zstd(file)),
}
#: What text in two bytes a character begins with, as Windows writes it, and what reads it.
_WIDE: dict[bytes, Callable[[], codecs.IncrementalDecoder]] = {
    b"\xff\xfe": lambda: codecs.getincrementaldecoder("utf-16-le")("replace"),
    b"\xfe\xff": lambda: codecs.getincrementaldecoder("utf-16-be")("replace"),
}
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error, ZstdError)
_CONTROLS = bytes(sorted({*range(32), 127} - {*b"\t\n\r\x1b"}))
#: The longest record of /dev/kmsg.
_RECORD = 8192


class _Zstd:
    """What is packed by zstd, as a stream; the library takes a file that was cut for whole."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        #: The frame that has begun and not ended.
        self._frame: ZstdDecompressionObj | None = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        while data := self._rest or self._file.read(min(size, _SAMPLE)):
            frame = self._frame or ZstdDecompressor().decompressobj()
            unpacked = frame.decompress(data)
            self._rest = frame.unused_data if frame.eof else b""
            self._frame = None if frame.eof else frame
            if unpacked:
                return unpacked
        if self._frame:
            raise EOFError("it ends within a frame")
        return b""


class _Source:
    """The bytes of a log, unpacked as they are read, and what can be said of them."""

    def __init__(self, file: BufferedReader, step: progress.Step | None) -> None:
        head = file.peek()
        known = (how for magic, how in _COMPRESSED.items() if head.startswith(magic))
        self.packed, opened = next(known, ("", None))
        self._raw = file
        self._file = opened(file) if opened else file
        self._step = step
        self.count = 0
        self.sample = b""

    def __iter__(self) -> Iterator[bytes]:
        decoder = None
        while chunk := self._file.read(_CHUNK):
            if not self.count:
                decoder = next((make() for mark, make in _WIDE.items() if chunk[:2] == mark), None)
            self.count += len(chunk)
            self.sample = self.sample or chunk[:_SAMPLE]
            if self._step is not None:
                self._step.update(self._raw.tell() if self._raw.seekable() else self.count)
            yield decoder.decode(chunk).encode() if decoder else chunk


def analyze(name: str, boot: int | None = None) -> Analysis:
    """Return what the log in the file *name* ("-": standard input) tells.

    It is read as a stream, and unpacked if need be: memory does not grow with its size.

    Raises:
        FlatbootError: it cannot be read, is empty, binary or damaged, or holds no boot.
        UsageError: it holds fewer boots than *boot*.
    """
    return _of(name, lambda lines: analyze_lines(lines, boot))


def analyze_boots(name: str) -> list[Analysis | NoBoot]:
    """Return what each boot in the file *name* tells, or why it tells nothing; otherwise as above.

    Their messages are left out.
    """

    def short(lines: Iterator[Line]) -> list[Analysis | NoBoot]:
        found = [
            item if isinstance(item, NoBoot) else replace(item, messages=[])
            for item in analyze_each(lines)
        ]
        if not found:
            raise NoBoot("the log holds no message of a Linux kernel")
        return found

    return _of(name, short)


def of_texts(name: str, what: Callable[[Iterator[str]], T]) -> T:
    """Return *what* says of the lines of the file *name*, as they stand; otherwise as above."""
    return _through(name, lambda source: what(bootlog_lines.split(source)))


def _of(name: str, what: Callable[[Iterator[Line]], T]) -> T:
    """Return *what* says of the messages of the file *name*."""
    return _through(name, lambda source: what(bootlog_lines.parse(bootlog_lines.split(source))))


def _through(name: str, what: Callable[[_Source], T]) -> T:
    with disk.reading(name):
        if name == STDIN:
            return _shown("standard input", cast(BufferedReader, sys.stdin.buffer), what)
        with Path(name).open("rb") as file:
            return _shown(name, file, what)


def analyze_live(path: Path = KMSG) -> Analysis:
    """Return what the ring buffer of this machine tells of its boot.

    Raises:
        FlatbootError: it cannot be read, or no longer holds the boot.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except PermissionError as error:
        raise FlatbootError(f"{path} is for root only: try sudo") from error
    except OSError as error:
        raise FlatbootError(f"cannot read {path}: {error.strerror}") from error
    try:
        lines = bootlog_lines.parse(bootlog_lines.split(_records(handle)))
        return analyze_lines(lines)
    except NoBoot as error:
        raise FlatbootError(f"{path}: {error}") from error
    finally:
        os.close(handle)


def _records(handle: int) -> Iterator[bytes]:
    while True:
        try:
            record = os.read(handle, _RECORD)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            continue  # overwritten while it was read; the numbers show it
        if not record:
            return
        yield record


def _shown(name: str, file: BufferedReader, what: Callable[[_Source], T]) -> T:
    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    if size is not None and size < _LARGE:
        return _read(name, _Source(file, None), what)
    with progress.step(f"reading {name}", total=size) as step:
        return _read(name, _Source(file, step), what)


def _read(name: str, source: _Source, what: Callable[[_Source], T]) -> T:
    try:
        return what(source)
    except NoBoot as error:
        raise FlatbootError(f"{name}: {_why(source) or error}") from error
    except _DAMAGED as error:
        if not source.packed or (isinstance(error, OSError) and error.errno):
            raise
        raise FlatbootError(
            f"{name}: the {source.packed} data are damaged ({error}): copy the log anew"
        ) from error


def _why(source: _Source) -> str:
    """Return what is wrong with the bytes themselves, or ""."""
    if not source.count:
        return "the log is empty"
    controls = len(source.sample) - len(source.sample.translate(None, _CONTROLS))
    if controls > _BINARY_SHARE * len(source.sample):
        return "it is binary, not a log: give the text of dmesg, journalctl or a console"
    return ""
