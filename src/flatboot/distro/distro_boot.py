"""Boots of a distribution on a clock that counts instructions, and what the guest tells of them."""

from __future__ import annotations

import json
import re
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes, progress
from flatboot.common.errors import FlatbootError
from flatboot.distro.disk import Disks
from flatboot.guest.machine import Machine

FIRMWARE = Path("/usr/share/ovmf/OVMF.fd")
#: While the guest waits, for its disk above all, its clock goes on as that of the host does.
_QEMU = (
    "qemu-system-x86_64 -accel tcg -icount shift=0,sleep=on -M q35,smm=off,memory-backend=m"
    " -display none -no-reboot -nic none"
)
_CPU = "max,vendor=GenuineIntel,erms=off,-hypervisor,phys-bits={bits}"
#: SMBIOS type 0 of a machine that is no virtual one: in those the loader keeps no times.
_BIOS = struct.pack("<BBHBBHBBQBBBBBB", 0, 24, 0, 1, 2, 0xE800, 3, 0, 8, 0, 8, 0, 0, 255, 255)
_BIOS_WORDS = b"EDK II\0edk2\x0001/01/2026\0\0"
_PART = re.compile(r"^==== (\S+)\n", re.MULTILINE)
_LAST_LINES = 10


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
    """

    counters: Mapping[str, int]
    said: str
    memory_bytes: int
    cpus: int
    failed: tuple[str, ...]
    log: str
    live: str

    def parts(self) -> dict[str, int]:
        """Return the parts of the way to the end of systemd's start, in ns, by analyze's names."""
        told = json.loads(self.live)["stages"]
        return {stage["name"]: stage["length"] for stage in told}


def boot(disks: Disks, machine: Machine, kernel: str) -> Told:
    """Boot *disks*, which stay as they are, on *machine*, from the reset to the login.

    *kernel* is what people call the kernel on them.

    Raises:
        FlatbootError: there is no UEFI firmware, or the guest did not come to its end.
    """
    if not FIRMWARE.is_file():
        raise FlatbootError(f"there is no UEFI firmware at {FIRMWARE}: install ovmf")
    with tempfile.TemporaryDirectory(prefix="flatboot-distro-", dir=paths.cache()) as scratch:
        folder = Path(scratch)
        console, told, bios = (folder / name for name in ("console", "told", "bios"))
        bios.write_bytes(_BIOS + _BIOS_WORDS)
        memory = machine.memory_bytes
        command = [*_QEMU.split(), "-bios", str(FIRMWARE), "-smbios", f"file={bios}"]
        command += ["-cpu", _CPU.format(bits=machine.phys_bits), "-smp", str(machine.cpus)]
        command += ["-object", f"memory-backend-ram,id=m,size={memory},reserve=off"]
        command += ["-m", f"{memory >> 20}M"]
        command += ["-drive", f"file=fat:{disks.loader},format=raw,if=virtio,readonly=on"]
        command += ["-drive", f"file={disks.root},format=raw,if=virtio,snapshot=on"]
        command += ["-serial", f"file:{console}", "-serial", f"file:{told}"]
        with progress.step(f"booting Debian, {kernel}: {machine.title}"):
            processes.run(command, what=f"the guest of {machine.title}")
        try:
            return read(told.read_text(errors="replace"))
        except ValueError as error:
            last = console.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            text = "\n".join(["the guest ended before it told of its boot; its last words:", *last])
            raise FlatbootError(text) from error


def read(text: str) -> Told:
    """Return what a guest told as *text*.

    Raises:
        ValueError: something is missing.
    """
    found = _PART.split(text.replace("\r", ""))[1:]
    parts = dict(zip(found[::2], found[1::2], strict=True))
    counters = {name: int(at) for name, at in re.findall(r"COUNTER_(\w+)=(\d+)", text)}
    memory = re.search(r"^Mem: +(\d+)", parts.get("free", ""), re.MULTILINE)
    cpus = re.search(r"^CPU\(s\): +(\d+)", parts.get("lscpu", ""), re.MULTILINE)
    if "end" not in parts or len(counters) != 4 or not memory or not cpus:
        raise ValueError("something is missing in what the guest told")
    return Told(
        counters,
        "".join(parts[name] for name in ("time", "blame", "critical-chain")),
        int(memory[1]),
        int(cpus[1]),
        tuple(line.split()[0] for line in parts["failed"].splitlines() if line.strip()),
        parts["log"],
        parts["live"],
    )
