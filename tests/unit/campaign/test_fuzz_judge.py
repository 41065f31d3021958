"""The judge of random boots passes a good record, and finds each thing that may be wrong in one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from boots import record

from flatboot.campaign import fuzz_draw, fuzz_judge
from flatboot.record.record import Record

CASE = dataclasses.replace(
    fuzz_draw.draw(1), mode="lazy", load=("churn 10 4k:2:5 blocks:3", "churn 11 huge:9")
)
MEMINFO = """\
MemTotal:         {total} kB
MemFree:          {free} kB
Buffers:               0 kB
Cached:             4000 kB
AnonPages:           100 kB
Slab:              20000 kB
KernelStack:         800 kB
PageTables:          100 kB
Percpu:             1000 kB
Hugetlb:               0 kB
Deferred:         {deferred} kB
"""
ZONEINFO = """\
Node 0, zone   Normal
  pages free     {free}
        managed  250000
      nr_deferred  {deferred}
  pagesets
    cpu: 0
              count:    64
"""
VMSTAT = "nr_memmap_boot_pages 100\n"
BUDDYINFO = "Node 0, zone   Normal {ones} 0 0 0 0 0 0 0 0 0 {largest}\n"
TOTAL = 1_000_000


def look(
    moment: str, deferred: int, *, free: int = 240_000, listed: int | None = None
) -> dict[str, str]:
    """Return what a guest shows: *deferred*, *free* and *listed* pages."""
    listed = free - deferred if listed is None else listed
    buddy = BUDDYINFO.format(ones=listed % 1024, largest=listed // 1024)
    return {
        f"{moment}.meminfo": MEMINFO.format(total=TOTAL, free=4 * free, deferred=4 * deferred),
        f"{moment}.zoneinfo": ZONEINFO.format(free=free, deferred=deferred),
        f"{moment}.buddyinfo": buddy,
        f"{moment}.vmstat": VMSTAT,
        f"{moment}.remaining": f"{4 * deferred}\n",
    }


def total(path: str, kb: int) -> dict[str, str]:
    return {path: f"Node 0 MemTotal: {kb} kB\n" if "node" in path else f"MemTotal: {kb} kB\n"}


NODE = "/sys/devices/system/node/node0/meminfo"
LOG = "available (100K kernel code, 1K rwdata, 1K rodata, 1K init, {bss}K bss, 9K reserved)"
GOOD_RESULTS = {
    **{f"churn.10.{job}": "ok" for job in (0, 1)},
    "churn.11.0": "ok",
    **{f"churn.{load}.{what}": "0" for load in (10, 11) for what in ("bad_words", "stranded")},
    "write.complete": "ok",
}


def boot(files: dict[str, str], results: dict[str, str], **fields: str) -> Record:
    made = record("flatboot", "1G", 1000)
    said: dict[str, Any] = {"console": "all is well", "log": LOG.format(bss=100), **fields}
    memory = {**total("/proc/meminfo", TOTAL), **total(NODE, TOTAL), "/proc/vmstat": VMSTAT}
    return dataclasses.replace(made, files={**memory, **files}, results=results, **said)


SHOWN = {**look("start", 100_000), **look("end", 50_000), **look("final", 0)}
REFERENCE = boot({}, {})


def judged(
    files: dict[str, str] | None = None, results: dict[str, str] | None = None, **fields: str
) -> str:
    ours = boot({**SHOWN, **(files or {})}, {**GOOD_RESULTS, **(results or {})}, **fields)
    return "\n".join(fuzz_judge.judge(CASE, ours, REFERENCE))


def test_a_good_boot_passes() -> None:
    assert judged() == ""


def test_the_programs_show_what_the_judge_looks_at() -> None:
    shown = {program.split()[2] for program in fuzz_judge.programs(CASE) if " show " in program}
    assert set(SHOWN) == shown
    assert set(CASE.load) <= set(fuzz_judge.programs(CASE))


def test_the_reference_has_the_same_programs_in_its_initramfs() -> None:
    ours = {program.split()[0] for program in fuzz_judge.programs(CASE)}
    assert {program.split()[0] for program in fuzz_judge.REFERENCE} == ours


@pytest.mark.parametrize("job", sorted(GOOD_RESULTS))
def test_what_the_load_does_not_report_as_good_is_bad(job: str) -> None:
    problem = judged(results={job: "7"})
    assert "7" in problem
    results = {key: value for key, value in GOOD_RESULTS.items() if key != job}
    missing = boot(SHOWN, results)
    assert "nothing" in "\n".join(fuzz_judge.judge(CASE, missing, REFERENCE))


def test_a_wrong_byte_is_found() -> None:
    assert judged(results={"churn.11.bad_words": "1"}) == "load 11 reports 1 bad words"


@pytest.mark.parametrize("kb", [TOTAL - 100, TOTAL - 17, TOTAL + 4])
def test_lost_or_invented_memory_is_found(kb: int) -> None:
    """The same image booted: nothing but the bitmaps may be missing, and nothing more be there."""
    reference = dataclasses.replace(REFERENCE, files={**REFERENCE.files, NODE: "MemTotal: 1 kB"})
    ours = boot({**SHOWN, **total(NODE, kb)}, GOOD_RESULTS)
    assert "MemTotal of node0" in "\n".join(fuzz_judge.judge(CASE, ours, REFERENCE))
    assert fuzz_judge.judge(CASE, ours, reference)
    problem = judged(files=total("/proc/meminfo", kb))
    assert "of the reference" in problem


def test_bitmaps_are_allowed() -> None:
    shares = {**total("/proc/meminfo", TOTAL), **total(NODE, TOTAL - 16)}
    assert judged(files=shares) == ""


def test_the_growth_of_the_image_is_allowed_for() -> None:
    """Ours takes 4,000 kB more, and so much is missing; and 4,000 are missing for nothing."""
    stock = dataclasses.replace(
        REFERENCE,
        kernel=dataclasses.replace(REFERENCE.kernel, image="another"),
        files={**total("/proc/meminfo", TOTAL + 4000), **total(NODE, TOTAL)},
    )
    ours = boot(SHOWN, GOOD_RESULTS, log=LOG.format(bss=4100))
    assert fuzz_judge.judge(CASE, ours, stock) == []
    same_size = boot(SHOWN, GOOD_RESULTS)
    assert "4000 kB short" in fuzz_judge.judge(CASE, same_size, stock)[0]


def test_a_lost_node_is_found() -> None:
    ours = boot(SHOWN, GOOD_RESULTS)
    files = {path: text for path, text in ours.files.items() if path != NODE}
    assert "nodes" in fuzz_judge.judge(CASE, dataclasses.replace(ours, files=files), REFERENCE)[0]


def test_a_splat_is_found_and_a_block_that_has_to_stay_is_none() -> None:
    assert "complains" in judged(console="[ 1.0] WARNING: mm/page_alloc.c:1 at free+0x1/0x2")
    assert "complains" in judged(console="[ 1.0] page dumped because: VM_BUG_ON_PAGE(1)")
    assert judged(console="[ 1.0] page dumped because: unmovable page") == ""


OFFLINE = """\
[   11.3] churn: page allocation failure: order:0, mode:0x44cca(GFP_KERNEL), nodemask=0,cpuset=/
[   11.4] CPU: 0 UID: 0 PID: 72 Comm: churn Not tainted 7.3.4 #1
[   11.5] Call Trace:
"""


def test_what_stock_complains_of_as_well_is_no_splat() -> None:
    theirs = OFFLINE.replace("11.", "22.").replace("PID: 72", "PID: 69")
    assert fuzz_judge.splat(OFFLINE, theirs) == []
    assert "failure" in fuzz_judge.splat(OFFLINE, "")[0]
    worse = OFFLINE + "[   12.0] WARNING: mm/page_alloc.c:1 at free+0x1/0x2\n"
    assert "WARNING" in fuzz_judge.splat(worse, theirs)[0]


def test_no_page_of_a_node_without_any_is_no_splat() -> None:
    console = OFFLINE.replace("nodemask=0", "nodemask=1-2,4")
    assert fuzz_judge.splat(console, empty={1, 2, 4}) == []
    assert "failure" in fuzz_judge.splat(console, empty={1, 4})[0]
    files = {**REFERENCE.files, NODE: "MemTotal: 0 kB"}
    reference = dataclasses.replace(REFERENCE, files=files)
    ours = boot({**SHOWN, **total(NODE, 0)}, GOOD_RESULTS, console=OFFLINE)
    assert fuzz_judge.judge(CASE, ours, reference) == []


@pytest.mark.parametrize("name", ["start.meminfo", "end.buddyinfo", "final.zoneinfo"])
def test_what_the_guest_did_not_show_is_missed(name: str) -> None:
    files = {path: text for path, text in SHOWN.items() if path != name}
    problems = fuzz_judge.judge(CASE, boot(files, GOOD_RESULTS), REFERENCE)
    assert problems == [f"the guest did not show {name}"]


def test_memory_that_does_not_come_back_is_found() -> None:
    assert "more are in use at the end" in judged(files=look("end", 50_000, free=236_000))
    assert "more are in use at the final" in judged(files=look("final", 0, free=236_000))


def test_a_block_counted_twice_or_not_at_all_is_found() -> None:
    assert "free lists" in judged(files=look("end", 50_000, listed=186_900))
    assert "free lists" in judged(files=look("final", 0, listed=241_025 + 64))


def test_what_huge_pages_give_back_of_the_map_joins_the_total() -> None:
    given_back = {"end.vmstat": VMSTAT.replace("100", "36")}
    assert "MemTotal" in judged(files=given_back)
    more = {"end.meminfo": SHOWN["end.meminfo"].replace(str(TOTAL), str(TOTAL + 256))}
    assert "MemTotal" in judged(files=more)
    assert judged(files={**given_back, **more}) == ""


def test_the_map_that_huge_pages_took_anew_is_in_use_as_before() -> None:
    """More than the noise, and no more of it is free: it went back to where it came from."""
    back = 8000
    files: dict[str, str] = {}
    for moment, deferred in (("end", 50_000), ("final", 0)):
        files |= look(moment, deferred)
        meminfo = f"{moment}.meminfo"
        files[meminfo] = files[meminfo].replace(str(TOTAL), str(TOTAL + back))
        files[f"{moment}.vmstat"] = VMSTAT.replace("100", str(10_000 - back // 4))
    before = {
        "start.vmstat": VMSTAT.replace("100", "10000"),
        "/proc/vmstat": VMSTAT.replace("100", "10000"),
    }
    assert judged(files={**before, **files}) == ""


def test_a_list_of_a_cpu_that_was_emptied_meanwhile_is_no_problem() -> None:
    assert judged(files=look("final", 0, listed=241_024 + 64)) == ""


def test_files_that_do_not_agree_are_found() -> None:
    assert "remaining_kb" in judged(files={"end.remaining": "0\n"})
    assert "deferred after completion" in judged(files=look("final", 30_000))


def test_memory_total_that_changes_is_found() -> None:
    changed = look("end", 50_000)
    changed["end.meminfo"] = changed["end.meminfo"].replace(str(TOTAL), str(TOTAL - 131_072))
    assert "MemTotal is 868928 kB at the end, not 1000000" in judged(files=changed)


def test_slabs_that_grow_without_end_are_found() -> None:
    grown = look("end", 50_000, free=240_000 - 20_000)
    grown["end.meminfo"] = grown["end.meminfo"].replace("20000 kB", "100000 kB")
    final = look("final", 0, free=240_000 - 20_000)
    final["final.meminfo"] = final["final.meminfo"].replace("20000 kB", "100000 kB")
    assert judged(files={**grown, **final}) == "slabs grew by 80000 kB from the start to the end"


def test_stacks_of_ended_threads_are_no_leak() -> None:
    """They are vmalloc's until a grace period is over, and KernelStack does not count them."""
    files: dict[str, str] = {}
    for moment, deferred, free, used in (
        ("start", 100_000, 240_000, 800),
        ("end", 50_000, 238_500, 6800),
        ("final", 0, 238_500, 6800),
    ):
        files |= look(moment, deferred, free=free)
        assert "more are in use" in judged(files=files) or moment == "start"
        files[f"{moment}.meminfo"] += f"VmallocUsed: {used} kB\n"
    assert judged(files=files) == ""
