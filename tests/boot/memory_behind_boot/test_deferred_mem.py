"""Memory that mem= hides is added behind boot, into the zones asked for, whoever fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from guests import ADDED_BY, BLOCKS, Guests, agent, asked, meminfo, vmstat, zones
from monitors import monitor

from flatboot.guest import borrowed
from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-behind-boot")

FILES = "/sys/kernel/deferred_mem_init/"
AWAIT = f"poke await all {FILES}state complete"
SHOW = (AWAIT, "poke show zones /proc/zoneinfo", f"poke show plan {FILES}plan")
#: Where memory goes on above the hole below 4 GiB, and pages in a memory block of 128 MiB.
HIGH = 1 << 32
BLOCK = 1 << 27
MIB = 1 << 20
#: Where memory begins that mem=2G hides.
HIDDEN = {"x86_64": HIGH, "arm64": 0xC000_0000}
#: Bytes of a page, where they are not 4 KiB.
PAGES = {"pages-64k": 1 << 16}
LOST = re.compile(r"\[mem (\w+)-(\w+)\] is no whole memory block: left out")
#: Kernels and architectures; the kernel that checks itself takes five times as long.
WHERE = [
    ("users", "x86_64"),
    ("bench", "arm64"),
    pytest.param("debug", "x86_64", marks=pytest.mark.long),
    pytest.param("debug", "arm64", marks=pytest.mark.long),
]
#: The same, and all but the first only with the long tests.
RARELY = [WHERE[0], pytest.param(*WHERE[1], marks=pytest.mark.long), *WHERE[2:]]


def mib(record: Record, name: str = "zones") -> dict[tuple[int, str], int]:
    """Return the MiB present in each populated zone."""
    page = PAGES.get(record.kernel.config, 4096)
    return {key: zone.present * page // MIB for key, zone in zones(record.files[name]).items()}


def all_there(record: Record, gib: int) -> bool:
    """Return whether so much is present; PCs lose some pages below 1 MiB."""
    return gib * 1024 - 2 <= sum(mib(record).values()) <= gib * 1024


def said(record: Record) -> list[str]:
    """Return what the driver said."""
    return re.findall(r"\] deferred_mem: (.*)", record.log)


def lost_bytes(record: Record) -> list[int]:
    """Return the size of each piece that is no whole memory block."""
    return [int(end, 16) + 1 - int(start, 16) for start, end in LOST.findall(record.log)]


def added(memory: str, cmdline: str, *programs: str, **more: object) -> BootSpec:
    """Return a boot of a machine with *memory*, of which mem=2G leaves 2 GiB."""
    clock = "wall" if more.get("cpus", 1) != 1 else None
    ask = {"clock": clock, "cmdline": f"mem=2G {cmdline}", **more}
    return asked("flatboot", memory, (*programs, *SHOW), **ask)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shares", "normal", "movable"),
    [
        ("kernelcore=5G deferred_mem.movablecore=5G", 5, 5),
        ("movablecore=50%", 5, 5),
        ("kernelcore=30%", 3, 7),
        ("movablecore=3G", 7, 3),
        ("kernelcore=8G deferred_mem.movablecore=8G", 8, 2),
        ("kernelcore=100%", 10, 0),
        ("kernelcore=60% deferred_mem.movablecore=60%", 6, 4),
    ],
)
def test_zones_get_what_is_asked_for(
    guests: Guests, shares: str, normal: int, movable: int
) -> None:
    record = guests(added("12G", f"deferred_mem.mode=kernel deferred_mem.{shares}"))
    found = mib(record)
    assert found.pop((0, "DMA32")) + found.pop((0, "DMA"), 0) in range(2046, 2049)
    expected = {(0, "Normal"): normal * 1024, (0, "Movable"): movable * 1024}
    assert found == {zone: size for zone, size in expected.items() if size}


def test_normal_memory_lies_below_movable_memory(guests: Guests) -> None:
    record = guests(added("12G", "deferred_mem.mode=kernel deferred_mem.movablecore=50%"))
    middle = HIGH + 5 * 1024 * MIB
    assert record.files["plan"].split("\n")[:2] == [
        f"{HIGH:#x}-{middle - 1:#x} 0 kernel",
        f"{middle:#x}-{middle + 5 * 1024 * MIB - 1:#x} 0 movable",
    ]


def test_off_hides_it(guests: Guests) -> None:
    record = guests(asked("flatboot", "4G", (), cmdline="mem=2G"))
    assert record.meminfo["MemTotal"] < 2 * 1024 * 1024
    assert not said(record)


@pytest.mark.parametrize(("config", "arch"), RARELY)
@pytest.mark.parametrize("limit", ["1900M", "2G", "2049M", "300M"])
def test_a_cut_block_is_left_to_boot(guests: Guests, limit: str, config: str, arch: str) -> None:
    record = guests(
        asked(
            "flatboot",
            "4G",
            SHOW,
            cmdline=f"mem={limit} deferred_mem.mode=kernel",
            config=config,
            arch=arch,
        )
    )
    lost = lost_bytes(record)
    # All but the first page, and what the firmware keeps below 1 MiB and at the hole.
    assert 4096 - 2 <= sum(mib(record).values()) + sum(lost) / MIB <= 4096
    # The hole cuts the block before it; no other is lost.
    assert len(lost) <= 1 and sum(lost) < BLOCK


@pytest.mark.parametrize(
    ("more", "reserved"),
    [
        # Not memmap=, though it ends like it.
        ("hugetlb_free_vmemmap=on", 0),
        # mem=2G comes before it: each takes away what lies behind it.
        ("mem=4G", 0),
        ("mem=1G", 0),
        ("memmap=128M$5G", 128),
    ],
)
def test_nothing_is_lost_beside_other_parameters(guests: Guests, more: str, reserved: int) -> None:
    record = guests(added("8G", f"deferred_mem.mode=kernel {more}"))
    # mem=1G hides the block that the hole below 4 GiB cuts.
    lost = lost_bytes(record)
    assert sum(lost) < BLOCK
    assert 8192 - reserved - 2 <= sum(mib(record).values()) + sum(lost) / MIB <= 8192 - reserved


def test_a_memory_device_that_is_there_at_boot_is_not_lost(guests: Guests) -> None:
    device = (
        *("-m", "size=2048M,slots=1,maxmem=8G"),
        *("-object", "memory-backend-ram,id=dimm,size=1G"),
        *("-device", "pc-dimm,memdev=dimm"),
    )
    cmdline = "mem=1G deferred_mem.mode=kernel memhp_default_state=online"
    record = guests(asked("flatboot", "2G", SHOW, cmdline=cmdline, arguments=device))
    lost = lost_bytes(record)
    assert sum(lost) < BLOCK
    assert 3072 - 2 <= sum(mib(record).values()) + sum(lost) / MIB <= 3072
    assert "add_memory failed" not in record.log


def test_a_map_of_the_users_own_is_told_as_missing(guests: Guests) -> None:
    cmdline = "mem=2G deferred_mem.mode=kernel memmap=3G"
    programs = (f"poke await none {FILES}state incomplete", f"poke show missing {FILES}missing")
    record = guests(asked("flatboot", "4G", programs, cmdline=cmdline))
    assert record.results["await.none"] == "ok"
    assert 2000 * MIB < int(record.files["missing"]) <= 2048 * MIB
    assert any("stay hidden: memmap= says what is memory" in line for line in said(record))


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_nothing_to_add(guests: Guests, config: str, arch: str) -> None:
    record = guests(
        asked(
            "flatboot",
            "4G",
            SHOW,
            cmdline="mem=64G deferred_mem.mode=kernel",
            config=config,
            arch=arch,
        )
    )
    assert record.results["await.all"] == "ok"
    assert not record.files["plan"].strip()


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_junk_is_named_and_ignored(guests: Guests, config: str, arch: str) -> None:
    """The mode before the one that does not exist stays in force."""
    junk = (
        *("kernelcore=110%", "movablecore=101%", "kernelcore=-1G", "movablecore=lots"),
        *("timeout=soon", "mode=now"),
    )
    words = [f"deferred_mem.{word}" for word in ("mode=kernel", *junk)]
    record = guests(added("4G", " ".join(words), config=config, arch=arch))
    for word in words[1:]:
        assert any(line.startswith(f"{word}: ") for line in said(record)), word
    assert (0, "Movable") not in mib(record)
    assert all_there(record, 4)


@pytest.mark.parametrize("arch", HIDDEN)
@pytest.mark.parametrize("limit", ["1M", "0 mem=lots"])
def test_a_limit_that_is_next_to_nothing_is_a_block(guests: Guests, limit: str, arch: str) -> None:
    """What is no size limits nothing on x86-64, and is nothing on arm64."""
    record = guests(
        asked(
            "flatboot",
            "2G",
            SHOW,
            cmdline=f"mem={limit} deferred_mem.mode=kernel",
            arch=arch,
        )
    )
    assert record.results["await.all"] == "ok"
    nothing_hidden = limit != "1M" and arch == "x86_64"
    if limit != "1M":
        told = {"x86_64": "Malformed early option 'mem'", "arm64": "Memory limited to 0MB"}
        assert record.log.count(told[arch]) == 2
    assert bool(record.files["plan"].strip()) != nothing_hidden
    # PCs lose some pages below 1 MiB, and the block before the hole.
    assert 2046 - 128 <= sum(mib(record).values()) <= 2048


def test_an_initrd_of_much_of_the_limit_raises_it(guests: Guests, tmp_path: Path) -> None:
    """Without that the initrd is left out, and there is no /init."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(250 * MIB)
    cmdline = "mem=300M deferred_mem.mode=kernel"
    record = guests(asked("flatboot", "4G", SHOW, cmdline=cmdline, files=(("large", large),)))
    raised = re.search(r"mem= is too small for the initrd: boot gets (\d+) MiB", record.log)
    assert raised is not None
    assert 1000 <= int(raised[1]) <= 1024
    assert record.results["await.all"] == "ok"
    # The block before the hole below 4 GiB is no whole one.
    assert (4 << 10) - 3 <= sum(mib(record).values()) + sum(lost_bytes(record)) // MIB <= 4 << 10
    unraised = guests(asked("flatboot", "4G", SHOW, cmdline="mem=300M deferred_mem.mode=kernel"))
    assert "too small" not in unraised.log


@pytest.mark.long
def test_protected_kvm_gets_all_memory_at_boot(guests: Guests) -> None:
    """The hypervisor knows of the memory of boot alone; what is added has no place in its map."""
    record = guests(
        asked(
            "flatboot",
            "4G",
            ("poke show zones /proc/zoneinfo",),
            config="protected-kvm",
            cmdline="mem=2G deferred_mem.mode=kernel kvm-arm.mode=protected",
            arguments=("-machine", "virtualization=on"),
            arch="arm64",
        )
    )
    assert "deferred_mem: protected KVM: boot gets all memory" in record.log
    assert "kvm [1]: Protected hVHE mode initialized" in record.log or (
        "kvm [1]: Protected nVHE mode initialized" in record.log
    )
    assert sum(mib(record).values()) == 4 << 10


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_files_tell_what_there_is(guests: Guests, config: str, arch: str) -> None:
    names = (
        *("memblock_end_of_dram", "bootmem_end_of_dram", "deferred_kernelcore"),
        *("deferred_movablecore", "missing", "state"),
    )
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=kernel deferred_mem.movablecore=25%",
            AWAIT,
            *(f"poke show {name} {FILES}{name}" for name in names),
            config=config,
            arch=arch,
        )
    )
    shown = [record.files[name].strip() for name in names]
    first = HIDDEN[arch]
    # The firmware keeps the end of what lies below the hole.
    assert int(shown[0], 16) in range(first // 2 - BLOCK, first + 1)
    assert int(shown[1], 16) == first + 2048 * MIB
    assert shown[2:] == [str(1536 * MIB), str(512 * MIB), "0", "complete"]


@pytest.mark.parametrize("config", ["users", "debug"])
def test_each_node_gets_its_part(guests: Guests, config: str) -> None:
    record = guests(
        added(
            "6G",
            "deferred_mem.mode=kernel deferred_mem.movablecore=50%",
            cpus=2,
            nodes=2,
            config=config,
        )
    )
    found = mib(record)
    assert found[0, "Normal"] == found[0, "Movable"] == 512
    assert found[1, "Normal"] == found[1, "Movable"] == 1536


#: Modes and kernels; one has the probe file, which the agent leaves alone.
AGENTS = [
    ("user", "users"),
    ("auto", "users"),
    pytest.param("user", "probe", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("mode", "config"), AGENTS)
def test_an_agent_does_it(guests: Guests, mode: str, config: str) -> None:
    record = guests(
        added(
            "6G",
            f"deferred_mem.mode={mode} deferred_mem.movablecore=50%",
            "deferred-memd --plan",
            "deferred-memd",
            "deferred-memd --json --status",
            files=agent(),
            config=config,
        )
    )
    assert mib(record)[0, "Normal"] == mib(record)[0, "Movable"] == 2048
    assert not any("adding" in line for line in said(record))
    assert "add 16 blocks, online_movable" in record.console
    status = json.loads(next(line for line in record.console.splitlines() if line[:1] == "{"))
    assert (status["missing"], status["elsewhere"]) == (0, 0)
    assert [part["online"] for part in status["ranges"]] == [2048 * MIB, 2048 * MIB]


def test_the_agent_tells_of_blocks_that_came_online_elsewhere(guests: Guests) -> None:
    """As a rule of udev would have it, with the probe file or another way to add memory."""
    first = HIDDEN["x86_64"]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.movablecore=100%",
            f"poke write kernel {FILES}add '{first:#x} kernel'",
            "busybox sh -c 'deferred-memd; echo adding: $?; deferred-memd --status; echo all: $?'",
            files=(*agent(), *borrowed.files("busybox").items()),
        )
    )
    assert record.results["write.kernel"] == "ok"
    assert "adding: 1" in record.console
    assert "all: 1" in record.console
    assert f"block at {first:#x}: online in another zone than planned" in record.console
    assert "0 MiB missing, 128 MiB in another zone than planned" in record.console


@pytest.mark.parametrize("mode", ["kernel", "off"])
def test_bounce_buffers_are_those_of_the_whole_memory(guests: Guests, mode: str) -> None:
    """A device that reaches 4 GiB needs them for memory above, which comes later.

    The kernels for arm64 have no zone for such devices.
    """
    record = guests(
        asked(
            "flatboot",
            "6G",
            (AWAIT,) if mode != "off" else (),
            cmdline=f"mem=2G deferred_mem.mode={mode}",
        )
    )
    assert ("software IO TLB: mapped" in record.log) == (mode == "kernel")


ARM64 = [
    (f"deferred_mem.mode={mode}", programs)
    for mode, programs in (("kernel", ()), ("user", ("deferred-memd",)))
]


@pytest.mark.parametrize(("mode", "programs"), ARM64)
def test_arm64(guests: Guests, mode: str, programs: tuple[str, ...]) -> None:
    """Where mem= is a number of bytes, and no memory block has a probe file."""
    record = guests(
        asked(
            "flatboot",
            "12G",
            (*programs, *SHOW),
            cmdline=f"mem=2000M {mode} deferred_mem.kernelcore=5G deferred_mem.movablecore=5G",
            files=agent("arm64"),
            arch="arm64",
        )
    )
    found = mib(record)
    assert found[0, "Movable"] == 5 * 1024
    # Boot's 2 GiB, rounded up, and 5 more.
    assert sum(found.values()) - found[0, "Movable"] == 7 * 1024
    assert not any("missing" in line and "0 MiB are" not in line for line in said(record))


@pytest.mark.parametrize(("config", "arch"), WHERE)
@pytest.mark.parametrize(
    ("mode", "why"),
    [("auto", "there is no agent"), ("user deferred_mem.timeout=2", "the time is over")],
)
def test_without_an_agent_the_kernel_does_it(
    guests: Guests, mode: str, why: str, config: str, arch: str
) -> None:
    record = guests(added("4G", f"deferred_mem.mode={mode}", config=config, arch=arch))
    assert said(record)[0] == f"{why}: adding the 2048 MiB that are missing"
    assert all_there(record, 4)


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_the_agent_leaves_alone_what_is_online(guests: Guests, config: str, arch: str) -> None:
    first = HIDDEN[arch]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.movablecore=50%",
            f"poke write first {FILES}add {first:#x}",
            f"poke write movable {FILES}add {first + 1024 * MIB:#x}",
            "deferred-memd",
            "deferred-memd --json --plan",
            "deferred-memd --status",
            files=agent(arch),
            config=config,
            arch=arch,
        )
    )
    assert record.results["write.first"] == record.results["write.movable"] == "ok"
    assert "left to the kernel" not in record.console
    assert not any("adding" in line for line in said(record))
    plan = json.loads(next(line for line in record.console.splitlines() if line[:2] == '{"'))
    assert [part["blocks"] for part in plan["ranges"]] == [0, 0]
    assert mib(record)[0, "Movable"] == 1024
    assert all_there(record, 4)


#: What to call "unfaithful" with, why the kernel takes over, and what it then adds, in MiB.
FAILURES = {
    "gone": ("the agent is gone", 1920),
    "killed": ("the agent is gone", 1920),
    "usurped": ("it is said to be done", 1792),
    "hung": ("the time is over", 1920),
    "lying": ("it is said to be done", 2048),
    "careless": ("it is said to be done", 2048),
}


@pytest.mark.parametrize(("config", "arch"), WHERE)
@pytest.mark.parametrize("failure", FAILURES)
def test_the_kernel_does_what_an_agent_leaves(
    guests: Guests, failure: str, config: str, arch: str
) -> None:
    why, missing = FAILURES[failure]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.timeout=12",
            f"unfaithful {failure} {HIDDEN[arch]:#x}",
            config=config,
            arch=arch,
        )
    )
    assert said(record)[0] == f"{why}: adding the {missing} MiB that are missing"
    assert all_there(record, 4)


@pytest.mark.parametrize(("config", "arch"), WHERE)
def test_a_second_agent_is_refused(guests: Guests, config: str, arch: str) -> None:
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.timeout=12",
            f"unfaithful first {HIDDEN[arch]:#x}",
            files=agent(arch),
            config=config,
            arch=arch,
        )
    )
    assert record.results["second"] == "2"
    assert all_there(record, 4)


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_zones_are_not_interleaved(guests: Guests, config: str, arch: str) -> None:
    """Normal memory behind movable memory is refused; what lies below stays as it is planned."""
    first = HIDDEN[arch]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user",
            f"poke write movable {FILES}add {first + BLOCK:#x}\\ movable",
            f"poke write behind {FILES}add {first + 2 * BLOCK:#x}\\ kernel",
            f"poke write again {FILES}add {first + BLOCK:#x}",
            f"poke write odd {FILES}add {first + 4096:#x}",
            f"poke write outside {FILES}add {2 * HIGH:#x}",
            f"poke write done {FILES}state done",
            config=config,
            arch=arch,
        )
    )
    assert record.results["write.movable"] == "ok"
    assert record.results["write.behind"] == "EINVAL"
    assert record.results["write.again"] == "EEXIST"
    assert record.results["write.odd"] == record.results["write.outside"] == "EINVAL"
    assert any("only movable would be accepted" in line for line in said(record))
    assert mib(record)[0, "Movable"] == 1920
    assert all_there(record, 4)


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_what_lies_below_normal_memory_becomes_normal(
    guests: Guests, config: str, arch: str
) -> None:
    """It is planned to be movable, and an agent adds a block in the middle as normal memory."""
    first = HIDDEN[arch]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.movablecore=100%",
            f"poke write normal {FILES}add {first + 3 * BLOCK:#x}\\ kernel",
            f"poke write below {FILES}add {first + BLOCK:#x}\\ movable",
            f"poke write behind {FILES}add {first + 4 * BLOCK:#x}",
            f"poke write done {FILES}state done",
            config=config,
            arch=arch,
        )
    )
    assert record.results["write.normal"] == record.results["write.behind"] == "ok"
    assert record.results["write.below"] == "EINVAL"
    assert any("only kernel would be accepted" in line for line in said(record))
    assert mib(record)[0, "Movable"] == 2048 - 4 * 128
    assert all_there(record, 4)


@pytest.mark.parametrize(("config", "arch"), WHERE)
@pytest.mark.parametrize("shares", ["", " deferred_mem.movablecore=100%"])
def test_memory_that_is_short_is_added_at_once(
    guests: Guests, shares: str, config: str, arch: str
) -> None:
    """Who needs more than boot has gets it, although the agent never comes."""
    record = guests(
        asked(
            "flatboot",
            "3G",
            ("latency 1800", *SHOW),
            cmdline=f"mem=512M deferred_mem.mode=user deferred_mem.timeout=600{shares}",
            config=config,
            arch=arch,
        )
    )
    assert any(line.startswith("memory is short: adding the") for line in said(record))
    assert vmstat(record.files["/proc/vmstat"])["oom_kill"] == 0
    assert record.results["await.all"] == "ok"


@pytest.mark.parametrize(("config", "arch"), RARELY)
def test_large_allocations_wait_for_it_before_they_reclaim(
    guests: Guests, config: str, arch: str
) -> None:
    """A pool of huge pages gets what boot does not have, and nothing is reclaimed for it."""
    record = guests(
        asked(
            "flatboot",
            "6G",
            (
                "poke write grow /proc/sys/vm/nr_hugepages 1200",
                "poke show pages /proc/sys/vm/nr_hugepages",
                *SHOW,
            ),
            cmdline="mem=2G deferred_mem.mode=user deferred_mem.timeout=600",
            config=config,
            arch=arch,
        )
    )
    assert any(line.startswith("memory is short: adding the") for line in said(record))
    assert record.files["pages"].strip() == "1200"
    counters = vmstat(record.files["/proc/vmstat"])
    assert sum(count for name, count in counters.items() if name.startswith("allocstall")) == 0


@pytest.mark.long
@pytest.mark.parametrize("arch", HIDDEN)
@pytest.mark.parametrize(("times", "missing"), [(30, 0), (-1, 2048)])
def test_allocations_that_fail(guests: Guests, times: int, missing: int, arch: str) -> None:
    """What fails once is tried again; of what fails for good the log has each address."""
    end = "incomplete" if missing else "complete"
    record = guests(
        asked(
            "flatboot",
            "4G",
            (
                f"unfaithful denied {times}",
                f"poke await end {FILES}state {end}",
                f"poke show missing {FILES}missing",
                "poke show zones /proc/zoneinfo",
            ),
            cmdline="mem=2G deferred_mem.mode=user deferred_mem.timeout=120",
            config="debug",
            arch=arch,
        )
    )
    assert record.results["await.end"] == "ok"
    assert said(record)[-1].endswith(f"{missing} MiB are missing")
    assert int(record.files["missing"]) == missing * MIB
    assert all_there(record, 4 - missing // 1024)
    lost = re.findall(r"\[mem (\w+)-(\w+)\] cannot be added: -\w+", record.log)
    first = HIDDEN[arch]
    blocks = [(first + at, first + at + BLOCK - 1) for at in range(0, missing * MIB, BLOCK)]
    assert [(int(start, 16), int(last, 16)) for start, last in lost] == blocks


@pytest.mark.parametrize(("config", "arch"), WHERE)
@pytest.mark.parametrize("mode", ADDED_BY)
def test_added_blocks_go_offline_and_come_back(
    guests: Guests, mode: str, config: str, arch: str
) -> None:
    last = f"{BLOCKS}memory{(HIDDEN[arch] + 2048 * MIB) // BLOCK - 1}/"
    record = guests(
        added(
            "4G",
            f"deferred_mem.mode={mode}",
            *ADDED_BY[mode],
            AWAIT,
            f"poke write offline {last}state offline",
            "poke show less /proc/meminfo",
            f"poke write online {last}state online",
            "poke show again /proc/meminfo",
            files=agent(arch),
            config=config,
            arch=arch,
        )
    )
    assert record.results["write.offline"] == record.results["write.online"] == "ok"
    less, again = (meminfo(record.files[name])["MemTotal"] for name in ("less", "again"))
    assert again - less == BLOCK // 1024


@pytest.mark.parametrize(("config", "arch"), WHERE)
@pytest.mark.parametrize("mode", ADDED_BY)
def test_added_blocks_are_removed_and_come_back(
    guests: Guests, mode: str, config: str, arch: str
) -> None:
    """Also from the middle of what was added at once; its neighbours keep their place in the
    direct map, and all of it can be used when it is back."""
    block = HIDDEN[arch] + 5 * BLOCK
    record = guests(
        added(
            "3G",
            f"deferred_mem.mode={mode} deferred_mem.movablecore=100%",
            *ADDED_BY[mode],
            AWAIT,
            f"poke write odd {FILES}remove {block + 4096:#x}",
            f"poke write boot {FILES}remove {HIDDEN[arch] - BLOCK:#x}",
            f"poke write remove {FILES}remove {block:#x}",
            f"poke write twice {FILES}remove {block:#x}",
            f"poke show missing {FILES}missing",
            f"poke show gone {BLOCKS}memory{block // BLOCK}/state",
            "poke show less /proc/zoneinfo",
            f"poke write add {FILES}add {block:#x}",
            f"poke write again {FILES}add {block:#x}",
            f"poke show found {FILES}missing",
            "churn 1 4k:1:80",
            files=agent(arch),
            config=config,
            arch=arch,
        )
    )
    results = record.results
    assert results["write.odd"] == results["write.boot"] == "EINVAL"
    assert results["write.remove"] == results["write.add"] == "ok"
    assert results["write.twice"] == "ENOENT"
    assert results["write.again"] == "EEXIST"
    assert int(record.files["missing"]) == BLOCK
    assert int(record.files["found"]) == 0
    assert not record.files["gone"].strip()
    assert mib(record, "less")[0, "Movable"] == 1024 - 128
    assert mib(record)[0, "Movable"] == 1024


def test_nothing_is_removed_before_all_is_added(guests: Guests) -> None:
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user",
            f"poke write add {FILES}add {HIGH:#x}",
            f"poke write early {FILES}remove {HIGH:#x}",
            f"poke write done {FILES}state done",
        )
    )
    assert record.results["write.early"] == "EBUSY"
    assert all_there(record, 4)


@pytest.mark.parametrize(
    ("config", "arch"), [*WHERE, pytest.param("pages-64k", "arm64", marks=pytest.mark.long)]
)
def test_threads_share_the_work(guests: Guests, config: str, arch: str) -> None:
    """Memory that they made together can be used; there are no more of them than CPUs."""
    alone, shared = (
        guests(
            added(
                "4G",
                f"deferred_mem.mode=kernel memory_hotplug.threads={threads}"
                " trace_event=workqueue:workqueue_execute_start",
                AWAIT,
                "poke show works /sys/kernel/tracing/trace",
                *(["fill 4k 1 once"] if threads > 1 else []),
                cpus=4,
                config=config,
                arch=arch,
            )
        )
        for threads in (1, 99)
    )
    assert all_there(alone, 4) and all_there(shared, 4)
    assert shared.results["fill.bad_words"] == "0"
    helpers = [record.files["works"].count("function mhp_help") for record in (alone, shared)]
    assert helpers[0] == 0
    # At most three for the memory map and three for the pages of each of four steps; one that comes
    # when all is shared out does not run. With pages of 64 KiB there is too little to share.
    assert helpers[1] in (range(4, 25) if config not in PAGES else [0])


def test_steps_can_be_traced(guests: Guests) -> None:
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=kernel trace_event=deferred_mem:deferred_mem_step",
            AWAIT,
            "poke show steps /sys/kernel/tracing/trace",
        )
    )
    steps = re.findall(
        r"deferred_mem_step: nid=0 start=(\w+) size=(\w+) kernel missing=0x0",
        record.files["steps"],
    )
    begins = [int(start, 16) for start, _ in steps]
    assert begins == list(range(HIGH, HIGH + 2048 * MIB, 512 * MIB))
    assert {int(size, 16) for _, size in steps} == {512 * MIB}


@pytest.mark.parametrize("mode", ADDED_BY)
def test_suspend_to_idle(guests: Guests, tmp_path: Path, mode: str) -> None:
    """The power button wakes the machine; what was added is still there, and can be filled."""
    with monitor(tmp_path, "system_powerdown\n", every_s=3) as button:
        record = guests(
            added(
                "3G",
                f"deferred_mem.mode={mode}",
                *ADDED_BY[mode],
                AWAIT,
                "poke show before /proc/meminfo",
                "poke write sleep /sys/power/state freeze",
                "poke show after /proc/meminfo",
                "fill 4k 1 once",
                files=agent(),
                arguments=button,
                clock="wall",
            )
        )
    assert record.results["write.sleep"] == "ok"
    assert "PM: suspend exit" in record.log
    before, after = (meminfo(record.files[when])["MemTotal"] for when in ("before", "after"))
    assert before == after > 5 << 19
    assert record.results["fill.bad_words"] == "0"
