"""Guests for the boot tests: one boot, judged by its console, and what it says of its memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from flatboot.common import arches
from flatboot.guest import cprogram, stored
from flatboot.guest.boot_spec import BootSpec, Clock
from flatboot.guest.machine import Node, machine
from flatboot.kernel import bases
from flatboot.kernel.build import KernelName
from flatboot.record import splats
from flatboot.record.record import Record

#: The base of the kernels under test, unless pytest's --base names another.
BASE = bases.default()
DEFERRED = "/sys/kernel/mm/deferred_init/"
BLOCKS = "/sys/devices/system/memory/"
#: The last memory block, of 128 MiB, of 4 GiB: memory goes on at 4 GiB after the first half.
LAST_BLOCK = "memory47"
#: Folders of the pools of huge pages, of all nodes and of one, and how many pages they have.
POOL_2M = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
POOL_1G = "/sys/kernel/mm/hugepages/hugepages-1048576kB/"
NODE_POOL = "/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/"
HUGE_2M, HUGE_1G = f"{POOL_2M}nr_hugepages", f"{POOL_1G}nr_hugepages"
#: What makes the point at which reclaim begins a matter of free memory alone. By default it also
#: hangs on how many pages lie on the CPUs' lists, which take up to 2,016 off a zone at once, and on
#: which node first steals a pageblock, which boosts its watermarks: luck, on stock as well.
QUIET = (
    "poke write lists /proc/sys/vm/percpu_pagelist_high_fraction 1000000",
    "poke write boost /proc/sys/vm/watermark_boost_factor 0",
)
#: A debug kernel says all it has to say, and keeps it.
DEBUG_CMDLINE = "ignore_loglevel log_buf_len=8M"
#: The config that tests boot if they ask for none: the one with all that any test needs, and the
#: smallest. There is a kernel of each for the short tests; kernels.toml says why.
CONFIGS = {"x86_64": "users", "arm64": "bench"}
#: What /proc/meminfo itemises of the memory that is not free.
ITEMS = (
    *("Slab", "PageTables", "KernelStack", "VmallocUsed", "Percpu", "AnonPages", "Cached"),
    *("Buffers", "HardwareCorrupted"),
)
#: Who adds deferred memory: the kernel, or an agent.
ADDED_BY: dict[str, tuple[str, ...]] = {"kernel": (), "user": ("deferred-memd",)}
#: Configs of both kernels for what is compared with stock, whose debug kernel no other test needs.
COMPARED = ["users", pytest.param("debug", marks=pytest.mark.long)]
#: A third of the instructions of a boot on the exact clock, and two thirds of the host's time, go
#: into a loop that calibrates the local APIC timer: QEMU leaves translated code at each PAUSE. A
#: guest with one CPU does as well with the HPET.
QUICK_TIMER = "nolapic_timer"
_AGENT = Path(__file__).parents[2] / "agent" / "deferred-memd.c"
_groups: tuple[str, ...] = ()
_TIMEOUT_S = float(os.environ.get("FLATBOOT_BOOT_TIMEOUT_S", 1500))


def kernel_of(flavour: str, config: str, arch: str = "x86_64") -> KernelName:
    """Return the kernel to test: with all groups, or those that pytest's --group leaves."""
    return KernelName(flavour, config, arch, BASE, groups=_groups if flavour == "flatboot" else ())


def take(*names: str) -> None:
    """Let kernels have the groups *names* and what they need, from now on."""
    global _groups
    _groups = names


def agent(arch: str = "x86_64") -> tuple[tuple[str, Path], ...]:
    """Return deferred-memd as a file for the guest."""
    compiler = f"{arches.load(arch).cross_compile}gcc"
    flags = ["-static", "-O2", "-Wall", "-Wextra", "-Werror"]
    return (("bin/deferred-memd", cprogram.compiled(f"agent/{arch}", compiler, flags, _AGENT)),)


def asked(
    flavour: str,
    memory: str,
    programs: Sequence[str] = (),
    mode: str | None = None,
    cpus: int = 1,
    nodes: int | tuple[Node, ...] = 1,
    config: str | None = None,
    cmdline: str = "",
    clock: Clock | None = None,
    files: tuple[tuple[str, Path], ...] = (),
    arguments: tuple[str, ...] = (),
    arch: str = "x86_64",
) -> BootSpec:
    """Return a boot that a test asks for.

    Args:
        flavour: "stock" or "flatboot".
        memory: size, such as "512M".
        programs: guest programs with their arguments.
        mode: value of deferred_init=, or None to leave it out.
        cpus: number of CPUs.
        nodes: number of NUMA nodes, or the nodes, which then say memory and CPUs.
        config: name of the kernel's config; None for the one that most tests of the architecture
            use.
        cmdline: further parameters.
        clock: "exact" or "wall"; None for wall on the debug kernel, which has no costs to look at,
            and exact on the others: it takes longer, but comes from the store the next time.
        files: files that the guest has besides: their paths in it, and here.
        arguments: further arguments for QEMU.
        arch: name of the architecture.
    """
    config = config or CONFIGS[arch]
    words = [f"deferred_init={mode}"] if mode is not None else []
    if config == "debug":
        words.append(DEBUG_CMDLINE)
    clock = clock or ("wall" if config == "debug" else "exact")
    described = machine(arch, memory, cpus, nodes)
    if (arch, clock, described.cpus) == ("x86_64", "exact", 1):
        words.append(QUICK_TIMER)
    return BootSpec(
        kernel_of(flavour, config, arch),
        described,
        " ".join([*words, cmdline]).strip(),
        clock,
        tuple(programs),
        files,
        arguments,
        timeout_s=_TIMEOUT_S,
    )


class Guests:
    """Boots what is asked for, each boot once."""

    def __init__(self) -> None:
        self._records: dict[BootSpec, Record] = {}

    def __call__(self, spec: BootSpec) -> Record:
        """Return the record of the boot; a splat on its console fails the test."""
        if spec not in self._records:
            self._records[spec] = self.unjudged(spec)
        record = self._records[spec]
        assert_no_splat(record.console)
        return record

    def unjudged(self, spec: BootSpec) -> Record:
        """Boot anew, or take it from the store; return the record, whatever the console holds."""
        return stored.boot(spec)


def assert_no_splat(console: str) -> None:
    """Fail with the first splat of *console*, and the lines around it, if it holds one."""
    found = splats.find(console)
    assert not found, "the kernel complains:\n" + splats.around(console, found[0])


@dataclass(frozen=True)
class Zone:
    """A populated zone as /proc/zoneinfo shows it; everything in pages.

    ``free`` includes what lies on the CPUs' own lists, which MemFree leaves out.
    """

    free: int
    min: int
    low: int
    high: int
    present: int
    managed: int
    protection: tuple[int, ...]
    deferred: int


def zones(zoneinfo: str) -> dict[tuple[int, str], Zone]:
    """Return the populated zones by node and name."""
    found = {}
    for part in re.split(r"^(?=Node \d+, zone)", zoneinfo, flags=re.MULTILINE)[1:]:
        node, name = re.findall(r"Node (\d+), zone +(\w+)", part)[0]
        numbers = {key: int(value) for key, value in re.findall(r"(\w+) +(\d+)$", part, re.M)}
        protection = re.findall(r"protection: \(([\d, ]+)\)", part)
        if numbers.get("present"):
            found[int(node), name] = Zone(
                free=sum(map(int, re.findall(r"(?:pages free|count:) +(\d+)", part))),
                min=numbers["min"],
                low=numbers["low"],
                high=numbers["high"],
                present=numbers["present"],
                managed=numbers["managed"],
                protection=tuple(map(int, protection[0].split(","))),
                deferred=numbers.get("nr_deferred", 0),
            )
    return found


def free_pages(zoneinfo: str) -> int:
    """Return the free pages of all zones, those on the CPUs' lists too."""
    return sum(zone.free for zone in zones(zoneinfo).values())


def meminfo(text: str) -> dict[str, int]:
    """Return the fields of /proc/meminfo or of a node's meminfo, in kB."""
    return {name: int(value) for name, value in re.findall(r"(\w+(?:\(\w+\))?): +(\d+)", text)}


def itemised(told: Mapping[str, int]) -> int:
    """Return what the fields of /proc/meminfo say of the use of memory that is not free, in kB."""
    return sum(told[item] for item in ITEMS)


def vmstat(text: str) -> dict[str, int]:
    """Return the counters of /proc/vmstat."""
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.M)}


def results(record: Record, prefix: str) -> dict[str, int]:
    """Return the numbers that guest programs reported under *prefix*."""
    return {
        key.removeprefix(prefix): int(value)
        for key, value in record.results.items()
        if key.startswith(prefix)
    }
