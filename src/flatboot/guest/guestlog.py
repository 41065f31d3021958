"""What a guest's /init printed on the console: results, files, and the kernel log."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RESULT = re.compile(r"^flatboot: ([^\s=]+)=(.*)$", re.MULTILINE)
_DUMP = re.compile(
    r"^flatboot: begin (\S+)\n(.*?)\nflatboot: end \1 (\d+)$", re.MULTILINE | re.DOTALL
)
_MESSAGE = re.compile(r"^\d+,\d+,(\d+),[^;]*;(.*)$")
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_COMPLETE = "flatboot: complete"
_LOG = "dmesg"
_EXIT = "exit."
#: A message of the kernel on the console, which may begin within a line of a program.
_ON_CONSOLE = r"\[ *\d+\.\d{6}\] .*\n"
#: Messages of the kernel that came in the middle of a line of a program.
_INTRUDERS = re.compile(rf"(?<=[^\n])(?:{_ON_CONSOLE})+")


@dataclass(frozen=True)
class GuestLog:
    """The parts of a console's text.

    Attributes:
        results: the KEY=VALUE lines; of a key that comes twice, the last.
        exits: each program's name and exit status, in the order in which they ended.
        files: content of the files that /init printed, by path.
        log: the kernel log, a line a message: ``[seconds] text``.
        panic: what the kernel panicked of, or "".
        complete: whether /init came to its end.
        torn: files that other output fell into than messages of the kernel, which are taken out.
    """

    results: dict[str, str]
    exits: list[tuple[str, str]]
    files: dict[str, str]
    log: str
    panic: str
    complete: bool
    torn: list[str]


def parse(console: str) -> GuestLog:
    """Take *console*, line ends of a terminal included, apart."""
    text = console.replace("\r\n", "\n")
    files: dict[str, str] = {}
    torn: list[str] = []
    for path, content, length in _DUMP.findall(text):
        files[path] = _without_messages(content, int(length))
        if len(files[path].encode()) != int(length):
            torn.append(path)
    outside = _INTRUDERS.sub("", _DUMP.sub("", text))
    found = _RESULT.findall(outside)
    panic = _PANIC.search(outside)
    return GuestLog(
        results=dict(found),
        exits=[(key.removeprefix(_EXIT), value) for key, value in found if key.startswith(_EXIT)],
        files={path: content for path, content in files.items() if path != _LOG},
        log=kernel_log(files.get(_LOG, "")),
        panic=panic[1].strip() if panic else "",
        complete=_COMPLETE in outside.splitlines(),
        torn=torn,
    )


def _without_messages(content: str, length: int) -> str:
    """Return a file of *length* bytes, without messages of the kernel if just they fell in."""
    if len(content.encode()) == length:
        return content
    # The last may stand behind the line end that /init prints after a file.
    mended = re.sub(_ON_CONSOLE, "", content + "\n").removesuffix("\n")
    return mended if len(mended.encode()) == length else content


def kernel_log(records: str) -> str:
    """Return the records of /dev/kmsg as lines of dmesg: ``[    1.234567] text``."""
    lines = []
    for line in records.splitlines():
        if match := _MESSAGE.match(line):
            micros = int(match[1])
            lines.append(f"[{micros // 1_000_000:5d}.{micros % 1_000_000:06d}] {match[2]}")
    return "\n".join(lines)
