"""Whoever walks over page numbers meets no struct page that is not initialised.

The tests are named after the rows of docs/struct-page-readers.md. A struct page that is not
initialised is all ones on the debug kernel, which complains where it reads the flags of one.
"""

from __future__ import annotations

import pytest
from guests import DEFERRED, HUGE_1G, Guests, meminfo, vmstat
from readers import MEMORY, PENDING, PENDING_OF_NODE_1, answer, lazy

from flatboot.common import units
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

PAGES = units.size(MEMORY) // 4096
DAMON = "/sys/kernel/mm/damon/admin/kdamonds/"
CONTEXT = f"{DAMON}0/contexts/0/"
REGION = f"{CONTEXT}targets/0/regions/0/"
SCHEME = f"{CONTEXT}schemes/0/"
#: Physical monitoring of all memory; lru_deprio looks at each page of a region.
DAMON_SETUP = {
    f"{DAMON}nr_kdamonds": "1",
    f"{DAMON}0/contexts/nr_contexts": "1",
    f"{CONTEXT}operations": "paddr",
    f"{CONTEXT}monitoring_attrs/nr_regions/min": "500",
    f"{CONTEXT}targets/nr_targets": "1",
    f"{CONTEXT}targets/0/regions/nr_regions": "1",
    f"{REGION}start": "0",
    f"{REGION}end": str(units.size(MEMORY)),
    f"{CONTEXT}schemes/nr_schemes": "1",
    f"{SCHEME}action": "lru_deprio",
    f"{SCHEME}access_pattern/sz/max": str(1 << 40),
    f"{SCHEME}access_pattern/nr_accesses/max": str(1 << 20),
    f"{SCHEME}access_pattern/age/max": str(1 << 20),
    f"{DAMON}0/state": "on",
}
DAMON_STATS = {f"{DAMON}0/state": "update_schemes_stats"}
DAMON_STAT = "/sys/module/damon_stat/parameters/"
KFENCE = "/sys/module/kfence/parameters/sample_interval"
WALKED = {
    "kpagecount": "/proc/kpagecount",
    "kpageflags": "/proc/kpageflags",
    "kpagecgroup": "/proc/kpagecgroup",
    "pagetypeinfo": "/proc/pagetypeinfo",
    "buddyinfo": "/proc/buddyinfo",
    "zoneinfo": "/proc/zoneinfo",
}
ASKED = {
    "compact": ("/proc/sys/vm/compact_memory", "1"),
    "caches": ("/proc/sys/vm/drop_caches", "3"),
    "split": ("/sys/kernel/debug/split_huge_pages", "1"),
    "leaks": ("/sys/kernel/debug/kmemleak", "scan"),
}


def writes(label: str, files: dict[str, str]) -> tuple[str, ...]:
    """Return the programs that write *files*, labelled in order."""
    return tuple(
        f"poke write {label}{index} {path} {text}"
        for index, (path, text) in enumerate(files.items())
    )


WALK = lazy(
    f"pages raw before {PENDING}",
    f"pages raw other_before {PENDING_OF_NODE_1}",
    *writes("damon", DAMON_SETUP),
    *(f"poke drain {label} {path}" for label, path in WALKED.items()),
    "pages idle all",
    *(f"poke write {label} {path} {text}" for label, (path, text) in ASKED.items()),
    *writes("stats", DAMON_STATS),
    f"poke show tried {SCHEME}stats/sz_tried",
    f"poke show applied {SCHEME}stats/sz_applied",
    f"poke write damon_off {DAMON}0/state off",
    "pages kcore all",
    f"pages devmem pending {PENDING}",
    f"pages raw after {PENDING}",
    f"pages raw other_after {PENDING_OF_NODE_1}",
    f"poke show remaining {DEFERRED}remaining_kb",
    cmdline="kmemleak=on",
)


@pytest.fixture(scope="module")
def walked(guests: Guests) -> Record:
    """Return the record of a guest in which everybody looked at all pages."""
    return guests(WALK)


def written(record: Record, label: str) -> set[str]:
    """Return how the writes labelled *label* and a number went."""
    return {
        answer(record, key)
        for key in record.results
        if key.removeprefix(f"write.{label}").isdigit()
    }


def test_walks_leave_free_memory_alone(walked: Record) -> None:
    states = [
        answer(walked, f"raw.{when}") for when in ("before", "other_before", "after", "other_after")
    ]
    assert states == ["poison"] * 4
    assert int(walked.files["remaining"]) > 512 << 10


@pytest.mark.parametrize("file", ["kpagecount", "kpageflags", "kpagecgroup"])
def test_proc_kpage_files(walked: Record, file: str) -> None:
    assert int(walked.results[f"drain.{file}"]) == PAGES * 8


@pytest.mark.parametrize("file", ["pagetypeinfo", "buddyinfo", "zoneinfo"])
def test_proc_files_of_zones(walked: Record, file: str) -> None:
    assert int(walked.results[f"drain.{file}"]) > 0


def test_page_idle_tracking(walked: Record) -> None:
    # The bitmap has whole words only.
    assert 0 <= PAGES - int(walked.results["idle.all.pages"]) <= 64
    assert 0 < int(walked.results["idle.all.idle"]) < PAGES / 2


@pytest.mark.parametrize("label", ASKED)
def test_walks_by_request(walked: Record, label: str) -> None:
    assert answer(walked, f"write.{label}") == "ok"


def test_damon_physical_monitoring(walked: Record) -> None:
    assert written(walked, "damon") == written(walked, "stats") == {"ok"}
    assert answer(walked, "write.damon_off") == "ok"
    assert int(walked.files["tried"]) >= units.size(MEMORY)


def test_kcore(walked: Record) -> None:
    assert answer(walked, "kcore.all.own") == "1"
    assert int(walked.results["kcore.all.pages"]) >= PAGES // 16 - 64
    assert int(walked.results["kcore.all.empty"]) >= int(walked.files["remaining"]) // 64


def test_dev_mem(walked: Record) -> None:
    assert answer(walked, "devmem.pending") == "EPERM"


PAGE_EXT = {
    "page_owner": "page_owner=on",
    "page_table_check": "page_table_check=on",
    "profiling": "sysctl.vm.mem_profiling=1",
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("user", PAGE_EXT)
def test_users_of_page_ext_complete_the_map(guests: Guests, user: str) -> None:
    record = guests(
        lazy(
            f"poke show remaining {DEFERRED}remaining_kb",
            "poke drain types /proc/pagetypeinfo",
            "fill 4k 2",
            memory="1G",
            cmdline=PAGE_EXT[user],
        )
    )
    assert record.files["remaining"].strip() == "0"
    assert "deferred pages initialised" in record.log
    assert record.results["fill.bad_words"] == "0"


CHECKS = {
    "debug_pagealloc": "debug_pagealloc=on debug_guardpage_minorder=1",
    "page_poisoning": "page_poison=1",
    "slub_debug": "slub_debug=FZPU",
    "init_on_free": "init_on_alloc=1 init_on_free=1",
    "shuffle": "page_alloc.shuffle=1",
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_free_memory(guests: Guests, check: str) -> None:
    record = guests(lazy("fill 4k 2", memory="1G", cmdline=CHECKS[check]))
    assert record.results["fill.bad_words"] == "0"
    assert int(record.results["fill.deferred_before"]) > 0
    assert record.results["fill.short_deferred"] == "0"


CONTIGUOUS = {
    "cma": ("hugetlb_cma=1G", 1),
    "gigantic": ("", 1),
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", CONTIGUOUS)
def test_contiguous_allocations(guests: Guests, source: str) -> None:
    words, count = CONTIGUOUS[source]
    record = guests(
        lazy(
            f"poke show before {DEFERRED}remaining_kb",
            f"poke write some {HUGE_1G} {count}",
            f"poke show some {HUGE_1G}",
            f"poke show during {DEFERRED}remaining_kb",
            f"poke write none {HUGE_1G} 0",
            f"poke show none {HUGE_1G}",
            f"poke write all {DEFERRED}complete 1",
            "poke show after /proc/meminfo",
            memory="6G",
            cmdline=words,
        )
    )
    initialised_kb = int(record.files["before"]) - int(record.files["during"])
    assert int(record.files["during"]) > 0
    if source == "gigantic":
        assert initialised_kb > 1 << 19, "little of the huge page was pending"
    assert record.files["some"].strip() == str(count)
    assert record.files["none"].strip() == "0"
    assert meminfo(record.files["after"])["MemTotal"] == record.meminfo["MemTotal"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_damon_stat(guests: Guests) -> None:
    """After some seconds it tells how long memory was idle, for each percent of it."""
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            f"poke write on {DAMON_STAT}enabled Y",
            "latency 100 4k 1 100",
            f"poke show idle {DAMON_STAT}memory_idle_ms_percentiles",
            f"poke write off {DAMON_STAT}enabled N",
            f"pages raw after {PENDING}",
        )
    )
    assert answer(record, "write.on") == answer(record, "write.off") == "ok"
    assert any(map(int, record.files["idle"].split(",")))
    assert answer(record, "raw.before") == answer(record, "raw.after") == "poison"


#: Modules that act on what DAMON finds: the parameter that tells from which age on memory is cold,
#: in microseconds, and the one that says how many bytes they tried.
DAMON_MODULES = {
    "reclaim": ("min_age", "bytes_reclaim_tried_regions"),
    "lru_sort": ("cold_min_age", "bytes_lru_sort_tried_cold_regions"),
}
#: Most of it is free: what these programs and the kernel have in use is less.
TRIED = 128 << 20
#: They work however much memory is free.
DAMON_ALWAYS = {"wmarks_high": "1000", "wmarks_mid": "1000", "wmarks_low": "0"}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("module", DAMON_MODULES)
def test_modules_of_damon(guests: Guests, module: str) -> None:
    """All memory is cold after a second; free memory is tried, and left as it is."""
    parameters = f"/sys/module/damon_{module}/parameters/"
    age, tried = DAMON_MODULES[module]
    files = {**DAMON_ALWAYS, age: "1000000", "enabled": "Y"}
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            *writes("set", {parameters + name: text for name, text in files.items()}),
            "latency 200 4k 1 100",
            f"poke show tried {parameters}{tried}",
            f"poke write off {parameters}enabled N",
            f"pages raw after {PENDING}",
        )
    )
    assert written(record, "set") == {"ok"}
    assert int(record.files["tried"]) >= TRIED
    assert answer(record, "raw.before") == answer(record, "raw.after") == "poison"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_late_pool_of_kfence(guests: Guests) -> None:
    """Turned on when the system runs, it takes contiguous pages for its pool.

    Memory reaches over 4 GiB, so that these lie in a zone that begins with a whole pageblock: in
    the lowest one DEBUG_VM has a panic for stock, too, which isolates the pageblock around pfn 1.
    """
    record = guests(
        lazy(
            f"poke show before {DEFERRED}remaining_kb",
            f"poke write on {KFENCE} 10",
            "poke show stats /sys/kernel/debug/kfence/stats",
            f"poke show during {DEFERRED}remaining_kb",
            "mapped move 64",
            memory="6G",
        )
    )
    assert answer(record, "write.on") == "ok"
    assert "enabled: 1" in record.files["stats"]
    assert 0 < int(record.files["during"]) <= int(record.files["before"])
    assert record.results["move.bad"] == "0"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_multi_generation_lru(guests: Guests) -> None:
    """Lists of both nodes are aged by request (cgroup 1 is the root), and reclaimed from."""
    record = guests(
        lazy(
            "poke write on /sys/kernel/mm/lru_gen/enabled y",
            "poke write swap /sys/block/zram0/disksize 256M",
            "swap /dev/zram0",
            "poke write age0 /sys/kernel/debug/lru_gen '+ 1 0 3'",
            "poke write age1 /sys/kernel/debug/lru_gen '+ 1 1 3'",
            "poke drain walked /sys/kernel/debug/lru_gen_full",
            "fill 4k 2",
            "poke show vmstat /proc/vmstat",
            memory="1G",
        )
    )
    assert {answer(record, f"write.{label}") for label in ("on", "age0", "age1")} == {"ok"}
    assert int(record.results["fill.deferred_before"]) > 0
    assert vmstat(record.files["vmstat"])["pgsteal_kswapd"] > 0
    assert record.results["fill.bad_words"] == "0"
