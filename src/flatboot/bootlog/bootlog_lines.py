"""From the bytes of any kernel log to its lines: time, text, level, sequence number."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatboot.bootlog.bootlog_records import Records
from flatboot.common import typed

_TABLE = Path(__file__).with_name("bootlog_formats.toml")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST = 1 << 16
_LONGEST_TEXT = 2048
#: Colours, cursor movements and titles of terminals, and what terminals do not show.
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f]"
)
_STAMP = re.compile(r"(?:<\d+>|^[a-z]+ *:[a-z]+ *: )?\[ *\d+\.\d{6}(?: <[^>]*>)?\]")
#: What a syslog puts before a message that has a stamp of the kernel.
_SYSLOG = re.compile(r"^[^\[]*? kernel(?:\[\d+\])?: (?=\[ *\d+\.\d{6}\])")
#: What a message on a line of its own begins with, as nearly all do.
_ONE_LINE = ("[", "<")
#: What a line of JSON that holds a message begins with.
_JSON = ('{"', "[{", "{ ")
#: The mark that some programs write at the beginning of a file.
_BYTE_ORDER = "\ufeff"
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True)
class Format:
    """A form in which messages are kept; see bootlog_formats.toml."""

    name: str
    pattern: re.Pattern[str]
    clock: str
    resolution_ns: int
    escaped: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A message.

    Attributes:
        text: the message itself.
        format: how it was kept; ``format.clock`` says what *at* counts from.
        at: nanoseconds, or None where the line has no time.
        level: 0 (emergency) to 7 (debug), or None where the log does not say.
        sequence: its number in the kernel's ring buffer, or None.
        boot: the journal's id of the boot, or "".
    """

    text: str
    format: Format
    at: int | None = None
    level: int | None = None
    sequence: int | None = None
    boot: str = ""


FORMATS = typed.load(_TABLE, dict[str, tuple[Format, ...]])["formats"]
KMSG, PLAIN = FORMATS[0], FORMATS[-1]
JOURNAL = Format("journalctl -o json", re.compile(r"\{"), "kernel", 1000)
FIELDS = Format("journalctl -o export or verbose", re.compile("__CURSOR"), "kernel", 1000)
DMESG_JSON = Format("dmesg --json", re.compile(r"\{"), "kernel", 1000)
#: Forms whose lines hold a stamp like ``[    0.123456]``, which may stand anywhere in a torn line.
_STAMPED = [item for item in FORMATS if "(?P<seconds>" in item.pattern.pattern]
#: What most lines of kernel logs are: the patterns of _STAMPED say the same, and take longer.
_DMESG = next(item for item in FORMATS if item.name == "dmesg")
_MOST = re.compile(r"\[ *(\d+)\.(\d{6})\] (?!c\d|[\w.-]+ (?:kernel: |systemd\[1\]: ))([A-Za-z].*)")
_OTHERS = [item for item in FORMATS if item not in (KMSG, PLAIN, *_STAMPED)]


def split(chunks: Iterable[bytes]) -> Iterator[str]:
    """Return the lines of a stream, line ends of any kind taken off.

    Of a line over 64 KiB only the beginning is kept, so that memory stays bounded.
    """
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line:
                yield line[:_LONGEST].decode(errors="replace")
        rest = rest[:_LONGEST]
    if rest:
        yield rest.decode(errors="replace")


def parse(texts: Iterable[str]) -> Iterator[Line]:
    """Return the messages of *texts* (lines of a log), in their order.

    A text in which several stamps stand was torn from several messages, each of which is returned.
    What has no time is returned without one: it may be noise, or the whole log may be so.
    """
    last = 0
    records = False
    spread = Records()
    for raw in texts:
        text = raw if raw.isprintable() else _TERMINAL.sub("", raw).removeprefix(_BYTE_ORDER)
        if text[:2] in _JSON and (entries := _entries(text)):
            yield from entries
        elif (spread.open or text[:1] not in _ONE_LINE or text[-1:] == "{") and spread.add(text):
            yield from filter(None, (_of_fields(entry, FIELDS) for entry in spread.taken()))
        elif text[:1].isdigit() and (match := KMSG.pattern.match(text)):
            records = True
            yield _line(KMSG, match, 0)
        elif records and text[:1] == " ":
            continue  # the dictionary that follows a record of /dev/kmsg
        else:
            for part in _torn(text):
                line = _other(part, last)
                last = line.at or 0 if line.format.clock == "steps" else last
                yield line
    yield from filter(None, (_of_fields(entry, FIELDS) for entry in spread.end()))


def _torn(text: str) -> list[str]:
    """Return the messages in *text*, each with its stamp in front."""
    if text[:1] == "[" and "[" not in text[1:]:
        return [text]  # as nearly all are
    text = _SYSLOG.sub("", text)
    starts = [match.start() for match in _STAMP.finditer(text)]
    bounds = [0, *(start for start in starts if start), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds) if start < end]


def _other(text: str, last: int) -> Line:
    if match := _MOST.match(text):
        seconds, micros, said = match.groups()
        at = int(seconds) * 1_000_000_000 + int(micros) * 1000
        return Line(said[:_LONGEST_TEXT].rstrip(), _DMESG, at)
    for item in _STAMPED if _STAMP.match(text) else _OTHERS:
        if match := item.pattern.match(text):
            return _line(item, match, last)
    match = PLAIN.pattern.match(text)
    assert match is not None  # it fits everything
    return _line(PLAIN, match, last)


def _line(item: Format, match: re.Match[str], last: int) -> Line:
    groups = match.groupdict()
    text = groups["text"][:_LONGEST_TEXT].rstrip()
    if item.escaped:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    priority, sequence = groups.get("priority"), groups.get("sequence")
    number = int(priority) & 7 if priority else None
    if (level := groups.get("level")) in _LEVELS:
        number = _LEVELS.index(level)
    return Line(text, item, _at(groups, last, item), number, int(sequence) if sequence else None)


def _at(groups: dict[str, str | None], last: int, item: Format) -> int | None:
    """Return nanoseconds since the kernel's clock began, or since 1970 for times of the day."""
    if item.clock == "none":
        return None
    if item.clock == "steps":
        return last + round(float(groups.get("step") or 0) * 1e9)
    if item.clock == "kernel":
        seconds = int(groups.get("seconds") or 0)
        return seconds * 1_000_000_000 + int(groups["micros"] or 0) * 1000
    fraction = int((groups.get("fraction") or "0").ljust(6, "0")) * 1000
    if epoch := groups.get("epoch"):
        return int(epoch) * 1_000_000_000 + fraction
    month = groups.get("month") or "1"
    try:
        moment = datetime.datetime(
            year=int(groups.get("year") or 2000),
            month=int(month) if month.isdigit() else _MONTHS.index(month.lower()) + 1,
            day=int(groups.get("day") or 1),
            hour=int(groups["hour"] or 0),
            minute=int(groups["minute"] or 0),
            second=int(groups["second"] or 0),
            tzinfo=datetime.UTC,
        )
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000 + fraction


def _entries(text: str) -> list[Line]:
    """Return the messages that a line of JSON holds: an object, one of a list, or all of it."""
    text = text.strip().rstrip(",")
    if text.startswith("[{") and not text.endswith("]"):
        text = text[1:]
    elif text.endswith("}]") and not text.startswith("["):
        text = text[:-1]
    try:
        entry = json.loads(text)
    except ValueError:
        return []
    entries = entry if isinstance(entry, list) else [entry]
    found = (_of_fields(item, JOURNAL) for item in entries if isinstance(item, dict))
    return [line for line in found if line]


def _of_fields(entry: dict[str, Any], item: Format) -> Line | None:
    """Return the message that fields hold: those of dmesg, or of the journal in the form *item*."""
    if "msg" in entry:
        return _of_dmesg(entry)
    return _of_journal(entry, item) if "MESSAGE" in entry else None


def _of_dmesg(entry: dict[str, Any]) -> Line:
    try:
        at, level = round(float(_last(entry["time"])) * 1e9), int(_last(entry["pri"])) & 7
    except (KeyError, ValueError, OverflowError):
        at, level = None, None
    return Line(_last(entry["msg"])[:_LONGEST_TEXT], DMESG_JSON, at, level)


def _of_journal(entry: dict[str, Any], item: Format) -> Line | None:
    message = entry["MESSAGE"]
    if message is None:  # it was too long for the journal's writer
        return None
    if isinstance(message, list) and all(isinstance(byte, int) for byte in message):
        message = bytes(byte & 255 for byte in message).decode(errors="replace")  # no UTF-8
    micros = _last(entry.get("_SOURCE_MONOTONIC_TIMESTAMP")) or _last(
        entry.get("__MONOTONIC_TIMESTAMP")
    )
    priority = _last(entry.get("PRIORITY"))
    who = ""
    if _last(entry.get("_TRANSPORT")) not in ("kernel", ""):
        who = f"{_last(entry.get('SYSLOG_IDENTIFIER'))}[{_last(entry.get('_PID'))}]: "
    return Line(
        f"{who}{_last(message)}"[:_LONGEST_TEXT],
        item,
        int(micros) * 1000 if micros.isdecimal() else None,
        int(priority) & 7 if priority.isdecimal() else None,
        boot=_last(entry.get("_BOOT_ID")),
    )


def _last(value: object) -> str:
    """Return a field's value as text, "" for none; of a field that comes several times the last."""
    if isinstance(value, list):
        value = value[-1] if value else None
    return "" if value is None else str(value)
