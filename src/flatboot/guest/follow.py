"""Follow a running guest from mark to mark, by breakpoints from outside.

The kernel is unmodified and runs no instruction more for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from flatboot.common.arches import Arch
from flatboot.guest.gdbstub import GdbStub
from flatboot.record.marks import Hit, MarkSpec, Symbols, places


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
