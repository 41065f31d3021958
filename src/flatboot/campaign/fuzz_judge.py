"""Whether a random boot went well, judged by what it left: its record, and a reference's."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from flatboot.campaign.fuzz_draw import RandomBoot
from flatboot.record import splats
from flatboot.record.record import Record

DEFERRED = "/sys/kernel/mm/deferred_init/"
#: What the guest shows of its memory before the load, after it, and when all is initialised.
MOMENTS = ("start", "end", "final")
_SHOWN = ("meminfo", "zoneinfo", "buddyinfo", "vmstat")
#: What a reference runs: nothing to speak of, but with it the initramfs is as large as with a
#: load. With debug_pagealloc=on that is never freed.
REFERENCE = ("poke sysinfo reference", "churn 0 fork:1")
#: Stock says so too, of a memory block that has to stay.
_EXPECTED = re.compile(
    r"page dumped because: (?:unmovable page|migration failure|isolation failed)"
)
#: The nodes that an allocation was limited to: those a block's pages may move to, when it goes.
_LIMITED = re.compile(r"page allocation failure: .*\bnodemask=(\d+(?:[,-]\d+)*)")
#: Kinds of splats that stock may have as well, and of lines that come with any splat.
_EXCUSED, _ATTENDANTS = ("allocation", "page"), ("tainted", "trace")

#: Bits of a map that tell which part of a large table is zeroed already, in kB.
BITMAPS_KB = 16
#: Parts of the kernel image are rounded up to pages, and percpu memory to chunks, in kB.
ROUNDING_KB = 64
#: What is used at one time and not at another, and is not itemised in /proc/meminfo: in kB, and
#: of a debug kernel in 1/1024 of the memory besides (what page_owner and KASAN note of pages).
NOISE_KB = 4096
#: KASAN keeps freed slab objects up to a 32nd of memory; slabs of others come on top.
SLAB_KB, SLAB_SHARE = 16384, 24
#: What may change between two files that are read one after another, in pages: what the CPUs'
#: counters have not added up, and two blocks that are just being handed over, if any are left.
IN_MOTION, HANDED_OVER = 1024, 2 * 1024
#: Parts of MemTotal that /proc/meminfo itemises; Hugetlb is not in any of the others. What is free
#: is taken from /proc/zoneinfo, with the CPUs' lists of the same moment: they are emptied at times.
_ITEMS = (
    "Buffers",
    "Cached",
    "AnonPages",
    "Slab",
    "PageTables",
    "SecPageTables",
    "Percpu",
    "Hugetlb",
)


def programs(case: RandomBoot) -> tuple[str, ...]:
    """Return the guest programs of *case*: its load, between looks at the memory.

    The first processes make the kernel keep memory of vmalloc, 5 MiB with KASAN: before all looks.
    """
    return (
        "churn 1 fork:1",
        *_look("start"),
        *case.load,
        "poke write caches /proc/sys/vm/drop_caches 3",
        *_look("end"),
        f"poke write complete {DEFERRED}complete 1",
        *_look("final"),
        "churn 0 read:1",
    )


def _look(moment: str) -> tuple[str, ...]:
    shown = (f"poke show {moment}.{name} /proc/{name}" for name in _SHOWN)
    return (*shown, f"poke show {moment}.remaining {DEFERRED}remaining_kb")


def judge(case: RandomBoot, ours: Record, reference: Record, witness: str = "") -> list[str]:
    """Return what is wrong with the boot *ours* of *case*, a sentence each; [] for nothing.

    Args:
        case: what was booted.
        ours: the record of the flatboot kernel.
        reference: the same machine and parameters: stock, or the same kernel that waited.
        witness: see ``splat``.
    """
    problems = splat(ours.console, witness, _empty_nodes(reference))
    problems += _totals(ours, reference)
    problems += _churned(case, ours)
    missing = [
        f"the guest did not show {moment}.{name}"
        for moment in MOMENTS
        for name in (*_SHOWN, "remaining")
        if f"{moment}.{name}" not in ours.files
    ]
    if missing:
        return problems + missing
    problems += _all_back(ours)
    for moment in MOMENTS:
        problems += _consistent(ours, moment, case.mode)
    if _numbers(ours.files["final.meminfo"]).get("Deferred"):
        problems.append("memory is deferred after completion")
    return problems


def splat(console: str, witness: str = "", empty: Collection[int] = ()) -> list[str]:
    """Return the first splat on *console* and the lines around it, if there is one.

    Args:
        console: of a boot.
        witness: the console of stock under the same load: a page that is not found or dumped there
            as well is no splat.
        empty: nodes without a page to allocate: that none is found there is no splat either.
    """
    theirs, mine = splats.find(witness), splats.find(console)
    in_vain = [one for one in mine if _nodes(one.text) and _nodes(one.text) <= {*empty}]
    told = {one.told for one in theirs}
    kinds = {one.kind for one in theirs} | ({*_ATTENDANTS} if in_vain else set())
    found = [
        one
        for one in mine
        if one not in in_vain
        and not _EXPECTED.search(one.text)
        and not (one.kind in _EXCUSED and one.told in told)
        and not (one.kind in _ATTENDANTS and one.kind in kinds)
    ]
    return [f"the kernel complains:\n{splats.around(console, found[0])}"] if found else []


def _nodes(line: str) -> set[int]:
    """Return the nodes that a failed allocation was limited to, if *line* tells of one."""
    limited = _LIMITED.search(line)
    ranges = [part.split("-") for part in limited[1].split(",")] if limited else []
    return {node for ends in ranges for node in range(int(ends[0]), int(ends[-1]) + 1)}


def _empty_nodes(record: Record) -> set[int]:
    """Return the nodes whose memory, if they have any, is all taken from the beginning."""
    return {int(name[4:]) for name, total in _shares(record).items() if name and not total}


def _numbers(text: str) -> dict[str, int]:
    """Return the fields of /proc/meminfo or of a node's meminfo, in kB."""
    return {name: int(value) for name, value in re.findall(r"(\w+(?:\(\w+\))?): +(\d+)", text)}


def _shares(record: Record) -> dict[str, int]:
    """Return MemTotal of the whole and of each node, in kB."""
    nodes = {
        path.split("/")[5]: _numbers(text)["MemTotal"]
        for path, text in record.files.items()
        if re.fullmatch(r"/sys/devices/system/node/node\d+/meminfo", path)
    }
    return {"": record.meminfo["MemTotal"], **nodes}


def _image_kb(record: Record) -> int:
    parts = re.search(
        r"available \((\d+)K kernel code, (\d+)K rwdata, (\d+)K rodata, (\d+)K init, (\d+)K bss,",
        record.log,
    )
    return sum(map(int, parts.groups())) if parts else 0


def _totals(ours: Record, reference: Record) -> list[str]:
    """Compare MemTotal: what the image takes more, and the bitmaps, may be missing."""
    mine, theirs = _shares(ours), _shares(reference)
    if set(mine) != set(theirs):
        return [f"the nodes are {sorted(mine)}, of the reference {sorted(theirs)}"]
    problems = []
    growth = _image_kb(ours) - _image_kb(reference)
    rounding = 0 if ours.kernel.image == reference.kernel.image else ROUNDING_KB
    for name, total in theirs.items():
        # The image lies on one node.
        lost = total - mine[name] - (0 if name else growth)
        allowed = BITMAPS_KB + rounding + (max(growth, 0) if name else 0)
        if not -rounding <= lost <= allowed:
            problems.append(
                f"MemTotal{f' of {name}' if name else ''} is {mine[name]} kB and {lost} kB short of"
                f" the reference's {total} kB (the image takes {growth} kB more)"
            )
    return problems


def _churned(case: RandomBoot, ours: Record) -> list[str]:
    problems = []
    for command in case.load:
        _, seed, *jobs = command.split()
        for index, job in enumerate(jobs):
            ended = ours.results.get(f"churn.{seed}.{index}", "nothing")
            if ended != "ok":
                problems.append(f"the job {job} of load {seed} ended with {ended}")
        for what in ("bad_words", "stranded"):
            count = ours.results.get(f"churn.{seed}.{what}", "nothing")
            if count != "0":
                problems.append(f"load {seed} reports {count} {what.replace('_', ' ')}")
    if ours.results.get("write.complete") != "ok":
        problems.append(f"completing gave {ours.results.get('write.complete', 'nothing')}")
    return problems


def _unitemised(numbers: Mapping[str, int], zoneinfo: str) -> int:
    """Return the kB of memory that are used, and that /proc/meminfo does not say what for.

    Stacks are part of vmalloc's memory, and stay it for a while when KernelStack has forgotten
    them: those of ended threads are freed behind a grace period, a hundred or more at a time.
    """
    free = _pages(zoneinfo, "pages free") + _pages(zoneinfo, "count:")
    stacks = max(numbers.get("KernelStack", 0), numbers.get("VmallocUsed", 0))
    items = stacks + sum(numbers.get(item, 0) for item in _ITEMS)
    return numbers["MemTotal"] - 4 * free - items


def _pages(zoneinfo: str, name: str) -> int:
    """Return the sum over zones, or CPUs in them, of what /proc/zoneinfo calls *name*."""
    return sum(map(int, re.findall(rf"{name} +(\d+)", zoneinfo)))


def _all_back(ours: Record) -> list[str]:
    problems = []
    numbers = {moment: _numbers(ours.files[f"{moment}.meminfo"]) for moment in MOMENTS}
    # Huge pages give back pages of boot's memory map and later take others for them.
    used = {
        moment: _unitemised(numbers[moment], ours.files[f"{moment}.zoneinfo"])
        + _map_kb(ours.files[f"{moment}.vmstat"])
        for moment in MOMENTS
    }
    total = ours.meminfo["MemTotal"]
    noise = NOISE_KB + (total >> 10 if ours.kernel.config == "debug" else 0)
    for before, after in (("start", "end"), ("end", "final")):
        kept = used[after] - used[before]
        if abs(kept) > noise:
            problems.append(f"{kept} kB more are in use at the {after} than at the {before}")
        slab = numbers[after]["Slab"] - numbers[before]["Slab"]
        if slab > SLAB_KB + total // SLAB_SHARE:
            problems.append(f"slabs grew by {slab} kB from the {before} to the {after}")
    at_mark = _map_kb(ours.files["/proc/vmstat"])
    for moment in MOMENTS:
        expected = total + at_mark - _map_kb(ours.files[f"{moment}.vmstat"])
        if numbers[moment]["MemTotal"] != expected:
            problems.append(
                f"MemTotal is {numbers[moment]['MemTotal']} kB at the {moment}, not {expected}"
            )
    return problems


def _map_kb(vmstat: str) -> int:
    """Return the kB of boot's memory map: what huge pages give back of it joins MemTotal."""
    return 4 * sum(map(int, re.findall(r"nr_memmap_boot_pages (\d+)", vmstat)))


def _consistent(ours: Record, moment: str, mode: str) -> list[str]:
    """Compare what the files say of the same memory: free lists, deferred and free pages."""
    zoneinfo = ours.files[f"{moment}.zoneinfo"]
    free, deferred, on_lists = (
        _pages(zoneinfo, name) for name in ("pages free", "nr_deferred", "count:")
    )
    rows = re.findall(r"zone +\w+((?: +\d+)+)", ours.files[f"{moment}.buddyinfo"])
    listed = sum(int(n) << order for row in rows for order, n in enumerate(row.split()))
    if mode == "background" and moment != "final" and deferred:
        return []  # The files are read one after another, and threads are at work.
    problems = []
    motion = IN_MOTION + (HANDED_OVER if deferred else 0)
    if not -motion <= listed + deferred - free <= motion + on_lists:
        problems.append(
            f"at the {moment} {listed} pages are in free lists and {deferred} deferred, and {free}"
            " free"
        )
    shown = {
        "meminfo": _numbers(ours.files[f"{moment}.meminfo"]).get("Deferred", 0) // 4,
        "remaining_kb": int(ours.files[f"{moment}.remaining"]) // 4,
    }
    problems += [
        f"at the {moment} zoneinfo says {deferred} deferred pages and {name} {pages}"
        for name, pages in shown.items()
        if abs(pages - deferred) > motion
    ]
    return problems
