"""A virtual machine as it is asked for: architecture, memory, CPUs and NUMA nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flatboot.common import arches, units
from flatboot.common.arches import Arch
from flatboot.common.errors import UsageError

_GRAIN = 1 << 20


@dataclass(frozen=True)
class Node:
    """A NUMA node: its memory in bytes, which may be none, and its number of CPUs, as well."""

    memory_bytes: int
    cpus: int


@dataclass(frozen=True)
class Machine:
    """A virtual machine that QEMU can make.

    Attributes:
        arch: name of the architecture.
        memory_bytes: size of the memory, of all nodes together.
        cpus: number of virtual CPUs, of all nodes together.
        nodes: the NUMA nodes; empty for a machine without NUMA.
    """

    arch: str
    memory_bytes: int
    cpus: int
    nodes: tuple[Node, ...]

    @property
    def phys_bits(self) -> int:
        """The address bits that the CPU model must offer; 0 where its own are fixed."""
        limits = arches.load(self.arch).qemu.phys_bits
        return next(limit.bits for limit in limits if self.memory_bytes <= limit.up_to)

    @property
    def title(self) -> str:
        """The machine in a few words, for people."""
        cpus = units.many(self.cpus, "CPU")
        nodes = f", {len(self.nodes)} nodes" if len(self.nodes) > 1 else ""
        return f"{self.arch}, {units.binary_size(self.memory_bytes)}, {cpus}{nodes}"


def machine(
    arch: str = "x86_64",
    memory: str | int = "2G",
    cpus: int = 1,
    nodes: int | Sequence[Node] = 1,
) -> Machine:
    """Return the machine that is asked for, checked.

    Args:
        arch: name of the architecture.
        memory: size such as ``2G`` or a number of bytes; whole MiB.
        cpus: number of virtual CPUs.
        nodes: number of NUMA nodes, over which memory and CPUs are spread evenly (1: a machine
            without NUMA), or the nodes themselves, which then say memory and CPUs.

    Raises:
        UsageError: QEMU cannot make such a machine, or no kernel can boot on it.
    """
    known = arches.load(arch)
    if isinstance(nodes, int):
        made = _spread(units.size(memory), cpus, nodes)
    else:
        made = Machine(
            arch="",
            memory_bytes=sum(node.memory_bytes for node in nodes),
            cpus=sum(node.cpus for node in nodes),
            nodes=tuple(nodes),
        )
    result = Machine(known.name, made.memory_bytes, made.cpus, made.nodes)
    _check(result, known)
    return result


def parse_nodes(text: str) -> int | list[Node]:
    """Return what ``--nodes`` asks for: a count, or nodes as ``SIZE[:CPUS],...``.

    ``4`` is four even nodes; ``2G:2,0:1,6G`` is a node of 2 GiB and two CPUs, one without memory,
    and one of 6 GiB without CPUs.

    Raises:
        UsageError: it is neither.
    """
    if text.isdecimal():
        return int(text)
    nodes = []
    for part in text.split(","):
        size, _, cpus = part.partition(":")
        if cpus and not cpus.isdecimal():
            raise UsageError(f"{part!r} is not a node: write SIZE or SIZE:CPUS, such as 2G:2")
        nodes.append(Node(units.size(size), int(cpus or 0)))
    return nodes


def _spread(memory: int, cpus: int, count: int) -> Machine:
    if count < 1:
        raise UsageError(f"a machine with {count} nodes cannot be made: ask for at least one")
    if count == 1:
        return Machine("", memory, cpus, ())
    share = memory // count // _GRAIN * _GRAIN
    nodes = tuple(
        Node(
            memory_bytes=share if index else memory - share * (count - 1),
            cpus=cpus // count + (index < cpus % count),
        )
        for index in range(count)
    )
    return Machine("", memory, cpus, nodes)


def _check(machine: Machine, arch: Arch) -> None:
    size = units.short_size(machine.memory_bytes)
    most = arch.qemu.phys_bits[-1].up_to
    if machine.memory_bytes < arch.qemu.min_memory:
        least = units.short_size(arch.qemu.min_memory)
        raise UsageError(f"{size} of memory is too little to boot: ask for at least {least}")
    if machine.memory_bytes > most:
        raise UsageError(
            f"{size} of memory is more than {arch.name} takes here: ask for at most"
            f" {units.short_size(most)}"
        )
    for amount in (machine.memory_bytes, *(node.memory_bytes for node in machine.nodes)):
        if amount % _GRAIN:
            raise UsageError(
                f"{amount} bytes of memory are not whole MiB: ask for 1M or a multiple"
            )
    if not 1 <= machine.cpus <= arch.qemu.max_cpus:
        raise UsageError(
            f"{machine.cpus} CPUs cannot be emulated for {arch.name}: ask for 1 to"
            f" {arch.qemu.max_cpus}"
        )
    if len(machine.nodes) > arch.qemu.max_nodes:
        raise UsageError(
            f"{len(machine.nodes)} nodes are too many: ask for at most {arch.qemu.max_nodes}"
        )
    if machine.nodes and not machine.nodes[0].memory_bytes:
        raise UsageError("node 0 has no memory, and the kernel is loaded there: give it some")
