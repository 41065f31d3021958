"""Free pages are cleared ahead of time, and whoever needs zeroes gets nothing else."""

from __future__ import annotations

import re

import pytest
from guests import HUGE_2M, NODE_POOL, POOL_1G, POOL_2M, Guests, asked, results, vmstat

from flatboot.guest import borrowed
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("zeroed-pages")

PREZERO = "/sys/kernel/mm/prezero/"
#: The ways in which the guest program gets memory that has to read as zero.
WAYS = ("4k", "64k", "thp", "shmem", "populate", "mlock")
#: Those in which it gets memory of a pool of huge pages.
POOL_WAYS = ("huge-2m", "fallocate")
MIB = 128
WAIT = "zeroed wait"
#: What a way may miss: pages of its page tables, and what lies on the CPUs' lists.
MISSED = 0.02
#: A fault on a page of 4 KiB, and one on a huge page, of the stock kernel, spend this on clearing.
CLEARING = {"4k": 512, "thp": 262144}
DEBUG = ("debug", "1G")
#: Where tests inside the kernel can be run again.
KUNIT = "/sys/kernel/debug/kunit/"


def touches(*ways: str, mib: int = MIB) -> tuple[str, ...]:
    """Return the programs that use memory in *ways*, each with all that is free zeroed."""
    return tuple(step for way in ways for step in (WAIT, f"zeroed touch {way} {way} {mib}"))


def touched(record: Record, way: str) -> dict[str, int]:
    """Return what using memory in one *way* gave, and check that it read as zero."""
    found = results(record, f"{way}.")
    assert found["bad_words"] == 0
    return found


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
def test_who_needs_zeroes_gets_pages_that_are(guests: Guests, arch: str) -> None:
    programs = touches(*WAYS)
    record = guests(asked("flatboot", "2G", programs, cmdline="prezero=on", arch=arch))
    for way in WAYS:
        found = touched(record, way)
        assert found["taken"] >= (1 - MISSED) * found["pages"], way
        assert found["missed"] <= MISSED * found["pages"], way


def test_all_that_is_free_becomes_zeroed(guests: Guests) -> None:
    record = guests(asked("flatboot", "2G", (*touches("4k"), WAIT), cmdline="prezero=on"))
    assert results(record, "zeroed.")["free"] >= 0.98 * results(record, "zeroed.")["all_free"]


@pytest.mark.parametrize(
    ("config", "most"), [pytest.param("bench", 1.002, marks=pytest.mark.long), ("users", 1.02)]
)
def test_off_costs_nothing(guests: Guests, config: str, most: float) -> None:
    """On the users config a touch takes 39 instructions more of 3,335."""
    programs = ("zeroed touch warm 4k 64", "zeroed touch 4k 4k 1024")
    stock, ours = (
        touched(guests(asked(flavour, "2G", programs, config=config)), "4k")
        for flavour in ("stock", "flatboot")
    )
    assert ours["ticks"] <= most * stock["ticks"]
    assert ours["taken"] == ours["missed"] == ours["zeroed"] == 0


@pytest.mark.parametrize("way", ["4k", "thp"])
def test_a_fault_on_a_zeroed_page_clears_nothing(guests: Guests, way: str) -> None:
    stock = touched(guests(asked("stock", "2G", touches(way, mib=512))), way)
    ours = touched(
        guests(asked("flatboot", "2G", touches(way, mib=512), cmdline="prezero=on")), way
    )
    faults = stock["pages"] // {"4k": 1, "thp": 512}[way]
    # What keeps track of zeroed pages takes less than a third of what it saves.
    assert stock["ticks"] - ours["ticks"] >= 2 / 3 * CLEARING[way] * faults
    if way == "thp":
        assert ours["ticks"] * 15 <= stock["ticks"]


@pytest.mark.parametrize("arch", ["x86_64", pytest.param("arm64", marks=pytest.mark.long)])
@pytest.mark.parametrize(("way", "less"), [("huge-2m", 20), ("fallocate", 20), ("huge-1g", 50)])
def test_a_page_of_a_pool_is_zeroed_before_it_is_used(
    guests: Guests, way: str, less: int, arch: str
) -> None:
    pool = "hugepagesz=1G hugepages=1" if way == "huge-1g" else "hugepagesz=2M hugepages=128"
    programs = touches(way, mib=1024 if way == "huge-1g" else 256)
    stock, ours = (
        touched(guests(asked(flavour, "6G", programs, cmdline=cmdline, arch=arch)), way)
        for flavour, cmdline in (("stock", pool), ("flatboot", f"{pool} prezero=on"))
    )
    assert ours["taken"] >= ours["pages"]
    assert ours["ticks"] * less <= stock["ticks"]


@pytest.mark.parametrize("cmdline", ["", "hugetlb_deferred=on"])
def test_pools_of_all_nodes_are_zeroed(guests: Guests, cmdline: str) -> None:
    """Those of boot, built or not, and what comes later; a page that was filled is cleared anew."""
    node1 = NODE_POOL.format(node=1)
    programs = (
        WAIT,
        *(
            f"poke show {label} {pool}unzeroed_hugepages"
            for label, pool in (("all", POOL_2M), ("node", node1), ("gigantic", POOL_1G))
        ),
        "zeroed touch first huge-2m 600",
        f"poke show filled {POOL_2M}unzeroed_hugepages",
        f"poke write more {node1}nr_hugepages 250",
        WAIT,
        f"poke show again {POOL_2M}unzeroed_hugepages",
        "zeroed touch again huge-2m 600",
        "zeroed touch big huge-1g 1024",
    )
    record = guests(
        asked(
            "flatboot",
            "4G",
            programs,
            "lazy",
            cpus=2,
            nodes=2,
            config="debug",
            clock="wall",
            cmdline="hugepages=300 hugepagesz=1G hugepages=1 prezero=on prezero.verify=1 "
            + cmdline,
        )
    )
    for label in ("all", "node", "gigantic", "again"):
        assert record.files[label].strip() == "0", label
    assert int(record.files["filled"]) > 0
    for key in ("first", "again", "big"):
        found = touched(record, key)
        assert (found["bad_words"], found["taken"] >= found["pages"]) == (0, True), key


@pytest.mark.parametrize(("cpus", "most"), [(1, 1.01), (4, 1.02)])
def test_a_busy_machine_is_left_alone(guests: Guests, cpus: int, most: float) -> None:
    """On several it takes the scheduler some ticks to move a task to a CPU that clears."""
    programs = (
        "zeroed touch warm thp 1024",
        f"zeroed busy without {cpus}",
        f"poke write on {PREZERO}enabled 1",
        f"zeroed busy beside {cpus}",
        WAIT,
        "zeroed idle after 10",
    )
    record = guests(asked("flatboot", "2G", programs, cpus=cpus))
    without, beside = (results(record, f"{key}.") for key in ("without", "beside"))
    assert without["cleared"] == 0
    assert beside["cleared"] > 0
    assert beside["busy_ticks"] <= most * without["busy_ticks"]
    assert results(record, "zeroed.")["free"] > 0
    assert results(record, "after.")["wakeups"] == 0


@pytest.mark.parametrize(
    ("cmdline", "reason"),
    [
        ("init_on_free=1", "pages are cleared when they are freed"),
        ("init_on_alloc=1", "init_on_alloc=1 clears pages when they are allocated"),
        ("page_poison=1", "free pages are poisoned"),
    ],
)
def test_refused_where_free_pages_hold_something_else(
    guests: Guests, cmdline: str, reason: str
) -> None:
    programs = (
        f"poke show enabled {PREZERO}enabled",
        f"poke write again {PREZERO}enabled 1",
        "zeroed touch 4k 4k 64",
    )
    config, memory = DEBUG
    record = guests(
        asked("flatboot", memory, programs, config=config, cmdline=f"prezero=on {cmdline}")
    )
    assert f"prezero: off: {reason}" in record.console
    assert record.files["enabled"].strip() == "0"
    assert record.results["write.again"] == "EOPNOTSUPP"
    assert touched(record, "4k")["taken"] == 0


@pytest.mark.groups("fault-ahead")
@pytest.mark.parametrize("way", ["populate", "mlock"])
def test_what_is_populated_is_faulted_in_by_batches(guests: Guests, way: str) -> None:
    programs = (f"zeroed touch {way} {way} 256", "poke show vmstat /proc/vmstat")
    record, without = (
        guests(asked("flatboot", "2G", programs, cmdline=cmdline))
        for cmdline in ("", "anon_fault_ahead=off")
    )
    found, one_by_one = (touched(each, way) for each in (record, without))
    ahead, none = (vmstat(each.files["vmstat"])["pgfault_ahead"] for each in (record, without))
    assert none == 0
    assert 0.95 * found["pages"] <= ahead <= found["pages"]
    assert found["ticks"] <= 0.7 * one_by_one["ticks"]
    faults, all_faults = (vmstat(each.files["vmstat"])["pgfault"] for each in (record, without))
    assert abs(faults - all_faults) <= 0.01 * found["pages"]


def test_settings(guests: Guests) -> None:
    verify = "/sys/module/prezero/parameters/verify"
    programs = (
        f"poke write verify.maybe {verify} maybe",
        f"poke write verify.1 {verify} 1",
        f"poke write enabled.soon {PREZERO}enabled soon",
        f"poke write enabled.1 {PREZERO}enabled 1",
        WAIT,
        f"poke write enabled.0 {PREZERO}enabled 0",
        "zeroed touch 4k 4k 64",
        "zeroed idle off 1",
        f"poke write enabled.again {PREZERO}enabled 1",
    )
    record = guests(asked("flatboot", "2G", programs, cmdline="prezero=perhaps"))
    assert "prezero=perhaps: on, off and force are known" in record.console
    answers = {key: value for key, value in record.results.items() if key.startswith("write.")}
    refused = {key for key, value in answers.items() if value == "EINVAL"}
    assert refused == {"write.verify.maybe", "write.enabled.soon"}
    assert all(answers[key] == "ok" for key in answers if key not in refused)
    # What was zeroed before it was turned off is still there to be taken.
    assert touched(record, "4k")["taken"] > 0
    assert touched(record, "4k")["zeroed"] == 0


def test_a_guest_is_told_that_its_host_backs_all_memory(guests: Guests) -> None:
    told = "the host of this virtual machine has to back all memory that is cleared"
    for cmdline, times in (("prezero=on", 1), ("prezero=off", 0)):
        assert guests(asked("flatboot", "2G", cmdline=cmdline)).console.count(told) == times


def test_nothing_is_cleared_that_a_limit_keeps_out(guests: Guests) -> None:
    """Huge pages that do not fit below memory.max, here of a parent, are not asked for."""
    group = "/sys/fs/cgroup/few"
    commands = (
        "busybox mkdir -p /sys/fs/cgroup",
        "busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
        f"busybox mkdir -p {group}/inner",
        f"echo +memory > {group}/cgroup.subtree_control",
        f"echo 64M > {group}/memory.max",
        "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        f"(echo $BASHPID > {group}/inner/cgroup.procs; exec /bin/zeroed touch any any 512)",
        f"busybox cat {group}/memory.events > /tmp/events",
        f"busybox rmdir {group}/inner {group}",
    )
    programs = (
        "poke write size /sys/block/zram0/disksize 1G",
        "swap /dev/zram0",
        WAIT,
        f"bash -c '{'; '.join(commands)}'",
        "poke show events /tmp/events",
        "poke show vmstat /proc/vmstat",
    )
    files = borrowed.files("bash", "busybox")
    record = guests(
        asked(
            "flatboot",
            "2G",
            programs,
            config="users",
            cmdline="prezero=on",
            files=tuple(files.items()),
        )
    )
    found = touched(record, "any")
    assert found["taken"] + found["missed"] <= 1.05 * found["pages"]
    assert found["wasted"] <= 0.05 * found["pages"]
    counts = vmstat(record.files["vmstat"])
    assert counts["thp_fault_alloc"] > 0
    assert counts["thp_fault_fallback_charge"] > 0
    assert re.search(r"^max [1-9]", record.files["events"], re.M)


@pytest.mark.parametrize(
    "cmdline",
    [
        "",
        *(
            pytest.param(word, marks=pytest.mark.long)
            for word in ("debug_pagealloc=on", "init_on_alloc=1 prezero=force", "kasan=off")
        ),
    ],
)
def test_nobody_gets_anything_but_zeroes(guests: Guests, cmdline: str) -> None:
    config, memory = DEBUG
    # Not from boot on: tests inside the kernel mark pages that hold something else.
    programs = (
        "poke write verify /sys/module/prezero/parameters/verify 1",
        *touches(*WAYS, mib=32),
        *touches(*POOL_WAYS, mib=64),
        "zeroed stress 4 4 32",
        f"poke write lists {KUNIT}prezero_free/run 1",
        f"poke show lists {KUNIT}prezero_free/results",
        f"poke show marks {KUNIT}prezero/results",
        "poke show vmstat /proc/vmstat",
    )
    record = guests(
        asked(
            "flatboot",
            memory,
            programs,
            cpus=2,
            nodes=2,
            config=config,
            clock="wall",
            cmdline=f"prezero=on hugepages=64 {cmdline}".strip(),
        )
    )
    for way in (*WAYS, *POOL_WAYS):
        touched(record, way)
    for file, suite, tests in (("lists", "prezero_free", 3), ("marks", "prezero", 6)):
        said = record.files[file]
        assert re.search(rf"^ok \d+ {suite}$", said, re.M)
        passed = re.findall(r"^    ok \d+ \S+$", said, re.M)
        assert len(passed) == tests, said
    stress = results(record, "stress.")
    assert record.results["write.verify"] == "ok"
    assert stress["rounds"] > 0
    assert stress["bad_words"] == 0
    counts = vmstat(record.files["vmstat"])
    assert counts["prezero_taken"] > 0
    assert "is marked as zeroed but holds" not in record.console


@pytest.mark.parametrize("verify", [0, 1])
def test_a_stray_write_to_a_zeroed_page_is_found(guests: Guests, verify: int) -> None:
    config, memory = DEBUG
    programs = (WAIT, "stray planted 16 5 0000:00:04.0", *touches("populate", mib=600)[1:])
    record = guests.unjudged(
        asked(
            "flatboot",
            memory,
            programs,
            config=config,
            clock="wall",
            cmdline=f"prezero=on prezero.verify={verify}",
            arguments=("-device", "edu,addr=04.0,dma_mask=0xffffffff"),
        )
    )
    planted = int(record.results["planted.written"])
    assert planted == 16
    bad = results(record, "populate.")["bad_words"]
    reports = set(
        re.findall(
            r"prezero: pfn 0x\w+ is marked as zeroed but holds 0xef at offset 0x800",
            record.console,
        )
    )
    if verify:
        assert bad == 0
        assert len(reports) >= 8
    else:
        assert bad > 0, "what was planted read as zero: this test sees nothing"
        assert not reports
    assert "BUG:" not in record.console


def test_zeroed_memory_goes_offline_and_into_huge_pages(guests: Guests) -> None:
    programs = (
        *touches("4k", mib=128),
        WAIT,
        "poke write offline /sys/devices/system/memory/memory5/state offline",
        "poke write online /sys/devices/system/memory/memory5/state online",
        f"poke write huge {HUGE_2M} 200",
        WAIT,
        "poke write again /sys/devices/system/memory/memory5/state offline",
        "poke write back /sys/devices/system/memory/memory5/state online",
        "zeroed touch huge-2m huge-2m 128",
        f"poke write fewer {HUGE_2M} 40",
        WAIT,
        f"poke write none {HUGE_2M} 0",
        "poke write compact /proc/sys/vm/compact_memory 1",
        *touches(*WAYS, mib=64),
    )
    record = guests(
        asked(
            "flatboot",
            "1G",
            programs,
            config="debug",
            clock="wall",
            # No slab may keep the block.
            cmdline="prezero=on prezero.verify=1 movablecore=512M",
        )
    )
    for name in ("offline", "online", "huge", "again", "back", "fewer", "none", "compact"):
        assert record.results[f"write.{name}"] == "ok", name
    for way in (*WAYS, "huge-2m"):
        touched(record, way)


def test_memory_that_is_reported_free_is_not_touched(guests: Guests) -> None:
    programs = ("zeroed touch warm thp 256", "zeroed idle after 5", "poke show vmstat /proc/vmstat")
    record = guests(
        asked(
            "flatboot",
            "1G",
            programs,
            config="users",
            cmdline="prezero=on",
            arguments=("-device", "virtio-balloon-pci,free-page-reporting=on"),
        )
    )
    assert vmstat(record.files["vmstat"])["prezero_zeroed"] == 0


def test_a_hibernated_machine_gets_zeroes(guests: Guests) -> None:
    programs = (
        "poke write size /sys/block/zram0/disksize 1G",
        "swap /dev/zram0",
        *touches("4k"),
        WAIT,
        "poke write kind /sys/power/disk test_resume",
        "poke write hibernate /sys/power/state disk",
        "zeroed touch 4k 4k 128",
    )
    record = guests(
        asked(
            "flatboot",
            "1G",
            programs,
            config="debug",
            clock="wall",
            cmdline="prezero=on prezero.verify=1",
        )
    )
    assert record.results["write.hibernate"] == "ok"
    touched(record, "4k")


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "page", "less"),
    [
        ("vfio", "4k", 2.9),
        ("vfio", "thp", 11.0),
        ("iommufd", "4k", 2.8),
        ("iommufd", "thp", 7.0),
        ("io_uring", "4k", 2.8),
        ("io_uring", "thp", 9.0),
    ],
)
def test_memory_is_pinned_without_clearing(
    guests: Guests, way: str, page: str, less: float
) -> None:
    device = "" if way == "io_uring" else " 0000:00:04.0"
    programs = (WAIT, f"pin {page} {page} 512 {way}{device}")
    unsafe = "allow_unsafe_interrupts=1"
    devices = f"intel_iommu=on vfio_iommu_type1.{unsafe} iommufd.{unsafe}"
    stock, ours = (
        touched(
            guests(
                asked(
                    flavour,
                    "2G",
                    programs,
                    config="vfio",
                    cmdline=f"{devices} {cmdline}".strip(),
                    arguments=(
                        *("-device", "intel-iommu,intremap=off,caching-mode=on"),
                        *("-device", "edu,addr=04.0"),
                    ),
                )
            ),
            page,
        )
        for flavour, cmdline in (("stock", ""), ("flatboot", "prezero=on"))
    )
    assert ours["ticks"] * less <= stock["ticks"]


@pytest.mark.groups("fault-ahead")
@pytest.mark.parametrize("cmdline", ["", "anon_fault_ahead=off"])
def test_a_limit_holds_for_what_is_populated(guests: Guests, cmdline: str) -> None:
    """A batch that a memory cgroup has no room for is not populated, and nothing is lost.

    The kernel says how it came that it ends a process, by a stack trace as for a bug.
    """
    group = "/sys/fs/cgroup/few"
    commands = (
        "busybox mkdir -p /sys/fs/cgroup",
        "busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
        f"busybox mkdir {group}",
        f"echo 32M > {group}/memory.max",
        f"(echo $BASHPID > {group}/cgroup.procs; exec /bin/zeroed touch fits populate 24)",
        f"(echo $BASHPID > {group}/cgroup.procs; exec /bin/zeroed touch most populate 64) || true",
        f"busybox cat {group}/memory.peak > /tmp/peak",
        f"busybox cat {group}/memory.events > /tmp/events",
        f"busybox rmdir {group}",
    )
    programs = (
        WAIT,
        f"bash -c '{'; '.join(commands)}'",
        "poke show peak /tmp/peak",
        "poke show events /tmp/events",
    )
    files = borrowed.files("bash", "busybox")
    record = guests.unjudged(
        asked("flatboot", "2G", programs, cmdline=cmdline, files=tuple(files.items()))
    )
    assert touched(record, "fits")["pages"] == 24 * 256
    assert "most.ticks" not in record.results
    assert int(record.files["peak"]) <= 32 << 20
    assert "BUG:" not in record.console
    assert re.search(r"^oom_kill [1-9]", record.files["events"], re.M)
