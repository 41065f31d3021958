"""From the lines of a log to its boots: where each begins, and what of it is noise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flatboot.bootlog.bootlog_lines import PLAIN, Format, Line
from flatboot.common.errors import FlatbootError, UsageError

#: What a kernel says first of itself.
BANNER = re.compile(r"Linux version \d")
_BANNER = "Linux version "
_USER_SPACE = re.compile(
    r"Run \S+ as init process|systemd\[1\]: |Freeing (?:unused kernel|init memory)"
)
#: CPUs whose clocks differ print out of order, by less than this.
_DISORDER_NS = 1_000_000_000
#: A counter of milliseconds that has 32 bits begins 300 s before it wraps, in kernels that want to
#: see what comes of that.
_WRAP_NS = (1 << 32) * 1_000_000
_BEFORE_WRAP_NS = _WRAP_NS - 301 * 1_000_000_000
#: Kernel messages by which a log without times and without its start is known.
_KERNEL = re.compile(
    r"(?:NET: Registered|Freeing (?:init|unused kernel) memory|io scheduler |TCP: |TCP reno|ACPI: "
    r"|devtmpfs: |Booting Linux|VFS: Mounted root|usb \d|pci 0000:)"
)
_CONFIRM = 3
#: Bound on what is kept of one boot, in bytes, if a message takes so many beside its text.
_MOST_BYTES = 48 << 20
_MESSAGE_BYTES = 100


class NoBoot(FlatbootError):
    """The log holds nothing that tells of a boot; the text says what it is about."""


@dataclass
class BootLog:
    """The messages of one boot.

    Attributes:
        lines: those with a time, if any has one; else all. Times are nanoseconds since the kernel's
            clock began; since the first line where the log says the time of day.
        format: the form of most lines.
        whole_start: whether the log holds the kernel's first message.
        missed: messages that the numbers of /dev/kmsg show to be missing.
        torn: messages whose time cannot be right.
        replayed: messages that came a second time, as a console does that begins late.
        overflow: whether the boot was too long to be kept, so that its end is missing.
    """

    lines: list[Line] = field(default_factory=list)
    format: Format = PLAIN
    whole_start: bool = False
    missed: int = 0
    torn: int = 0
    replayed: int = 0
    overflow: bool = False


def choose(lines: Iterable[Line], wanted: int | None = None) -> tuple[BootLog, int, int]:
    """Return boot number *wanted* (from 1) of *lines*, its number, and how many there are.

    None for *wanted* is the last that has a start, or the last if none has. Only one boot is kept
    at a time, and of that a bounded amount.

    Raises:
        NoBoot: there is none.
        UsageError: there are fewer than *wanted*.
    """
    splitter = _Splitter(wanted)
    for line in lines:
        splitter.add(line)
    splitter.end()
    if splitter.count == 0 or splitter.chosen is None:
        if wanted is not None and splitter.count:
            raise UsageError(f"there is no boot {wanted}: the log holds {splitter.count}")
        raise NoBoot(
            "the log has no times and does not begin with the boot: give it from 'Linux version'"
            " on, and boot with printk.time=1 to see where time goes"
            if splitter.without_times
            else "the log holds no message of a Linux kernel"
        )
    return splitter.chosen, splitter.number, splitter.count


def each(lines: Iterable[Line]) -> Iterator[BootLog]:
    """Yield the boots of *lines* in their order, of which one is kept at a time."""
    splitter = _Splitter(None)
    for line in lines:
        splitter.add(line)
        yield from splitter.taken()
    splitter.end()
    yield from splitter.taken()


class _Splitter:
    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self._done: list[BootLog] = []
        self._start()
        self.count = 0
        self.chosen: BootLog | None = None
        self.number = 0
        self.without_times = False

    def _start(self) -> None:
        self._boot = BootLog()
        self._plain: list[Line] = []
        self._bytes = 0
        self._latest = 0
        self._banner: int | None = None
        self._user_space = False
        self._sequence: int | None = None
        self._id = ""
        #: Lines that may be the beginning of another boot, a replay, or torn.
        self._pending: list[Line] = []
        self._replay: int | None = None

    def add(self, line: Line) -> None:
        """Take the next line of the log."""
        if line.at is None:
            self._add_plain(line)
        elif line.boot and self._id and line.boot != self._id:
            self._next([line])
        elif self._replay is not None:
            self._add_replayed(line)
        elif line.text.startswith(_BANNER) and BANNER.match(line.text) and self._is_again(line):
            if self._can_be_replay(line):
                self._replay = self._banner
                self._add_replayed(line)
            else:
                early = [item for item in self._pending if (item.at or 0) < _DISORDER_NS]
                self._boot.torn += len(self._pending) - len(early)
                self._next([*early, line])
        elif line.format.clock == "kernel" and line.at + _DISORDER_NS < self._latest:
            self._pending.append(line)
            if len(self._pending) == _CONFIRM:
                self._settle()
        else:
            self._boot.torn += len(self._pending)
            self._pending.clear()
            self._keep(line)

    def end(self) -> None:
        """Say that there are no more lines."""
        if self._replay is not None:
            self._boot.replayed += len(self._pending)
        else:
            self._boot.torn += len(self._pending)
        self._finish()

    def taken(self) -> Iterator[BootLog]:
        """Yield the boots that have ended since it was last asked."""
        while self._done:
            yield self._done.pop(0)

    def _is_again(self, line: Line) -> bool:
        """Return whether *line*, a banner, belongs to another boot than the present one."""
        if self._banner is not None:
            return True
        return self._latest > _DISORDER_NS and line.format.clock == "kernel"

    def _can_be_replay(self, line: Line) -> bool:
        if self._banner is None or self._user_space:
            return False
        first = self._boot.lines[self._banner]
        return (first.at, first.text) == (line.at, line.text)

    def _add_replayed(self, line: Line) -> None:
        assert self._replay is not None
        known = self._boot.lines[self._replay : self._replay + 1]
        if [(same.at, same.text) for same in known] == [(line.at, line.text)]:
            self._pending.append(line)
            self._replay += 1
        elif (line.at or 0) >= self._latest:
            self._boot.replayed += len(self._pending)
            self._pending, self._replay = [], None
            self.add(line)
        else:
            self._next([*self._pending, line])

    def _settle(self) -> None:
        """Say what the pending lines, all of them earlier than the last one kept, are."""
        pending, self._pending = self._pending, []
        first = pending[0].at or 0
        if max(line.at or 0 for line in pending) < _DISORDER_NS and self._latest > _DISORDER_NS:
            self._next(pending)
            return
        kept = self._boot.lines
        while kept and (kept[-1].at or 0) > first + _DISORDER_NS:
            kept.pop()
            self._boot.torn += 1
        self._latest = max((line.at or 0 for line in kept), default=0)
        for line in pending:
            self._keep(line)

    def _keep(self, line: Line) -> None:
        if line.sequence is not None:
            if self._sequence is not None and line.sequence > self._sequence + 1:
                self._boot.missed += line.sequence - self._sequence - 1
            self._sequence = line.sequence
        self._id = line.boot or self._id
        self._latest = max(self._latest, line.at or 0)
        self._bytes += _MESSAGE_BYTES + len(line.text)
        if self._bytes > _MOST_BYTES:
            self._boot.overflow = True
            return
        if line.text.startswith(_BANNER) and BANNER.match(line.text):
            self._banner = len(self._boot.lines)
            self._boot.whole_start = True
        self._user_space = self._user_space or bool(_USER_SPACE.match(line.text))
        self._boot.lines.append(line)

    def _add_plain(self, line: Line) -> None:
        self.without_times = self.without_times or bool(_KERNEL.search(line.text))
        if self._boot.lines:
            return  # noise: the messages of this boot have times
        if BANNER.match(line.text):
            if self._plain:
                self._next([])
            self._plain.append(line)
        elif self._plain and self._bytes < _MOST_BYTES:
            self._bytes += _MESSAGE_BYTES + len(line.text)
            self._plain.append(line)

    def _next(self, lines: list[Line]) -> None:
        self._pending = []
        self._finish()
        self._start()
        for line in lines:
            self.add(line)

    def _finish(self) -> None:
        boot = self._boot
        if boot.lines:
            boot.format = boot.lines[len(boot.lines) // 2].format
            if boot.format.clock != "kernel" or (boot.lines[0].at or 0) > _BEFORE_WRAP_NS:
                _count_from_first(boot.lines)
        elif self._plain:
            boot.lines, boot.whole_start = self._plain, True
        else:
            return
        self.count += 1
        self._done = [boot]
        if self._wanted == self.count or (
            self._wanted is None
            and (self.chosen is None or boot.whole_start or not self.chosen.whole_start)
        ):
            self.chosen, self.number = boot, self.count


def _count_from_first(lines: list[Line]) -> None:
    """Make times those since the first line; a counter that wrapped goes on."""
    first = lines[0].at or 0
    wraps = _WRAP_NS if lines[0].format.clock == "kernel" else 0
    for index, line in enumerate(lines):
        at = (line.at or 0) - first
        at += wraps if at < 0 else 0
        lines[index] = Line(line.text, line.format, at, line.level)
