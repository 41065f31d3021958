"""A kernel that crashes is dumped, and tools as they are find all that was in use in the dump."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from guests import ADDED_BY, Guests, agent, asked, assert_no_splat, kernel_of, meminfo, zones
from vmcore import PAGE, Core

from flatboot.guest import next_kernel, stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

MEMORY = "2G"
KEPT_MIB = 16
KINDS = ("small", "huge", "file")
MARK = int.from_bytes(b"flatboot", "little")
LOG_LINE = "test: this line is looked for in the dump"
#: Of the levels of makedumpfile: what is full of zeros, and what user space has in memory.
ZERO, FILES, USER, FREE, ALL = 1, 2 | 4, 8, 16, 31
LEVELS = (ZERO, ZERO | USER, FREE, ALL)
#: What may have been initialised between two looks at a guest's memory.
NOISE_KB = 16384
#: What the second kernel of a guest is booted with, and a crash kernel besides. Whether the timer
#: works, a loaded host may answer too late.
CMDLINE = "console=ttyS0 quiet panic=-1 tsc=reliable reboot=t no_timer_check"
CRASH_CMDLINE = f"{CMDLINE} nr_cpus=1 irqpoll"
#: Half of MEMORY is added behind boot, and what user space keeps comes to lie there.
DEFERRED = "mem=1G deferred_mem.movablecore=100% deferred_mem.mode="
ADDED = "poke await added /sys/kernel/deferred_mem_init/state complete"
#: Of a section: a bit of its first word; where its usage is, and there the map of subsections.
SECTION_HAS_MEM_MAP, USAGE, SUBSECTION_MAP = 2, 8, 16
#: Pages of a subsection.
SUBSECTION = (2 << 20) // PAGE
_TIMEOUT_S = 1500.0


@dataclass(frozen=True)
class Crash:
    """A crash that a test asks for.

    Attributes:
        flavour: "stock" or "flatboot".
        mode: value of deferred_init=, or None to leave it out.
        load: the system call that loads the crash kernel.
        config: name of the kernel's config.
        stale: whether memory is full of what looks like struct pages before the kernel boots.
        deferred: who adds half of the memory behind boot, as movable memory; "" for nobody.
    """

    flavour: str
    mode: str | None = "lazy"
    load: str = "kexec_file_load"
    config: str = "users"
    stale: bool = False
    deferred: str = ""


@dataclass(frozen=True)
class Dump:
    """What a crash left: the record of both kernels' boots, and the first one's memory."""

    record: Record
    core: Path


@dataclass(frozen=True)
class Stage:
    """One of two kernels that run one after the other: its parameters, and guest programs."""

    cmdline: str
    programs: tuple[str, ...]


class Crashes:
    """Crashes what is asked for, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dumps: dict[Crash, Dump] = {}

    def __call__(self, crash: Crash) -> Dump:
        """Return the dump; a splat of either kernel but for the panic fails the test."""
        if crash not in self._dumps:
            folder = self._folder / f"crash{len(self._dumps)}"
            folder.mkdir()
            self._dumps[crash] = self._crash(crash, folder)
        return self._dumps[crash]

    def _crash(self, crash: Crash, folder: Path) -> Dump:
        wanted = machine(memory=MEMORY)
        disk = folder / "core"
        with disk.open("wb") as file:
            file.truncate(wanted.memory_bytes)
        arguments = ["-drive", f"file={disk},format=raw,if=none,id=core,cache=unsafe"]
        arguments += ["-device", "virtio-blk-pci,drive=core"]
        if crash.stale:
            arguments += stale_memory(folder / "stale")
        mode = f"deferred_init={crash.mode}" if crash.mode else ""
        deferred = DEFERRED + crash.deferred if crash.deferred else ""
        copying = ["dump copy /proc/vmcore /dev/vda"]
        image = kernel_of(crash.flavour, "users").image().image
        spec = BootSpec(
            kernel_of(crash.flavour, crash.config),
            wanted,
            f"crashkernel=256M {deferred or mode}".strip(),
            "wall",
            (
                *([*ADDED_BY[crash.deferred], ADDED] if crash.deferred else []),
                f"dump keep {KEPT_MIB}",
                f"dump log '{LOG_LINE}'",
                next_kernel.load(f"{CRASH_CMDLINE} {mode}", "-p", crash.load),
                "poke show before /proc/meminfo",
                "dump crash",
            ),
            (
                *next_kernel.files(image, copying, "wall").items(),
                *agent(),
            ),
            tuple(arguments),
            timeout_s=_TIMEOUT_S,
        )
        record = stored.boot(spec)
        before, after = re.split(r"^flatboot: panic=wanted\n", record.console, flags=re.MULTILINE)
        assert_no_splat(before)
        assert_no_splat(after[after.index("flatboot: mark=") :])
        return Dump(record, disk)


#: Where the memory map of MEMORY comes to lie, below what is kept for the crash kernel.
STALE_START, STALE_BYTES = 0x68000000, 0x0F000000


def stale_memory(file: Path) -> list[str]:
    """Return arguments of QEMU for memory that holds, as if of an earlier kernel, struct pages.

    In turn they are of a free page of order 3, of a file, of a process, and of a broken page.
    """
    lru, hwpoison, buddy = 1 << 5, 1 << 22, 0xF0 << 24
    kinds = [(0, 0, 3, buddy), (lru, 0, 0, 0), (lru, 1, 0, 0), (hwpoison, 0, 0, 0)]
    pages = b"".join(
        # flags, lru (two words), mapping, index, private, _mapcount, _refcount, memcg
        struct.pack("<QQQQQQIIQ", flags, 0, 0, mapping, 0, private, mapcount, 0, 0)
        for flags, mapping, private, mapcount in kinds
    )
    file.write_bytes(pages * (STALE_BYTES // len(pages)))
    return ["-device", f"loader,file={file},addr={STALE_START:#x},force-raw=on"]


@pytest.fixture(scope="module")
def crashes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Crashes:
    return Crashes(tmp_path_factory.mktemp("crashes"))


def filtered(dump: Dump, level: int) -> Core:
    """Return what makedumpfile leaves of a dump at a level."""
    path = dump.core.with_name(f"level{level}")
    if not path.exists():
        run("makedumpfile", "-E", "-d", str(level), str(dump.core), str(path))
    return Core(path)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def kept(core: Core) -> dict[str, int]:
    """Return how many of the pages that the guest kept are there, each with all of its words."""
    seen: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for _, pages in core.pages():
        for page in pages[pages[:, 0] == MARK]:
            number = int(page[2])
            if page[1] < len(KINDS) and np.array_equal(page[3:], np.arange(3, 512) + number):
                seen[KINDS[int(page[1])]].add(number)
    return {kind: len(numbers) for kind, numbers in seen.items()}


def check_kept(core: Core, level: int) -> None:
    """Check that all that the guest kept is there but for what *level* takes away."""
    wanted = (KEPT_MIB << 20) // PAGE
    found = kept(core)
    for kind, removed_by in zip(KINDS, (USER, USER, FILES), strict=True):
        if not level & removed_by:
            assert found[kind] == wanted, f"level {level}: {kind}"


def check_memory_map(raw: Core, core: Core, level: int) -> None:
    """Check that all pages of the memory map are there; with ZERO, all that are not full of it."""
    there = set(core.present().tolist())
    missing = []
    for first, physical, length in raw.memory_map():
        for page in range(physical // PAGE, (physical + length) // PAGE):
            if page in there or (level & ZERO and not any(raw.read(page * PAGE, PAGE))):
                continue
            missing.append((first, page))
    assert not missing, f"level {level}: {len(missing)} pages of the memory map are missing"


def check_pending(raw: Core, core: Core, deferred_kb: int) -> None:
    """Check that no pending memory is left by level 16, and that *deferred_kb* of it is pending."""
    there = core.present()
    pending = 0
    for first, count in pending_free(raw):
        pending += count
        at = np.searchsorted(there, first)
        assert at == len(there) or there[at] >= first + count, f"pending page {there[at]:#x}"
    assert abs(pending * PAGE // 1024 - deferred_kb) <= NOISE_KB


def pending_free(core: Core) -> Iterator[tuple[int, int]]:
    """Yield the subsections without struct pages: first page, number of pages.

    In guests of MEMORY all sections are memory throughout, and a crash kernel is loaded once
    those that hold reserved memory are initialised.
    """
    size = core.number("SIZE(mem_section)")
    section = (1 << core.number("NUMBER(SECTION_SIZE_BITS)")) // PAGE
    roots = core.number("SYMBOL(mem_section)")
    for number in range(-(-core.present()[-1] // section)):
        root, at = divmod(number, PAGE // size)
        entry = core.word(roots + root * 8) + at * size
        if not core.word(entry) & SECTION_HAS_MEM_MAP:
            continue
        there = core.word(core.word(entry + USAGE) + SUBSECTION_MAP)
        for subsection in range(section // SUBSECTION):
            if not there >> subsection & 1:
                yield number * section + subsection * SUBSECTION, SUBSECTION


def check(dump: Dump) -> None:
    """Check the dump, and what makedumpfile leaves of it."""
    raw = Core(dump.core)
    for level in LEVELS:
        core = filtered(dump, level)
        check_kept(core, level)
        check_memory_map(raw, core, level)
    log = dump.core.with_name("log")
    if not log.exists():
        run("makedumpfile", "--dump-dmesg", str(dump.core), str(log))
    said = log.read_text(errors="replace")
    assert LOG_LINE in said
    assert "Kernel panic - not syncing" in said


def check_lazy(dump: Dump) -> None:
    """Check the same of a lazy kernel, and its pending memory."""
    check(dump)
    before = meminfo(dump.record.files["before"])
    assert before["Deferred"] > 0
    check_pending(Core(dump.core), filtered(dump, FREE), before["Deferred"])


def test_a_lazy_kernel_is_dumped(crashes: Crashes) -> None:
    check_lazy(crashes(Crash("flatboot")))


def test_loading_a_crash_kernel_leaves_the_rest_pending(guests: Guests) -> None:
    """It does not wait for the threads of background mode."""
    programs = (
        next_kernel.load(f"{CRASH_CMDLINE} deferred_init=lazy", "-p"),
        "poke show loaded /sys/kernel/kexec_crash_loaded",
        "poke show after /proc/meminfo",
    )
    files = next_kernel.files(kernel_of("flatboot", "users").image().image, [], "wall")
    record = guests(
        asked(
            "flatboot",
            "64G",
            programs,
            "background",
            config="users",
            cmdline="crashkernel=256M",
            files=tuple(files.items()),
        )
    )
    after = meminfo(record.files["after"])
    assert record.files["loaded"].strip() == "1"
    assert after["Deferred"] > after["MemTotal"] // 2


@pytest.mark.long
def test_stock_is_dumped(crashes: Crashes) -> None:
    check(crashes(Crash("stock", mode=None)))


@pytest.mark.long
def test_a_lazy_dump_is_no_larger(crashes: Crashes) -> None:
    ours, theirs = (
        len(filtered(crashes(crash), ALL).present())
        for crash in (Crash("flatboot"), Crash("stock", mode=None))
    )
    assert ours <= theirs * 1.05


@pytest.mark.long
@pytest.mark.parametrize("load", next_kernel.CALLS)
@pytest.mark.parametrize("stale", [False, True], ids=["fresh", "stale"])
def test_either_way_of_loading(crashes: Crashes, load: str, stale: bool) -> None:
    dump = crashes(Crash("flatboot", load=load, stale=stale))
    if stale:
        first = min(physical for _, physical, _ in Core(dump.core).memory_map())
        assert STALE_START <= first < STALE_START + STALE_BYTES, "nothing stale was in the way"
    check_lazy(dump)


@pytest.mark.long
def test_the_debug_kernel_is_dumped(crashes: Crashes) -> None:
    check_lazy(crashes(Crash("flatboot", config="debug")))


@pytest.mark.groups("memory-behind-boot")
@pytest.mark.long
@pytest.mark.parametrize("load", next_kernel.CALLS)
@pytest.mark.parametrize("mode", ADDED_BY)
def test_memory_added_behind_boot_is_dumped(crashes: Crashes, mode: str, load: str) -> None:
    dump = crashes(Crash("flatboot", mode=None, load=load, deferred=mode))
    check(dump)
    added = sum(
        np.count_nonzero(pages[:, 0] == MARK)
        for physical, pages in Core(dump.core).pages()
        if physical >= 1 << 30
    )
    assert added > (KEPT_MIB << 20) // PAGE, "little of what is kept lies in added memory"


@pytest.mark.groups("memory-behind-boot")
@pytest.mark.long
@pytest.mark.parametrize("call", next_kernel.CALLS)
@pytest.mark.parametrize("config", ["users", "debug"])
@pytest.mark.parametrize("mode", ADDED_BY)
def test_kexec_adds_the_memory_again(mode: str, config: str, call: str) -> None:
    """The next kernel finds what mem= hides from it, although this one had it all."""
    first = Stage(DEFERRED + mode, (*ADDED_BY[mode], ADDED))
    second = Stage(f"{DEFERRED}kernel", (ADDED, "poke show zones /proc/zoneinfo"))
    record = chain(kernel_of("flatboot", config), call, MEMORY, first, second)
    assert record.results["await.added"] == "ok"
    # All of the second half but the last memory block, of which the firmware keeps a part.
    assert "deferred_mem: 896 MiB added in" in record.log
    movable = zones(record.files["zones"]).get((0, "Movable"))
    if call == "kexec_load":
        # The image lies at the end of memory, and what is below it becomes normal.
        assert movable is None and "so 896 MiB become normal" in record.log
    else:
        assert movable is not None and movable.present * PAGE == (1 << 30) - (1 << 27)


@pytest.mark.long
@pytest.mark.parametrize("call", next_kernel.CALLS)
@pytest.mark.parametrize("config", ["users", "debug"])
@pytest.mark.parametrize("first", ["lazy", "wait"])
def test_kexec_into_a_lazy_kernel(first: str, config: str, call: str) -> None:
    stages = (
        Stage(f"deferred_init={first}", ("fill 4k 1",)),
        Stage("deferred_init=lazy", ("fill 4k 1", "poke drain flags /proc/kpageflags")),
    )
    record = chain(kernel_of("flatboot", config), call, "1G", *stages)
    assert record.meminfo["Deferred"] > 0
    assert record.results["fill.bad_words"] == "0"
    assert record.results["fill.still_deferred"] == "0"


def chain(kernel: KernelName, call: str, memory: str, first: Stage, second: Stage) -> Record:
    """Boot *kernel*, and boot it again by kexec; the record of the second boot."""
    spec = BootSpec(
        kernel,
        machine(memory=memory),
        first.cmdline,
        "wall",
        (
            *first.programs,
            next_kernel.load(f"{CMDLINE} {second.cmdline}", call=call),
            next_kernel.BOOT,
        ),
        (*next_kernel.files(kernel.image().image, second.programs, "wall").items(), *agent()),
        timeout_s=_TIMEOUT_S,
    )
    record = stored.boot(spec)
    assert_no_splat(record.console)
    assert record.console.count("flatboot: mark=") == 2
    return record


@pytest.mark.long
@pytest.mark.parametrize("config", ["users", "debug"])
def test_kcore_has_all_that_is_in_use(guests: Guests, config: str) -> None:
    programs = (f"dump keep {KEPT_MIB}", f"dump find {KEPT_MIB}", "poke show after /proc/meminfo")
    record = guests(asked("flatboot", MEMORY, programs, "lazy", config=config, clock="wall"))
    for kind in KINDS:
        assert record.results[f"dump.found.{kind}"] == record.results[f"dump.kept.{kind}"]
    assert meminfo(record.files["after"])["Deferred"] > 0
