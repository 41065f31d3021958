"""A guest under the memory stressors of stress-ng, on the debug kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guests import DEFERRED, Guests, asked, free_pages, itemised, meminfo, vmstat

from flatboot.guest import borrowed
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

#: What runs one after another in the short test, two of each. All check what they wrote.
QUICK = (
    *("vm", "mmap", "mmapfork", "mremap", "brk", "stack", "bigheap", "malloc"),
    *("shm", "memfd", "pagemove", "userfaultfd"),
)
#: What the long tests add. Left out: memhotplug, as a page that cannot be moved is dumped on the
#: console, on stock as well; oom-pipe and mlockmany, which stress-ng itself holds for pathological;
#: dev-shm, which it takes for broken if it has to kill it, so that it needs luck; madvise, which
#: has its own pages taken for broken and dies of that when it is slow, on stock as well.
SLOW = (
    *("vm-addr", "vm-segv", "vm-splice", "mmapaddr", "mmapfixed", "mmapmany", "stackmmap"),
    *("shm-sysv", "tmpfs", "mlock", "munmap", "mprotect", "memthrash"),
    *("mincore", "numa", "pageswap", "physpage", "remap", "rmap", "tlb-shootdown"),
)
#: What runs at the same time in the long test, one of each.
TOGETHER = ("vm", "mmap", "mremap", "brk", "malloc", "shm", "memfd", "tmpfs", "mprotect", "rmap")
#: Sizes of what one of them uses, and what holds for all.
OPTIONS = """\
vm-bytes 160M
vm-method all
mmap-bytes 32M
mremap-bytes 8M
malloc-bytes 8M
shm-bytes 4M
shm-sysv-bytes 4M
memfd-bytes 32M
pagemove-bytes 8M
bigheap-growth 1M
no-rand-seed
verify
page-in
metrics
"""
#: A task that an emulated CPU leaves waiting while it runs many others is not stuck.
PATIENT = "no_timer_check watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
#: Both without pages that are cleared ahead of time, and with such pages, looked at when taken. The
#: short test has the latter, which go the same ways and one more.
VERIFIED = "prezero=on prezero.verify=1"
CHECKED = pytest.param(VERIFIED, marks=pytest.mark.groups("memory-map", "zeroed-pages"))
ZEROED = pytest.mark.parametrize("cmdline", ["", CHECKED])
#: Ends what would grow until memory is used up (brk, bigheap): a process's data in kB.
MOST_DATA_KB = 184 << 10
#: Takes what boot initialised, on either node until the kernel initialises more, so that stressors
#: need more however little they get done in their time.
FILL = """\
deferred() {
    while read -r name kb unit; do
        [ "$name" != Deferred: ] || echo "$kb"
    done < /proc/meminfo
}
busybox mkdir -p /dev/shm
busybox mount -t tmpfs -o size=100% tmpfs /dev/shm
for cpu in 0 1; do
    before=$(deferred)
    for ((n = 0; $(deferred) == before; n++)); do
        busybox taskset -c $cpu busybox dd if=/dev/zero of=/dev/shm/$cpu.$n bs=1M count=8 || exit
    done
done
"""
#: What each test must have initialised at least, in kB.
INITIALISED_KB = 32 << 10
#: What a kernel may use more at one time than at another, in kB, apart from what it itemises.
NOISE_KB = 4096


def stress(
    folder: Path,
    guests: Guests,
    memory: str,
    stressors: tuple[str, ...],
    order: str,
    seconds: int,
    cmdline: str = "",
) -> Record:
    """Run *stressors* for *seconds* each, or all at once, and check what they left behind."""
    job = folder / "job"
    lines = [f"run {order}", *(f"{name} {2 if order == 'sequential' else 1}" for name in stressors)]
    job.write_text(OPTIONS + "\n".join(lines) + "\n")
    fill = folder / "fill"
    fill.write_text(FILL)
    commands = (
        f"ulimit -d {MOST_DATA_KB}",
        "cd /tmp",
        f"exec stress-ng --job /etc/job --timeout {seconds}s --yaml /tmp/yaml",
    )
    programs = (
        "bash /etc/fill",
        "poke show before /proc/meminfo",
        "poke show zones_before /proc/zoneinfo",
        f"bash -c '{'; '.join(commands)}'",
        "poke show yaml /tmp/yaml",
        "poke write caches /proc/sys/vm/drop_caches 3",
        "poke show after /proc/meminfo",
        "poke show zones_after /proc/zoneinfo",
        f"poke write complete {DEFERRED}complete 1",
        "poke show complete /proc/meminfo",
        "poke show vmstat /proc/vmstat",
    )
    own = {"etc/fill": fill, "etc/job": job}
    files = borrowed.files("bash", "busybox", "stress-ng") | own
    record = guests(
        asked(
            "flatboot",
            memory,
            programs,
            "lazy",
            cpus=2,
            nodes=2,
            config="debug",
            cmdline=f"{PATIENT} {cmdline}".strip(),
            clock="wall",
            files=tuple(files.items()),
        )
    )
    ran = dict(re.findall(r"stressor: (\S+)\s+bogo-ops: (\d+)", record.files["yaml"]))
    assert set(ran) == set(stressors)
    assert record.results["write.complete"] == "ok"
    before, after, complete = (
        meminfo(record.files[name]) for name in ("before", "after", "complete")
    )
    assert before["Deferred"] - after["Deferred"] >= INITIALISED_KB
    assert complete["Deferred"] == 0
    assert complete["MemTotal"] == before["MemTotal"]
    free_before, free_after = (
        free_pages(record.files[name]) * 4 for name in ("zones_before", "zones_after")
    )
    assert free_before - free_after <= itemised(after) - itemised(before) + NOISE_KB
    return record


def check_zeroed(record: Record) -> None:
    """Check that zeroed pages were handed out, if there were any, and that all of them were."""
    if "prezero=on" in record.cmdline:
        counts = vmstat(record.files["vmstat"])
        assert "is marked as zeroed but holds" not in record.console
        assert counts["prezero_taken"] > 0


@pytest.mark.parametrize("cmdline", [pytest.param("", marks=pytest.mark.long), CHECKED])
def test_half_a_minute_of_stress(guests: Guests, tmp_path: Path, cmdline: str) -> None:
    seconds = -(-30 // len(QUICK))
    check_zeroed(stress(tmp_path, guests, "1G", QUICK, "sequential", seconds, cmdline))


@pytest.mark.long
@pytest.mark.timeout(7200)
@ZEROED
def test_ten_minutes_of_stress(guests: Guests, tmp_path: Path, cmdline: str) -> None:
    every = QUICK + SLOW
    seconds = -(-600 // len(every))
    check_zeroed(stress(tmp_path, guests, "2G", every, "sequential", seconds, cmdline))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_stressors_at_once(guests: Guests, tmp_path: Path) -> None:
    """Not all of them: two CPUs that an emulator makes would starve the kernel's own threads."""
    stress(tmp_path, guests, "2G", TOGETHER, "parallel", 120)
