"""A boot to do: one value that says all that decides its outcome, and its key."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from flatboot.common import arches
from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError
from flatboot.guest import functions, initramfs, qemu
from flatboot.guest.machine import Machine
from flatboot.guest.qemu import Capabilities
from flatboot.kernel import fetch
from flatboot.kernel.build import KernelName
from flatboot.record import marks, spans

Clock = Literal["exact", "wall"]
Counted = Literal["", "init", "end"]
Functions = Literal["", "instructions", "lines"]
#: What counts by function, by what is counted.
_PLUGINS = {"instructions": "functions", "lines": "lines"}
CLOCKS: dict[str, Clock] = {"exact": "exact", "wall": "wall"}


class Image(Protocol):
    """What a boot needs to know of a kernel; flatboot.kernel.build.KernelImage is one."""

    @property
    def directory(self) -> Path:
        """The folder with the file that QEMU boots."""

    @property
    def base(self) -> str:
        """Name of the base."""

    @property
    def version(self) -> str:
        """The kernel's version."""

    @property
    def flavour(self) -> str:
        """The flavour."""

    @property
    def config(self) -> str:
        """Name of the config."""

    @property
    def config_hash(self) -> str:
        """Hash of the options that are set."""

    @property
    def compiler(self) -> str:
        """First line of the compiler's --version."""

    @property
    def system_map(self) -> Path:
        """The symbol table."""


@dataclass(frozen=True)
class BootSpec:
    """A boot to do.

    Attributes:
        kernel: the kernel: its image, or its names, by which it is built when it is needed.
        machine: the machine; see ``flatboot.guest.machine.machine``.
        cmdline: kernel parameters that come after the architecture's own.
        clock: "exact" counts instructions (TCG); "wall" is time (KVM where it works).
        programs: guest programs to run after /init has reported, each a command line such as
            "fill 64M".
        files: files that the guest's first file system has besides: their paths in it, and here.
            Those in bin/ are guest programs too.
        arguments: further arguments for QEMU, such as the devices that a test needs.
        phases: whether to find out where the time went. On the exact clock the boot is replayed
            for it, instruction by instruction the same, so it takes about twice as long.
        functions: what to count of each kernel function up to /init: "instructions", or "lines" of
            cache that came over from other CPUs; empty for nothing. On the exact clock only.
        spans: whether to count the instructions of chosen calls up to /init, see
            ``flatboot.record.spans``; on the exact clock only, and not together with *functions*.
        counted: where to stop counting the instructions of all CPUs, without delay loops and the
            time in which all wait: at "init" or at the "end", before the guest restarts; empty for
            not at all. It is the result ``counted``. On the exact clock only, not with *functions*
            or *spans*.
        timeout_s: host seconds that each run of the guest may take; no part of the key.
        run: which of several equal boots, where they differ from one to the next.
    """

    kernel: KernelName | Image
    machine: Machine
    cmdline: str = ""
    clock: Clock = "exact"
    programs: tuple[str, ...] = ()
    files: tuple[tuple[str, Path], ...] = ()
    arguments: tuple[str, ...] = ()
    phases: bool = False
    functions: Functions = ""
    spans: bool = False
    counted: Counted = ""
    timeout_s: float = 600
    run: int = 0

    @property
    def arch(self) -> Arch:
        """The architecture."""
        return arches.load(self.machine.arch)

    @property
    def image(self) -> Image:
        """The kernel's image, built now if need be; see ``flatboot.kernel.build.kernel``."""
        return self.kernel.image() if isinstance(self.kernel, KernelName) else self.kernel

    @property
    def repeats(self) -> bool:
        """Whether doing it again comes to the same: not where devices read files or are told."""
        return self.clock == "exact" and not any("/" in word for word in self.arguments)

    @property
    def plugin(self) -> str:
        """The plugin of QEMU that counts what is asked for; empty if nothing is."""
        if self.spans:
            return "spans"
        return _PLUGINS[self.functions or "instructions"] if self.functions or self.counted else ""

    def initramfs(self) -> bytes:
        """Return the guest's first files; see ``flatboot.guest.initramfs.make``."""
        return initramfs.make(self.arch, self.programs, self.clock, dict(self.files))

    def key(self, able: Capabilities | None = None) -> str:
        """Return what tells this boot from others: a hash of all that decides its outcome.

        Args:
            able: the QEMU that does it; None for a key that is the same whichever does.

        Raises:
            FlatbootError: the kernel cannot be built or read, or a program cannot be compiled.
        """
        image, arch = self.image, self.arch
        parts = {
            "kernel": digest(boot_file(image, arch)),
            "initramfs": hashlib.sha256(self.initramfs()).hexdigest(),
            "machine": dataclasses.asdict(self.machine),
            "cmdline": self.cmdline,
            "clock": self.clock,
            "arguments": self.arguments,
            "recorded": self._recorded(),
            "run": self.run,
        }
        if able is not None:
            model = qemu.cpu_model(arch, self.machine)
            parts["qemu"] = [able.version, able.machine, model, able.firmware]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _recorded(self) -> dict[str, list[str]]:
        """Return what is recorded besides the time to /init, and the files that it depends on."""
        plugin = functions.sources(self.plugin) if self.plugin else []
        tables = {
            "phases": (self.phases, [marks.TABLE]),
            f"{self.functions} by function": (bool(self.functions), plugin),
            f"work to {self.counted}": (bool(self.counted), plugin),
            "spans": (self.spans, [spans.TABLE, *plugin]),
        }
        symbols = self.image.system_map
        return {
            what: [digest(file) for file in (*files, symbols) if file.is_file()]
            for what, (wanted, files) in tables.items()
            if wanted
        }


def boot_file(image: Image, arch: Arch) -> Path:
    """Return what QEMU boots: beside the kernel's other files, or where its build left it.

    Raises:
        FlatbootError: there is no such file.
    """
    for name in (arch.boot_file, arch.image):
        path = image.directory / name
        if path.is_file() and path.name == arch.boot_file:
            return path
    raise FlatbootError(f"{image.directory} holds no {arch.boot_file} for {arch.name}: build it")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, which is read once a process as long as it is the same."""
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _read(path: Path, changed: int, size: int) -> str:
    return fetch.sha256(path)
