"""Marks: the moments at which a running guest enters and leaves chosen kernel functions.

They are taken from outside, by breakpoints, in an unmodified kernel that runs no instruction more
for it. Which functions there are, and which phase of the boot each begins, is the table marks.toml.
"""

from __future__ import annotations

import bisect
import functools
import re
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.arches import Arch
from flatboot.gdbstub import GdbStub

_TABLE = Path(__file__).parent / "marks.toml"
# GCC's names for a function that it changed but that still begins where it is called.
_CLONE = re.compile(r"\.(isra|constprop)\.\d+$")


@dataclass(frozen=True)
class MarkSpec:
    """One line of the table; see the comment in marks.toml."""

    functions: tuple[str, ...]
    physical: bool
    begins: str | None
    during: str | None
    then: str | None
    calls: bool


@dataclass(frozen=True)
class Hit:
    """A function was entered or left.

    Attributes:
        at: when, as the reader of the clock gave it.
        spec: the line of the table.
        leaves: whether the function returned.
        callee: of a ``calls`` line, the function that its first argument points to; else "".
    """

    at: int
    spec: MarkSpec
    leaves: bool
    callee: str


def without_clone(name: str) -> str:
    """Return the name that a function has in the source."""
    return _CLONE.sub("", name)


class Symbols:
    """The addresses of a kernel's functions, from its System.map."""

    def __init__(self, text: str) -> None:
        """Read the lines of a System.map: address, type, name."""
        self._by_name: dict[str, int] = {}
        ordered: list[tuple[int, str]] = []
        for line in text.splitlines():
            words = line.split(maxsplit=2)
            if len(words) < 3:
                continue
            address, kind, name = words
            if kind in "TtWw" or name in ("_text", "_end"):
                self._by_name.setdefault(without_clone(name), int(address, 16))
                ordered.append((int(address, 16), name))
        ordered.sort()
        self._addresses = [address for address, _ in ordered]
        self._names = [name for _, name in ordered]

    def address(self, name: str) -> int | None:
        """Return where the function *name* begins; None if the kernel has no such function."""
        return self._by_name.get(name)

    def bounds(self, name: str) -> tuple[int, int] | None:
        """Return where the function *name* begins and the next one; None if there is no such."""
        address = self.address(name)
        if address is None:
            return None
        index = bisect.bisect_right(self._addresses, address)
        return address, self._addresses[min(index, len(self._addresses) - 1)]

    def name(self, address: int) -> str:
        """Return the function that *address* lies in; the number itself if it lies in none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        return self._names[index] if index >= 0 else hex(address)


@functools.cache
def table() -> tuple[MarkSpec, ...]:
    """Return the marks table."""
    with _TABLE.open("rb") as file:
        lines = tomllib.load(file)["marks"]
    return tuple(
        MarkSpec(
            functions=tuple(line["functions"]),
            physical=line.get("physical", False),
            begins=line.get("begins"),
            during=line.get("during"),
            then=line.get("then"),
            calls=line.get("calls", False),
        )
        for line in lines
    )


def places(specs: Sequence[MarkSpec], arch: Arch, symbols: Symbols) -> dict[int, MarkSpec]:
    """Return the address at which each mark's function begins; lines without one are left out."""
    found: dict[int, MarkSpec] = {}
    for spec in specs:
        addresses = (symbols.address(name) for name in spec.functions)
        address = next((a for a in addresses if a is not None), None)
        if address is not None and spec.physical:
            address = physical(address, arch, symbols)
        if address is not None:
            found[address] = spec
    return found


def physical(address: int, arch: Arch, symbols: Symbols) -> int | None:
    """Return where *address* lies before the kernel maps itself; None if that is unknown."""
    virtual = arch.physical.virtual
    base = symbols.address(virtual) if isinstance(virtual, str) else virtual
    return None if base is None else address - base + arch.physical.physical


class Follower:
    """Runs a stopped guest from mark to mark."""

    def __init__(
        self,
        stub: GdbStub,
        arch: Arch,
        symbols: Symbols,
        clock: Callable[[str], Awaitable[int]],
        on_phase: Callable[[str], None],
    ) -> None:
        """Prepare to follow the guest behind *stub*.

        Args:
            stub: the connection to the guest, stopped at its reset.
            arch: its architecture.
            symbols: its kernel's.
            clock: returns the time at which the given (stopped) thread stands.
            on_phase: called with the name of each phase as it begins.
        """
        self._stub = stub
        self._arch = arch
        self._symbols = symbols
        self._clock = clock
        self._on_phase = on_phase
        self._entries: dict[int, MarkSpec] = {}
        self._returns: dict[int, MarkSpec] = {}
        self._callees: list[str] = []
        self.hits: list[Hit] = []

    async def follow(self, specs: Sequence[MarkSpec], init: int) -> int | None:
        """Run the guest past the marks *specs* to the first instruction of /init, at *init*.

        Returns:
            The time there; None if the guest ended before. The guest is let go then.
        """
        self._entries = places(specs, self._arch, self._symbols)
        for address in self._entries:
            await self._stub.set_breakpoint(address)
        armed = False
        while True:
            stop = await self._stub.resume()
            if stop.thread is None:
                return None
            pc = await self._stub.register(stop.thread, self._arch.registers.pc)
            if pc == init:
                at = await self._reached(stop.thread, init)
                if at is not None:
                    await self._stub.detach()
                    return at
                continue
            await self._mark(stop.thread, pc)
            await _execute(self._stub, self._arch, stop.thread, pc)
            if not armed and not (pc in self._entries and self._entries[pc].physical):
                await self._stub.set_breakpoint(init)
                armed = True

    async def _reached(self, thread: str, init: int) -> int | None:
        """Return the time if the page of *init* is there; else let the fault happen first."""
        length = len(self._arch.counter.instruction)
        if await self._stub.readable(thread, init, length):
            return await self._clock(thread)
        await _execute(self._stub, self._arch, thread, init)
        return None

    async def _mark(self, thread: str, pc: int) -> None:
        if pc in self._returns:
            spec = self._returns[pc]
            callee = self._callees.pop() if spec.calls and self._callees else ""
            self.hits.append(Hit(await self._clock(thread), spec, True, callee))
            if not spec.calls:
                await self._stub.clear_breakpoint(pc)
                del self._returns[pc]
        if pc in self._entries:
            spec = self._entries[pc]
            callee = await self._callee(thread) if spec.calls else ""
            self.hits.append(Hit(await self._clock(thread), spec, False, callee))
            if spec.calls:
                self._callees.append(callee)
            else:
                await self._stub.clear_breakpoint(pc)
            if spec.calls or spec.during:
                await self._watch_return(thread, spec)
            if phase := spec.begins or spec.during:
                self._on_phase(phase)

    async def _callee(self, thread: str) -> str:
        return self._symbols.name(await self._stub.register(thread, self._arch.registers.argument))

    async def _watch_return(self, thread: str, spec: MarkSpec) -> None:
        registers = self._arch.registers
        if registers.return_register is not None:
            address = await self._stub.register(thread, registers.return_register)
        else:
            assert registers.return_on_stack is not None
            stack = await self._stub.register(thread, registers.return_on_stack)
            content = await self._stub.read(thread, stack, registers.width)
            address = int.from_bytes(content, "little")
        if address not in self._returns:
            await self._stub.set_breakpoint(address)
        self._returns[address] = spec


class CounterReader:
    """Reads the raw counter of a stopped CPU: it executes one instruction for it.

    Afterwards registers and memory are as they were; what the reading itself adds to the counter
    is that one instruction.
    """

    def __init__(self, stub: GdbStub, arch: Arch) -> None:
        """Prepare to read through *stub*."""
        self._stub = stub
        self._arch = arch

    async def __call__(self, thread: str) -> int:
        """Return the counter of the CPU *thread*, in ticks."""
        stub, counter, registers = self._stub, self._arch.counter, self._arch.registers
        pc = await stub.register(thread, registers.pc)
        saved = {number: await stub.register(thread, number) for number in counter.registers}
        code = await stub.read(thread, pc, len(counter.instruction))
        await stub.write(thread, pc, counter.instruction)
        await _execute(stub, self._arch, thread, pc)
        ticks = 0
        for index, number in enumerate(counter.registers):
            ticks |= await stub.register(thread, number) << index * counter.half_bits
        for number, value in saved.items():
            await stub.set_register(thread, number, value, registers.width)
        await stub.set_register(thread, registers.pc, pc, registers.width)
        await stub.write(thread, pc, code)
        return ticks


async def _execute(stub: GdbStub, arch: Arch, thread: str, pc: int) -> None:
    """Execute the one instruction, at *pc*, that the CPU *thread* stands at.

    QEMU may end a step before it: the CPU first looked at what its interrupt controller wants,
    which happens on the wall clock, where the devices' threads run beside.
    """
    await stub.step(thread)
    while await stub.register(thread, arch.registers.pc) == pc:
        await stub.step(thread)
