"""Boots of a distribution: what a guest tells of them, and the terminal of one for people."""

from __future__ import annotations

import json
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes, progress
from flatboot.common.errors import FlatbootError
from flatboot.distro import guest_console
from flatboot.distro.firmware import FIRMWARE
from flatboot.distro.installing import Disk
from flatboot.guest.machine import Machine

#: While the guest waits, for its disk above all, its clock goes on as that of the host does.
_COUNTING = "-accel tcg -icount shift=0,sleep=on"
#: The console and QEMU's own on the terminal. Ctrl-C goes to the guest. One thread runs all CPUs,
#: since with one each the guest may die of `stale_code`.
_TERMINAL = (
    "-accel tcg,thread=single -chardev stdio,id=terminal,mux=on,signal=off"
    " -serial chardev:terminal -mon chardev=terminal"
)
_QEMU = "qemu-system-x86_64 -display none -no-reboot -nic none"
_CPU = "max,vendor=GenuineIntel,erms=off,-hypervisor,phys-bits={bits}"
#: A model whose counter the kernel knows to be constant, as those of today are: with any other,
#: each further CPU measures its delay loop.
_CONSTANT = ",family=6,model=58"
#: SMBIOS type 0 of a physical machine: on a virtual one the loader keeps no times.
_BIOS = struct.pack("<BBHBBHBBQBBBBBB", 0, 24, 0, 1, 2, 0xE800, 3, 0, 8, 0, 8, 0, 0, 255, 255)
_BIOS_WORDS = b"EDK II\0edk2\x0001/01/2026\0\0"
_PARTS = {"time", "blame", "critical-chain", "free", "lscpu", "failed", "log", "live", "end"}
_PART = re.compile(r"^==== (\S+)\n", re.MULTILINE)
#: The device of a disk, by how the guest reaches it.
DISK_DEVICES = {
    "virtio": "virtio-blk-pci,drive=disk",
    "nvme": "nvme,drive=disk,serial=disk",
    "mmio": "virtio-blk-device,drive=disk",
}


@dataclass(frozen=True)
class Hardware:
    """What a guest runs on.

    Attributes:
        machine: how large it is.
        firmware: of `firmware.FIRMWARE`.
        disk: of `DISK_DEVICES`.
        words: further words for QEMU.
    """

    machine: Machine
    firmware: str = "uefi"
    disk: str = "virtio"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Told:
    """What a guest told of its boot.

    Attributes:
        counters: the processor's counter, in ns since reset, when the first process of the
            initramfs began (INITRAMFS), that of the disk (DISK), when systemd was done (FINISH),
            and when the login began (LOGIN).
        said: what systemd-analyze time, blame and critical-chain printed.
        memory_bytes: the memory that ``free`` shows.
        cpus: the CPUs that ``lscpu`` shows online.
        failed: the units that failed.
        log: the kernel's log.
        live: what ``flatboot analyze --live --json`` printed in the guest.
        ran: what the program printed that the guest ran at its end; "" if there was none.
    """

    counters: Mapping[str, int]
    said: str
    memory_bytes: int
    cpus: int
    failed: tuple[str, ...]
    log: str
    live: str
    ran: str

    def parts(self) -> dict[str, int]:
        """Return the parts of the way to the end of systemd's start, in ns, by analyze's names."""
        return {stage["name"]: stage["length"] for stage in json.loads(self.live)["stages"]}


def boot(disk: Disk, hardware: Hardware, kernel: str, limit_s: float) -> Told:
    """Boot *disk*, which stays as it is, from the reset to the login.

    *kernel* is what people call the kernel on it; the guest is ended after *limit_s* seconds.

    Raises:
        FlatbootError: there is no such firmware, or the guest did not come to its end.
    """
    title = hardware.machine.title
    with tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as scratch:
        folder = Path(scratch)
        console, told = folder / "console", folder / "told"
        command = [*_command(folder, disk, hardware), *_COUNTING.split()]
        command += ["-serial", f"file:{console}", "-chardev", f"file,id=told,path={told}"]
        # A microvm has no second port by itself.
        command += ["-device", "isa-serial,chardev=told,index=1", *hardware.words]
        with progress.step(f"booting Debian, {kernel}: {title}"):
            guest_console.run(command, f"the guest of {title}", console, limit_s)
        try:
            return read(told.read_text(errors="replace"))
        except ValueError as error:
            raise guest_console.failed(
                f"the guest of {title} ended before it told of its boot", console
            ) from error


def shell(disk: Disk, hardware: Hardware) -> int:
    """Boot *disk*, which stays as it is, with the terminal as its console, on the wall clock.

    Returns QEMU's exit status. Ctrl-A x ends the guest whatever it does.

    Raises:
        FlatbootError: there is no such firmware, or no QEMU.
    """
    with (
        tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as scratch,
        processes.sigterm_raises(),
        processes.hang_up_terminates(),
    ):
        command = [*_command(Path(scratch), disk, hardware), *_TERMINAL.split(), *hardware.words]
        setup = processes.child_setup(signal.SIGTERM)
        try:
            guest = subprocess.Popen(command, preexec_fn=setup)
        except FileNotFoundError as error:
            raise FlatbootError(f"{command[0]} is not there: install it and try again") from error
        with guest:
            try:
                return guest.wait()
            finally:
                guest.terminate()


def _command(folder: Path, disk: Disk, hardware: Hardware) -> list[str]:
    """Return QEMU's command line, less its clock, its serial ports and what the user adds."""
    firmware, machine = FIRMWARE[hardware.firmware], hardware.machine
    bios = folder / "bios"
    bios.write_bytes(_BIOS + _BIOS_WORDS)
    memory = machine.memory_bytes
    command = [*_QEMU.split(), "-M", f"{firmware.qemu_machine},memory-backend=m"]
    command += [*firmware.words(disk.variables, keeps=False), "-smbios", f"file={bios}"]
    model = _CONSTANT if machine.cpus > 1 else ""
    command += ["-cpu", f"{_CPU.format(bits=machine.phys_bits)}{model}"]
    command += ["-smp", str(machine.cpus)]
    command += ["-object", f"memory-backend-ram,id=m,size={memory},reserve=off"]
    command += ["-m", f"{memory >> 20}M"]
    command += ["-drive", f"file={disk.image},format=raw,if=none,id=disk,snapshot=on"]
    return [*command, "-device", DISK_DEVICES[hardware.disk], *disk.words]


def read(text: str) -> Told:
    """Return what a guest told as *text*.

    Raises:
        ValueError: something is missing.
    """
    found = _PART.split(text.replace("\r", ""))[1:]
    parts = dict(zip(found[::2], found[1::2], strict=True))
    clock = re.findall(r"COUNTER_(\w+)=(\d+)", parts.get("counters", ""))
    counters = {name: int(at) for name, at in clock}
    memory = re.search(r"^Mem: +(\d+)", parts.get("free", ""), re.MULTILINE)
    cpus = re.search(r"^CPU\(s\): +(\d+)", parts.get("lscpu", ""), re.MULTILINE)
    live = parts.get("live", "")
    whole = parts.keys() >= _PARTS and len(counters) == 4 and live.strip()
    if not whole or not memory or not cpus:
        raise ValueError("something is missing in what the guest told")
    return Told(
        counters,
        "".join(parts[name] for name in ("time", "blame", "critical-chain")),
        int(memory[1]),
        int(cpus[1]),
        tuple(line.split()[0] for line in parts["failed"].splitlines() if line.strip()),
        parts["log"],
        live,
        re.sub(r"^ ", "", parts.get("run", ""), flags=re.MULTILINE),
    )
