"""Records and guests made up for tests."""

from __future__ import annotations

from pathlib import Path

from flatboot.common import arches, units
from flatboot.guest import qemu
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.guest_run import Guest
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName
from flatboot.record import record as records
from flatboot.record.record import Call, Phase, Record

ABLE = qemu.Capabilities("/bin/q", "7.2.22", "pc-q35-7.2", 288, frozenset(), "")
GUEST = Guest(
    BootSpec(KernelName("stock", "bench", base="7.3"), machine(), timeout_s=60),
    arch=arches.load("x86_64"),
    able=ABLE,
    kernel=Path("vmlinux"),
    initrd=5,
    accelerator="tcg",
)
_MEMINFO = """\
MemTotal:        2051220 kB
MemFree:         2039672 kB
HugePages_Total:       3
"""


def record(flavour: str, memory: str, to_init: int, cmdline: str = "") -> Record:
    """Return a boot of *flavour* on *memory* that took *to_init* instructions."""
    parts = (("firmware", 0.1), ("unattributed", 0.1), ("initcalls", 0.7), ("unattributed", 0.05))
    phases = []
    start = 0
    for name, share in parts:
        phases.append(Phase(name, start, int(to_init * share)))
        start += int(to_init * share)
    phases.append(Phase("user space", start, to_init - start))
    return Record(
        kernel=records.Kernel("7.3", "7.3.4", flavour, "bench", "abc", "gcc 12"),
        machine=records.EmulatedMachine(
            arch="x86_64",
            memory_bytes=units.size(memory),
            cpus=1,
            nodes=[records.EmulatedNode(1 << 30, 1)],
            qemu="7.2.22",
            type="pc-q35-7.2",
            cpu="max",
            firmware="bios-256k.bin 0123",
            accelerator="tcg",
            host="x86_64, Linux 6.1",
        ),
        cmdline=f"console=ttyS0 quiet {cmdline}".strip(),
        clock="exact",
        to_init=to_init,
        phases=phases,
        calls=[
            Call("acpi_init", to_init // 5, to_init // 10),
            Call("pty_init", to_init // 2, to_init // 5),
        ],
        notes=[],
        results={"mark": str(to_init)},
        files={"/proc/meminfo": _MEMINFO},
        host_peak_bytes=160_000_000,
        wall_s=4.5,
        console="flatboot: complete\n",
        log="",
        created="2026-01-01T00:00:00+00:00",
    )
