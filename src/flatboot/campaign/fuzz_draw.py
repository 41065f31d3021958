"""Random boots: machine, kernel parameters and load, each derived wholly from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flatboot.common import arches
from flatboot.guest import qemu
from flatboot.guest.machine import Machine, Node
from flatboot.guest.machine import machine as make_machine

_MIB = 1 << 20
_PAGE = 4096
_BLOCK = 4 << 20
_SECTION = 128 << 20
_T = TypeVar("_T")

#: Memory of a guest in MiB. A debug kernel needs about 250 for itself, and the first section of a
#: node and 64 MiB of each zone are not deferred.
SMALLEST, LARGEST = 640, 2560
#: A load uses as much as it would in a guest of so many MiB.
_LOADED_MIB = 1024
#: The least that node 0, and the part of memory below 4 GiB, has of it: the kernel lies there.
_KERNEL_MIB = 320
#: Below this address are the kernel's image, and above that the initramfs and firmware's tables,
#: within so much of the end of memory below 4 GiB: no holes there.
_IMAGE_END, _TABLES = 192 << 20, 48 << 20
#: What parameters may take away together, of the memory that the kernel does not need.
_TAKEN = 0.4
#: What the jobs of a load may use together, in percent of MemAvailable.
_USED = 60

#: Where memory above the hole starts, by CPU vendor: on AMD's, QEMU moves it above 1 TiB if there
#: may come to be so much memory that it would meet HyperTransport's hole.
INTEL, AMD = "GenuineIntel", "AuthenticAMD"
_HIGH = {"above 4 GiB": 4 << 30, "above 1 TiB": 1 << 40}
LAYOUTS = (
    (INTEL, "below 4 GiB"),
    (INTEL, "above 4 GiB"),
    (INTEL, "above 4 GiB"),
    (AMD, "below 4 GiB"),
    (AMD, "above 4 GiB"),
    (AMD, "above 1 TiB"),
)
MODES = ("lazy", "lazy", "lazy", "background")


@dataclass(frozen=True)
class RandomBoot:
    """A random boot.

    Attributes:
        seed: what it is derived from.
        machine: memory, CPUs and nodes.
        layout: where memory lies, in words: the CPU's vendor and where the second part starts.
        arguments: QEMU's, which make the layout.
        parameters: the kernel's, without deferred_init=.
        mode: value of deferred_init=.
        load: what runs in the guest: command lines of the program churn, one after another.
    """

    seed: int
    machine: Machine
    layout: str
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]
    mode: str
    load: tuple[str, ...]


class Draws:
    """Random choices that a seed determines, with any version of Python."""

    def __init__(self, seed: int) -> None:
        """Begin at the first choice of *seed*."""
        # Only random() itself is the same in all versions.
        self._random = random.Random(seed).random

    def number(self, least: int, most: int) -> int:
        """Return a whole number from *least* to *most*."""
        return least + int(self._random() * (most - least + 1))

    def chance(self, share: float) -> bool:
        """Return True in *share* of all cases."""
        return self._random() < share

    def one_of(self, choices: Sequence[_T]) -> _T:
        """Return one of *choices*."""
        return choices[self.number(0, len(choices) - 1)]

    def some_of(self, choices: Sequence[_T], most: int) -> list[_T]:
        """Return up to *most* of *choices*, in random order."""
        left = list(choices)
        count = self.number(0, min(most, len(left)))
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]


@dataclass
class Room:
    """What parameters are drawn from: *ranges* of memory as (start, end), and what they may take.

    ``spare`` are the bytes that may still be taken away, ``nodes`` the number of nodes.
    """

    ranges: list[tuple[int, int]]
    spare: int
    nodes: int

    def take(self, draws: Draws, most: int, grain: int) -> int:
        """Return a number of bytes, at most *most* and half of what is spare, and take them."""
        units = max(min(most, self.spare // 2) // grain, 1)
        taken = draws.number(1, units) * grain
        self.spare = max(self.spare - taken, 0)
        return taken

    @property
    def memory(self) -> int:
        """All memory in bytes."""
        return sum(end - start for start, end in self.ranges)


def draw(seed: int) -> RandomBoot:
    """Return the case of *seed*: the same one every time."""
    draws = Draws(seed)
    mib = draws.number(SMALLEST, LARGEST)
    vendor, place = draws.one_of(LAYOUTS)
    ranges = [(0, mib * _MIB)]
    if place in _HIGH:
        low = draws.number(_KERNEL_MIB, mib - 32) * _MIB
        ranges = [(0, low), (_HIGH[place], _HIGH[place] + mib * _MIB - low)]
    nodes = _nodes(draws, mib)
    cpus = sum(node.cpus for node in nodes) or draws.number(1, 4)
    machine = make_machine(memory=f"{mib}M", cpus=cpus, nodes=nodes or 1)
    spare = int(_TAKEN * (mib - _KERNEL_MIB) * _MIB)
    room = Room(ranges, spare, len([node for node in nodes if node.memory_bytes]))
    drawn = draws.some_of(tuple(PARAMETERS), 5)
    parameters = tuple(PARAMETERS[name](draws, room) for name in drawn)
    return RandomBoot(
        seed=seed,
        machine=machine,
        layout=f"{'AMD' if vendor == AMD else 'Intel'}, {place}",
        arguments=_arguments(machine, vendor, place, ranges[0][1]),
        parameters=parameters,
        mode=draws.one_of(MODES),
        load=_load(draws, seed, min(_LOADED_MIB / mib, 1)),
    )


def _nodes(draws: Draws, mib: int) -> list[Node]:
    """Return the nodes, of which any but the first may lack memory or CPUs or be tiny."""
    count = draws.one_of((0, 0, 1, 2, 2, 3, 4, 6))
    if not count:
        return []
    sizes = []
    left = mib - _KERNEL_MIB
    for _ in range(count - 1):
        kinds = (0, draws.number(1, 15), draws.number(16, 130), left // 2, left)
        sizes.append(min(draws.one_of(kinds), left))
        left -= sizes[-1]
    sizes.insert(0, mib - sum(sizes))
    cpus = [0] * count
    for _ in range(draws.number(1, 4)):
        cpus[draws.number(0, count - 1)] += 1
    return [Node(size * _MIB, number) for size, number in zip(sizes, cpus, strict=True)]


def _arguments(machine: Machine, vendor: str, place: str, low: int) -> tuple[str, ...]:
    """Return QEMU's arguments for the layout; where one is given twice, QEMU takes the last."""
    model = qemu.cpu_model(arches.load(machine.arch), machine).replace(INTEL, vendor)
    # One CPU a socket: those of a socket share a cache, and must not lie on several nodes.
    sockets = f"{machine.cpus},sockets={machine.cpus},cores=1,threads=1"
    arguments = ["-cpu", model, "-smp", sockets]
    if place in _HIGH:
        arguments += ["-M", f"max-ram-below-4g={low}"]
    if place == "above 1 TiB":
        arguments += ["-m", f"{machine.memory_bytes // _MIB}M,slots=1,maxmem=1T"]
    return tuple(arguments)


def _hole(draws: Draws, room: Room) -> str:
    """Return memmap= for a hole: mostly at odd addresses, near some boundary or anywhere."""
    start, end = draws.one_of(room.ranges)
    if not start:
        start, end = _IMAGE_END, end - _TABLES
    size = room.take(draws, draws.one_of((16 * _PAGE, 3 * _MIB, 48 * _MIB)), _PAGE)
    size = min(size, end - start - _PAGE)
    grain = draws.one_of((_PAGE, _BLOCK, _SECTION))
    at = draws.number(start // grain, end // grain) * grain + draws.number(-9, 9) * _PAGE
    at = max(start, min(at, end - size))
    kind = draws.one_of("$$$#!")
    return f"memmap={size // 1024}K{kind}{at // 1024}K"


def _holes(draws: Draws, room: Room) -> str:
    return " ".join(_hole(draws, room) for _ in range(draws.number(1, 4)))


def _mem(draws: Draws, room: Room) -> str:
    """Return mem=, on x86-64 the end of usable addresses; what is cut off is spare no more."""
    start, end = room.ranges[-1]
    cut = room.take(draws, end - start - _MIB, _PAGE)
    return f"mem={(end - cut) // 1024}K"


def _zone_split(name: str, least: int, most: int) -> Callable[[Draws, Room], str]:
    def make(draws: Draws, room: Room) -> str:
        percent = draws.number(least, most)
        if draws.chance(0.3):
            return f"{name}={percent}%"
        return f"{name}={room.memory // 100 * percent // _MIB}M"

    return make


def _taking(text: str, most_mib: int, grain_mib: int) -> Callable[[Draws, Room], str]:
    """Return what makes a parameter of *text*, {} standing for the MiB that it takes."""

    def make(draws: Draws, room: Room) -> str:
        return text.format(room.take(draws, most_mib * _MIB, grain_mib * _MIB) // _MIB)

    return make


def _hugepages(draws: Draws, room: Room) -> str:
    return f"hugepagesz=2M hugepages={room.take(draws, 128 * _MIB, 2 * _MIB) // (2 * _MIB)}"


def _fake_nodes(draws: Draws, room: Room) -> str:
    count = draws.number(2, 8)
    size = max(room.memory // count // _MIB, 32)
    return f"numa=fake={draws.one_of((str(count), f'{count}U', f'{size}M'))}"


def _choice(*choices: str) -> Callable[[Draws, Room], str]:
    return lambda draws, room: draws.one_of(choices)


#: What makes each parameter. Those that are given twice or thrice are drawn more often.
PARAMETERS: dict[str, Callable[[Draws, Room], str]] = {
    "memmap": _holes,
    "memmap again": _holes,
    "mem": _mem,
    "movablecore": _zone_split("movablecore", 5, 40),
    "kernelcore": _zone_split("kernelcore", 60, 95),
    "movable_node": _choice("movable_node"),
    "crashkernel": _taking("crashkernel={}M", 48, 1),
    "cma": _taking("cma={}M", 64, 4),
    "hugepages": _hugepages,
    "hugetlb_free_vmemmap": _choice("hugetlb_free_vmemmap=on"),
    "numa": _fake_nodes,
    "page_alloc.shuffle": _choice("page_alloc.shuffle=1"),
    "init_on_alloc": _choice("init_on_alloc=0", "init_on_alloc=1"),
    "init_on_free": _choice("init_on_free=1"),
    "hashdist": _choice("hashdist=0", "hashdist=1"),
    "memtest": _choice("memtest=1"),
    "debug_pagealloc": _choice("debug_pagealloc=on"),
    "prezero": _choice("prezero=on prezero.verify=1"),
    # Either has the map completed during boot.
    "page_ext": _choice("page_owner=on", "page_table_check=on"),
    "memory_hotplug.memmap_on_memory": _choice("memory_hotplug.memmap_on_memory=1"),
}

#: The jobs of a load as the program churn reads them: how much memory they may use at most, in
#: percent (0: none to speak of), and how the job is made of a share or a small number.
JOBS: dict[str, tuple[int, str]] = {
    "4k": (15, "4k:{processes}:{share}"),
    "thp": (30, "thp:{processes}:{share}"),
    "file": (10, "file:{share}"),
    "huge": (30, "huge:{share}"),
    "blocks": (0, "blocks:{number}"),
    "read": (0, "read:1"),
    "drop": (0, "drop:{number}"),
    "compact": (0, "compact:{number}"),
    "fork": (0, "fork:{number}"),
    "complete": (0, "complete:{delay}"),
}


def _load(draws: Draws, seed: int, scale: float) -> tuple[str, ...]:
    phases = []
    for phase in range(draws.number(1, 3)):
        used = 0
        jobs = []
        for name in draws.some_of(tuple(JOBS), 5) or ["4k"]:
            most, text = JOBS[name]
            share = max(int(draws.number(1, most) * scale), 1) if most else 0
            if used + share > _USED:
                continue
            used += share
            fields = {
                "processes": draws.number(1, 4),
                "share": share,
                "number": draws.number(1, 6),
                "delay": draws.number(0, 2000),
            }
            jobs.append(text.format(**fields))
        phases.append(f"churn {seed * 10 + phase} {' '.join(jobs)}")
    return tuple(phases)
