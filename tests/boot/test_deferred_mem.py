"""Memory that mem= hides is added behind boot, into the zones asked for, whoever fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from guests import BLOCKS, Ask, Guests, meminfo, vmstat, zones
from monitors import monitor

from flatboot import arches, borrowed, cprogram
from flatboot.record import Record

FILES = "/sys/kernel/deferred_mem_init/"
AWAIT = f"poke await all {FILES}state complete"
SHOW = (AWAIT, "poke show zones /proc/zoneinfo", f"poke show plan {FILES}plan")
#: Where memory goes on above the hole below 4 GiB, and pages in a memory block of 128 MiB.
HIGH = 1 << 32
BLOCK = 1 << 27
MIB = 1 << 20
LOST = re.compile(r"\[mem (\w+)-(\w+)\] is no whole memory block: left out")
#: Most is shown on both; on the kernel that checks itself it takes five times as long.
CONFIGS = ["bench", pytest.param("debug", marks=pytest.mark.long)]
AGENT = Path(__file__).parents[2] / "agent" / "deferred-memd.c"


def agent(arch: str = "x86_64") -> tuple[tuple[str, Path], ...]:
    """Return deferred-memd as a file for the guest."""
    compiler = f"{arches.load(arch).cross_compile}gcc"
    flags = ["-static", "-O2", "-Wall", "-Wextra", "-Werror"]
    program = cprogram.compiled(f"agent/{arch}", compiler, flags, AGENT)
    program.chmod(0o755)
    return (("bin/deferred-memd", program),)


def shell() -> tuple[tuple[str, Path], ...]:
    return tuple(borrowed.files("busybox").items())


def mib(record: Record, name: str = "zones") -> dict[tuple[int, str], int]:
    """Return the MiB present in each populated zone."""
    return {key: zone.present * 4096 // MIB for key, zone in zones(record.files[name]).items()}


def said(record: Record) -> list[str]:
    """Return what the driver said."""
    return re.findall(r"deferred_mem: (.*)", record.log)


def added(memory: str, cmdline: str, *programs: str, **more: object) -> Ask:
    """Return a boot of a machine with *memory*, of which mem=2G leaves 2 GiB."""
    ask = {"clock": "wall", "cmdline": f"mem=2G {cmdline}", **more}
    return Ask("flatboot", memory, (*programs, *SHOW), **ask)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shares", "normal", "movable"),
    [
        ("kernelcore=5G deferred_mem.movablecore=5G", 5, 5),
        ("movablecore=50%", 5, 5),
        ("kernelcore=30%", 3, 7),
        ("movablecore=3G", 7, 3),
        ("kernelcore=8G deferred_mem.movablecore=8G", 8, 2),
        ("kernelcore=100%", 10, 0),
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
    record = guests(Ask("flatboot", "4G", (), clock="wall", cmdline="mem=2G"))
    assert record.meminfo["MemTotal"] < 2 * 1024 * 1024
    assert not said(record)


@pytest.mark.parametrize("limit", ["1900M", "2G", "2049M", "300M"])
def test_a_cut_block_is_left_to_boot(guests: Guests, limit: str) -> None:
    record = guests(
        Ask(
            "flatboot",
            "4G",
            SHOW,
            clock="wall",
            cmdline=f"mem={limit} deferred_mem.mode=kernel",
        )
    )
    lost = [int(end, 16) + 1 - int(start, 16) for start, end in LOST.findall(record.log)]
    # All but the first page, and what the firmware keeps below 1 MiB and at the hole.
    assert 4096 - 2 <= sum(mib(record).values()) + sum(lost) / MIB <= 4096
    # The hole cuts the block before it; no other is lost.
    assert len(lost) <= 1 and sum(lost) < BLOCK


def test_nothing_to_add(guests: Guests) -> None:
    record = guests(
        Ask("flatboot", "4G", SHOW, clock="wall", cmdline="mem=64G deferred_mem.mode=kernel")
    )
    assert record.results["await.all"] == "ok"
    assert not record.files["plan"].strip()


@pytest.mark.parametrize(
    ("junk", "message"),
    [
        ("kernelcore=110%", "deferred_mem.kernelcore=110%"),
        ("movablecore=lots", "deferred_mem.movablecore=lots"),
        ("timeout=soon", "deferred_mem.timeout=soon"),
    ],
)
def test_junk_is_named_and_ignored(guests: Guests, junk: str, message: str) -> None:
    record = guests(added("4G", f"deferred_mem.mode=kernel deferred_mem.{junk}"))
    assert any(message in line for line in said(record))
    assert mib(record)[0, "Normal"] == 2048


def test_a_mode_that_does_not_exist_is_off(guests: Guests) -> None:
    record = guests(Ask("flatboot", "4G", (), clock="wall", cmdline="mem=2G deferred_mem.mode=now"))
    assert any("deferred_mem.mode=now" in line for line in said(record))
    assert record.meminfo["MemTotal"] < 2 * 1024 * 1024


@pytest.mark.parametrize("config", ["bench", "debug"])
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


@pytest.mark.parametrize("mode", ["user", "auto"])
def test_an_agent_does_it(guests: Guests, mode: str) -> None:
    record = guests(
        added(
            "6G",
            f"deferred_mem.mode={mode} deferred_mem.movablecore=50%",
            "deferred-memd",
            "deferred-memd --plan",
            "deferred-memd --json --status",
            files=agent(),
        )
    )
    assert mib(record)[0, "Normal"] == mib(record)[0, "Movable"] == 2048
    assert not any("adding" in line for line in said(record))
    status = json.loads(next(line for line in record.console.splitlines() if line[:1] == "{"))
    assert status["missing"] == 0
    assert [part["online"] for part in status["ranges"]] == [2048 * MIB, 2048 * MIB]


ARM64 = [
    (f"deferred_mem.mode={mode}", programs)
    for mode, programs in (("kernel", ()), ("user", ("deferred-memd",)))
]


@pytest.mark.parametrize(("mode", "programs"), ARM64)
def test_arm64(guests: Guests, mode: str, programs: tuple[str, ...]) -> None:
    """Where mem= is a number of bytes, and no memory block has a probe file."""
    record = guests(
        Ask(
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


def test_without_an_agent_the_kernel_does_it(guests: Guests) -> None:
    record = guests(added("4G", "deferred_mem.mode=auto"))
    assert said(record)[0] == "there is no agent: adding the 2048 MiB that are missing"
    assert mib(record)[0, "Normal"] == 2048


#: An agent that adds the first block.
FIRST = f"echo {HIGH:#x} > {FILES}add"
FAILURES = {
    # It ends after the first block, and has said nothing.
    "gone": (f"echo user > {FILES}state; {FIRST}", "the agent is gone", 1920),
    # It says that it is there, and nothing more.
    "hung": (f"(echo user > {FILES}state; {FIRST}; exec sleep 60) &", "the time is over", 1920),
    "lying": (f"echo user > {FILES}state; echo done > {FILES}state", "it is said to be done", 2048),
    # Blocks are there, and nobody brought them online.
    "careless": (
        f"echo {HIGH:#x} movable > {FILES}add; echo offline > {BLOCKS}memory32/state;"
        f" echo done > {FILES}state",
        "it is said to be done",
        2048,
    ),
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("failure", FAILURES)
def test_the_kernel_does_what_an_agent_leaves(guests: Guests, failure: str, config: str) -> None:
    script, why, missing = FAILURES[failure]
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.timeout=12",
            f'busybox sh -c "{script}"',
            files=shell(),
            config=config,
        )
    )
    assert said(record)[0] == f"{why}: adding the {missing} MiB that are missing"
    assert mib(record)[0, "Normal"] == 2048


def test_a_second_agent_is_refused(guests: Guests) -> None:
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user deferred_mem.timeout=12",
            f'busybox sh -c "(echo user > {FILES}state; exec sleep 60) & sleep 1;'
            ' deferred-memd; echo flatboot: second=$?"',
            files=(*shell(), *agent()),
        )
    )
    assert record.results["second"] == "2"
    assert mib(record)[0, "Normal"] == 2048


def test_zones_are_not_interleaved(guests: Guests) -> None:
    """Normal memory behind movable memory is refused; what lies below stays as it is planned."""
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=user",
            f"poke write movable {FILES}add {HIGH + BLOCK:#x}\\ movable",
            f"poke write behind {FILES}add {HIGH + 2 * BLOCK:#x}\\ kernel",
            f"poke write again {FILES}add {HIGH + BLOCK:#x}",
            f"poke write odd {FILES}add {HIGH + 4096:#x}",
            f"poke write outside {FILES}add {2 * HIGH:#x}",
            f"poke write done {FILES}state done",
        )
    )
    assert record.results["write.movable"] == "ok"
    assert record.results["write.behind"] == "EINVAL"
    assert record.results["write.again"] == "EEXIST"
    assert record.results["write.odd"] == record.results["write.outside"] == "EINVAL"
    assert any("only movable would be accepted" in line for line in said(record))
    assert mib(record)[0, "Normal"] == 128
    assert mib(record)[0, "Movable"] == 1920


@pytest.mark.parametrize("config", CONFIGS)
def test_memory_that_is_short_is_added_at_once(guests: Guests, config: str) -> None:
    """Who needs more than boot has gets it, although the agent never comes."""
    record = guests(
        Ask(
            "flatboot",
            "3G",
            (
                "busybox mount -t tmpfs -o size=2500m tmpfs /tmp",
                "busybox dd if=/dev/zero of=/tmp/file bs=1M count=1800",
                "busybox rm /tmp/file",
                *SHOW,
            ),
            clock="wall",
            cmdline="mem=512M deferred_mem.mode=user deferred_mem.timeout=600",
            files=shell(),
            config=config,
        )
    )
    assert any(line.startswith("memory is short: adding the") for line in said(record))
    assert vmstat(record.files["/proc/vmstat"])["oom_kill"] == 0
    assert record.results["await.all"] == "ok"


#: Makes allocations of the thread that adds memory fail, as many as "times" says; -1: all.
INJECT = """
f=/sys/kernel/debug/failslab
echo 0 > $f/verbose; echo Y > $f/task-filter; echo N > $f/ignore-gfp-wait
echo 1 > $f/interval; echo 100 > $f/probability; echo {times} > $f/times
for task in /proc/[0-9]*; do
	[ "$(cat $task/comm)" = deferred_mem ] && echo 1 > $task/make-it-fail
done
echo done > {files}state
"""


@pytest.mark.long
@pytest.mark.parametrize(("times", "missing"), [(30, 0), (-1, 2048)])
def test_allocations_that_fail(guests: Guests, tmp_path: Path, times: int, missing: int) -> None:
    """What fails once is tried again; of what fails for good the log has each address."""
    script = tmp_path / "inject"
    script.write_text(INJECT.format(times=times, files=FILES))
    end = "incomplete" if missing else "complete"
    record = guests(
        Ask(
            "flatboot",
            "4G",
            (
                "busybox sh /inject",
                f"poke await end {FILES}state {end}",
                "poke show zones /proc/zoneinfo",
            ),
            clock="wall",
            cmdline="mem=2G deferred_mem.mode=user deferred_mem.timeout=120",
            config="debug",
            files=(*shell(), ("inject", script)),
        )
    )
    assert record.results["await.end"] == "ok"
    assert said(record)[-1].endswith(f"{missing} MiB are missing")
    assert mib(record).get((0, "Normal"), 0) == 2048 - missing
    lost = re.findall(r"\[mem (\w+)-(\w+)\] cannot be added: -\w+", record.log)
    blocks = [(HIGH + at, HIGH + at + BLOCK - 1) for at in range(0, missing * MIB, BLOCK)]
    assert [(int(start, 16), int(last, 16)) for start, last in lost] == blocks


def test_added_blocks_go_offline_and_come_back(guests: Guests) -> None:
    last = f"{BLOCKS}memory47/"
    record = guests(
        added(
            "4G",
            "deferred_mem.mode=kernel",
            AWAIT,
            f"poke write offline {last}state offline",
            "poke show less /proc/meminfo",
            f"poke write online {last}state online",
            "poke show again /proc/meminfo",
        )
    )
    assert record.results["write.offline"] == record.results["write.online"] == "ok"
    less, again = (meminfo(record.files[name])["MemTotal"] for name in ("less", "again"))
    assert again - less == BLOCK // 1024


def test_suspend_to_idle(guests: Guests, tmp_path: Path) -> None:
    """The power button wakes the machine; what was added is still there, and can be filled."""
    with monitor(tmp_path, "system_powerdown\n", every_s=3) as button:
        record = guests(
            added(
                "3G",
                "deferred_mem.mode=kernel",
                AWAIT,
                "poke show before /proc/meminfo",
                "poke write sleep /sys/power/state freeze",
                "poke show after /proc/meminfo",
                "fill 4k 1 once",
                config="users",
                arguments=button,
            )
        )
    assert record.results["write.sleep"] == "ok"
    assert "PM: suspend exit" in record.log
    before, after = (meminfo(record.files[when])["MemTotal"] for when in ("before", "after"))
    assert before == after > 5 << 19
    assert record.results["fill.bad_words"] == "0"
