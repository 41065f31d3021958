"""A client of the gdb remote protocol, as far as marking the phases of a boot needs it.

The protocol: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Remote-Protocol.html. QEMU
holds breakpoints by address and not by writing to memory, so they can be set before the kernel
maps itself, and a guest that runs under them executes no instruction more than one that does not.
"""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import dataclass

from flatboot.common.errors import FlatbootError

_THREAD = re.compile(rb"thread:([^;]+);")


@dataclass(frozen=True)
class Stop:
    """Why the guest stopped: the thread (a virtual CPU) that did, None if the guest is gone."""

    thread: str | None


class GdbStub:
    """A connection to QEMU's gdb stub; all calls but ``resume`` need a stopped guest.

    Registers are numbered as QEMU numbers them; values are little endian.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take over an open connection; ``connect`` makes one."""
        self._reader = reader
        self._writer = writer
        self._selected: str | None = None

    @classmethod
    async def connect(cls, connection: socket.socket) -> GdbStub:
        """Open the conversation on *connection*, to a guest that is stopped at its first reset."""
        stub = cls(*await asyncio.open_connection(sock=connection))
        await stub._ask(b"qSupported:multiprocess+;vContSupported+")
        # Without acknowledgements a packet is one write and one read.
        if await stub._ask(b"QStartNoAckMode") == b"OK":
            stub._writer.write(b"+")
        # QEMU answers requests for single registers only after it was asked for their description.
        await stub._ask(b"qXfer:features:read:target.xml:0,fff")
        await stub._ask(b"?")
        return stub

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def set_breakpoint(self, address: int) -> None:
        """Stop any CPU that is about to execute the instruction at *address*."""
        await self._demand(b"Z0,%x,1" % address)

    async def clear_breakpoint(self, address: int) -> None:
        """Take back ``set_breakpoint``."""
        await self._demand(b"z0,%x,1" % address)

    async def register(self, thread: str, number: int) -> int:
        """Return a register of the CPU *thread*."""
        await self._select(thread)
        return int.from_bytes(await self._content(b"p%x" % number), "little")

    async def set_register(self, thread: str, number: int, value: int, width: int) -> None:
        """Write *value*, *width* bytes wide, to a register of the CPU *thread*."""
        await self._select(thread)
        await self._demand(b"P%x=%s" % (number, value.to_bytes(width, "little").hex().encode()))

    async def read(self, thread: str, address: int, length: int) -> bytes:
        """Return memory as the CPU *thread* sees it."""
        await self._select(thread)
        return await self._content(b"m%x,%x" % (address, length))

    async def readable(self, thread: str, address: int, length: int) -> bool:
        """Tell whether that memory is mapped, as the CPU *thread* sees it."""
        await self._select(thread)
        return not (await self._ask(b"m%x,%x" % (address, length))).startswith(b"E")

    async def write(self, thread: str, address: int, data: bytes) -> None:
        """Write memory as the CPU *thread* sees it, write protection aside."""
        await self._select(thread)
        await self._demand(b"M%x,%x:%s" % (address, len(data), data.hex().encode()))

    async def step(self, thread: str) -> None:
        """Execute one instruction on the CPU *thread* alone, interrupts held back."""
        await self._send(b"vCont;s:%s" % thread.encode())
        await self._stopped()

    async def resume(self) -> Stop:
        """Let all CPUs run until one of them stops."""
        await self._send(b"vCont;c")
        return await self._stopped()

    async def detach(self) -> None:
        """Take back all breakpoints, leave, and let the guest run on."""
        await self._ask(b"D;1")
        self.close()

    async def _stopped(self) -> Stop:
        reply = await self._receive()
        self._selected = None
        thread = _THREAD.search(reply)
        return Stop(thread[1].decode() if reply.startswith(b"T05") and thread else None)

    async def _select(self, thread: str) -> None:
        if self._selected != thread:
            await self._demand(b"Hg" + thread.encode())
            self._selected = thread

    async def _content(self, packet: bytes) -> bytes:
        reply = await self._ask(packet)
        if not reply or reply.startswith(b"E"):
            raise _refused(packet, reply)
        return bytes.fromhex(reply.decode())

    async def _demand(self, packet: bytes) -> None:
        reply = await self._ask(packet)
        if reply != b"OK":
            raise _refused(packet, reply)

    async def _ask(self, packet: bytes) -> bytes:
        await self._send(packet)
        return await self._receive()

    async def _send(self, packet: bytes) -> None:
        self._writer.write(b"$%s#%02x" % (packet, sum(packet) % 256))
        await self._writer.drain()

    async def _receive(self) -> bytes:
        await self._reader.readuntil(b"$")
        packet = (await self._reader.readuntil(b"#"))[:-1]
        await self._reader.readexactly(2)
        return packet


def _refused(packet: bytes, reply: bytes) -> FlatbootError:
    answer = reply.decode() or "unsupported"
    return FlatbootError(
        f"QEMU's gdb stub refused {packet.decode()!r} ({answer}): boot with --no-phases"
    )
