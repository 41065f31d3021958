"""What the kernel sizes by memory when it boots, and leaves so when memory comes later."""

from __future__ import annotations

from dataclasses import dataclass

from adding import AWAIT
from deferred_mem import DEFERRED
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.guest import borrowed
from flatboot.record.excerpts import Reads

MEMORY = "12G"
_DEV = "/size-of-dev"
_PROGRAM = f"busybox sh -c 'set -- $(busybox df -k /dev | busybox tail -n 1); echo $2 > {_DEV}'"


@dataclass(frozen=True)
class Limit:
    """A limit, the file that tells it, the word of the line with that *start*, and its setting."""

    name: str
    path: str
    set_by: str
    start: str = ""
    word: int = 0

    @property
    def label(self) -> str:
        """What a record calls the file."""
        return self.path.strip("/").replace("/", "-")

    def of(self, text: str) -> int:
        """Return the limit that *text* tells of."""
        (line,) = (line for line in text.splitlines() if line.startswith(self.start))
        return int(line.split()[self.word])


LIMITS = (
    Limit("threads", "/proc/sys/kernel/threads-max", "kernel.threads-max"),
    Limit("processes of a user", "/proc/self/limits", "LimitNPROC=", "Max processes", 2),
    Limit("pending signals", "/proc/self/limits", "LimitSIGPENDING=", "Max pending signals", 3),
    Limit("open files", "/proc/sys/fs/file-max", "fs.file-max"),
    Limit("epoll watches", "/proc/sys/fs/epoll/max_user_watches", "fs.epoll.max_user_watches"),
    Limit(
        "inotify watches",
        "/proc/sys/fs/inotify/max_user_watches",
        "fs.inotify.max_user_watches",
    ),
    Limit("tmpfs on /dev, kB", _DEV, "mount -o remount,size=50% /dev"),
    Limit("kB kept free", "/proc/sys/vm/min_free_kbytes", "the kernel, as memory comes"),
)
_FILES = {limit.label: limit.path for limit in LIMITS}
_READS = Reads(
    files=tuple(
        (label, tuple(f"{limit.start}*" for limit in LIMITS if limit.label == label))
        for label in _FILES
    )
)


def table(kept: Kept) -> Table:
    """Return each limit with all memory at boot, and once what mem= hid was added."""
    made = Table(title=f"Limits that boot sizes by memory, {MEMORY[:-1]} GiB; deferred: {DEFERRED}")
    made.add_column("limit")
    for heading in ("all at boot", "deferred, then all"):
        made.add_column(heading, justify="right")
    made.add_column("set by")
    stock, ours = (_limits(kept, flavour) for flavour in ("stock", "flatboot"))
    for limit in LIMITS:
        made.add_row(limit.name, f"{stock[limit]:,}", f"{ours[limit]:,}", limit.set_by)
    return made


def _limits(kept: Kept, flavour: str) -> dict[Limit, int]:
    """Return the limits in a guest of *flavour* that has all its memory."""
    shown = tuple(f"poke show {label} {path}" for label, path in _FILES.items())
    deferred = flavour == "flatboot"
    wanted = Wanted(
        "limits",
        flavour,
        MEMORY,
        DEFERRED if deferred else "",
        programs=(*((AWAIT,) if deferred else ()), _PROGRAM, *shown),
        config="users",
        fills=False,
        files=tuple(borrowed.files("busybox").items()),
        reads=_READS,
    )
    record = kept(wanted)
    return {limit: limit.of(record.files[limit.label]) for limit in LIMITS}
