"""The gdb remote protocol, against a stub of our own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from flatboot.common import arches
from flatboot.common.errors import FlatbootError
from flatboot.guest.follow import CounterReader, Follower
from flatboot.guest.gdbstub import GdbStub
from flatboot.record import marks
from flatboot.record.marks import MarkSpec, Symbols

X86 = arches.load("x86_64")
RAX, RDX, RDI, RSP, RIP = 0, 3, 5, 7, 16


class FakeGuest:
    """A guest with one CPU, breakpoints, and a script of the addresses that it passes."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.registers = dict.fromkeys(range(24), 0)
        self.registers[RSP] = 0x7000
        self.memory: dict[int, int] = {}
        self.breakpoints: set[int] = set()
        self.ticks = 1000
        self.mapped = True
        self.idle_steps = 0

    def answer(self, packet: str) -> str:
        command, rest = packet[:1], packet[1:]
        if packet.startswith(("qSupported", "qXfer")):
            return "multiprocess+"
        if packet.startswith("vCont;s"):
            return self.step()
        if packet.startswith("vCont;c"):
            while self.script:
                self.registers[RIP] = self.script.pop(0)
                self.ticks += 100
                if self.registers[RIP] in self.breakpoints:
                    return "T05thread:p01.01;"
            return "W00"
        if command in "Zz":
            address = int(rest.split(",")[1], 16)
            (self.breakpoints.add if command == "Z" else self.breakpoints.discard)(address)
        if command == "p":
            return self.registers[int(rest, 16)].to_bytes(8, "little").hex()
        if command == "P":
            number, value = rest.split("=")
            self.registers[int(number, 16)] = int.from_bytes(bytes.fromhex(value), "little")
        if command == "m":
            address, length = (int(word, 16) for word in rest.split(","))
            if not self.mapped:
                return "E14"
            return bytes(self.memory.get(address + i, 0x90) for i in range(length)).hex()
        if command == "M":
            where, content = rest.split(":")
            for i, byte in enumerate(bytes.fromhex(content)):
                self.memory[int(where.split(",")[0], 16) + i] = byte
        return "OK"

    def step(self) -> str:
        if self.idle_steps:
            self.idle_steps -= 1
            return "T05thread:p01.01;"
        pc = self.registers[RIP]
        self.ticks += 1
        if self.memory.get(pc) == 0x0F and self.memory.get(pc + 1) == 0x31:
            self.registers[RAX] = self.ticks & 0xFFFFFFFF
            self.registers[RDX] = self.ticks >> 32
            self.registers[RIP] = pc + 2
        else:
            self.registers[RIP] = pc + 1
            self.mapped = True
        return "T05thread:p01.01;"

    async def serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            while True:
                await reader.readuntil(b"$")
                packet = (await reader.readuntil(b"#"))[:-1].decode()
                await reader.readexactly(2)
                reply = self.answer(packet).encode()
                writer.write(b"+$%s#%02x" % (reply, sum(reply) % 256))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def with_stub(guest: FakeGuest, body: Callable[[GdbStub], Awaitable[None]]) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        server = asyncio.ensure_future(guest.serve(theirs))
        stub = await GdbStub.connect(ours)
        await body(stub)
        stub.close()
        await server

    asyncio.run(main())


def test_reading_the_counter_leaves_no_trace() -> None:
    guest = FakeGuest([])
    guest.ticks = (7 << 32) + 5
    guest.registers |= {RIP: 0x100, RAX: 11, RDX: 13}
    before = dict(guest.registers)

    async def body(stub: GdbStub) -> None:
        assert await CounterReader(stub, X86)("p01.01") == (7 << 32) + 6

    with_stub(guest, body)
    assert guest.registers == before
    assert guest.memory[0x100] == guest.memory[0x101] == 0x90


def test_a_step_that_executes_nothing_is_taken_again() -> None:
    guest = FakeGuest([])
    guest.registers |= {RIP: 0x100, RAX: 11, RDX: 13}
    guest.idle_steps = 2

    async def body(stub: GdbStub) -> None:
        assert await CounterReader(stub, X86)("p01.01") == 1001

    with_stub(guest, body)
    assert guest.registers[RIP] == 0x100


def test_refusals_are_sentences() -> None:
    guest = FakeGuest([])
    guest.mapped = False

    async def body(stub: GdbStub) -> None:
        assert not await stub.readable("p01.01", 0, 2)
        with pytest.raises(FlatbootError, match=r"refused 'm0,2' \(E14\): boot with --no-phases"):
            await stub.read("p01.01", 0, 2)

    with_stub(guest, body)


MAP = Symbols("1000 T smp_init\n2000 t do_one_initcall\n3000 T acpi_init\n4000 T caller\n")
SMP = MarkSpec(("smp_init",), False, None, "SMP init", None, False)
CALLS = MarkSpec(("do_one_initcall",), False, None, None, None, True)
INIT, BACK = 0x401000, 0x4010


def test_following_a_guest() -> None:
    guest = FakeGuest([0x500, 0x1000, BACK, 0x2000, BACK, 0x2000, BACK, INIT, INIT, 0x9999])
    guest.registers[RDI] = 0x3000
    guest.memory |= {0x7000 + i: byte for i, byte in enumerate(BACK.to_bytes(8, "little"))}
    seen: list[str] = []
    reached: list[int | None] = []

    async def body(stub: GdbStub) -> None:
        async def clock(thread: str) -> int:
            return guest.ticks

        follower = Follower(stub, X86, MAP, clock, seen.append)
        reached.append(await follower.follow((SMP, CALLS), INIT))
        assert [(hit.spec, hit.leaves, hit.callee) for hit in follower.hits] == [
            (SMP, False, ""),
            (SMP, True, ""),
            (CALLS, False, "acpi_init"),
            (CALLS, True, "acpi_init"),
            (CALLS, False, "acpi_init"),
            (CALLS, True, "acpi_init"),
        ]
        assert [hit.at for hit in follower.hits] == sorted(hit.at for hit in follower.hits)

    with_stub(guest, body)
    assert seen == ["SMP init"]
    assert reached[0] is not None


def test_the_page_of_init_may_have_to_be_fetched_first() -> None:
    guest = FakeGuest([0x1000, INIT, INIT])
    reached: list[int | None] = []

    async def body(stub: GdbStub) -> None:
        async def clock(thread: str) -> int:
            return guest.ticks

        plain = MarkSpec(("smp_init",), False, "x", None, None, False)
        follower = Follower(stub, X86, MAP, clock, lambda phase: None)
        guest.mapped = False
        reached.append(await follower.follow((plain,), INIT))

    # The step over the first mark maps memory in this fake, so unmap it as /init is near.
    original = guest.answer

    def answer(packet: str) -> str:
        if packet.startswith("vCont;c") and guest.script == [INIT, INIT]:
            guest.mapped = False
        return original(packet)

    guest.answer = answer  # type: ignore[method-assign]
    with_stub(guest, body)
    assert reached[0] is not None
    assert guest.script == []


def test_a_guest_that_ends_before_init() -> None:
    guest = FakeGuest([0x1000])
    guest.memory |= {0x7000 + i: byte for i, byte in enumerate(BACK.to_bytes(8, "little"))}

    async def body(stub: GdbStub) -> None:
        async def clock(thread: str) -> int:
            return guest.ticks

        follower = Follower(stub, X86, MAP, clock, lambda phase: None)
        assert await follower.follow((SMP,), INIT) is None
        assert len(follower.hits) == 1

    with_stub(guest, body)


def test_symbols() -> None:
    symbols = Symbols(
        "ffffffff81000000 T _text\nffffffff81000100 t run_init_process.isra.0\n"
        "ffffffff81000200 T pvh_start_xen\nffffffff82000000 D jiffies\n"
    )
    assert symbols.address("run_init_process") == 0xFFFFFFFF81000100
    assert symbols.address("jiffies") is None
    assert symbols.name(0xFFFFFFFF81000150) == "run_init_process.isra.0"
    assert symbols.name(0x10) == "0x10"
    entry = MarkSpec(("startup_64", "pvh_start_xen"), True, "early", None, None, False)
    assert list(marks.places((entry,), X86, symbols)) == [0x1000200]
    arm = Symbols("ffff800080000000 T _text\nffff800080e10000 T primary_entry\n")
    entry = MarkSpec(("primary_entry",), True, "early", None, None, False)
    assert list(marks.places((entry,), arches.load("arm64"), arm)) == [0x40200000 + 0xE10000]
