"""The kernel's own tests find the same on our kernel as on stock."""

from __future__ import annotations

import re

import pytest
from guests import BASE, kernel_of

from flatboot.guest import kernel_selftests, stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.record import splats
from flatboot.record.record import Record

# What its tables say is true of the default base.
pytestmark = [pytest.mark.groups("memory-map"), pytest.mark.default_base]

#: What one boot runs: tests that together meet all kinds of memory while it is deferred.
GROUPS = {
    "quick": ("mm:ksft_madv_populate.sh", "mm:ksft_mmap.sh"),
    "hugetlb": ("mm:ksft_hugetlb.sh",),
    "thp": ("mm:ksft_thp.sh",),
    "pinned": ("mm:ksft_gup_test.sh",),
    "copied": ("mm:ksft_cow.sh",),
    "faulted": (
        *("mm:ksft_userfaultfd.sh", "mm:ksft_pagemap.sh", "mm:ksft_soft_dirty.sh"),
        *("mm:ksft_mkdirty.sh", "mm:ksft_madv_guard.sh"),
    ),
    "mapped": (
        *("mm:ksft_mlock.sh", "mm:ksft_mremap.sh", "mm:ksft_process_madv.sh"),
        *("mm:ksft_process_mrelease.sh", "mm:ksft_vma_merge.sh", "mm:ksft_rmap.sh"),
        *("mm:ksft_hugevm.sh", "mm:ksft_pfnmap.sh", "mm:ksft_memfd_secret.sh", "mm:ksft_pkey.sh"),
    ),
    "moved": (
        *("mm:ksft_compaction.sh", "mm:ksft_migration.sh", "mm:ksft_ksm.sh"),
        *("mm:ksft_ksm_numa.sh", "mm:ksft_memory_failure.sh"),
    ),
    "memory-hotplug": ("memory-hotplug:mem-on-off-test.sh",),
    "cpu-hotplug": ("cpu-hotplug:cpu-on-off-test.sh",),
    "damon": (
        *("damon:sysfs.sh", "damon:sysfs_refresh.py", "damon:reclaim.sh"),
        *("damon:lru_sort.sh", "damon:sysfs_update_removed_scheme_dir.sh"),
        *("damon:sysfs_update_schemes_tried_regions_hang.py", "damon:damos_quota.py"),
        *("damon:damos_quota_goal.py", "damon:damos_apply_interval.py"),
        *("damon:damos_tried_regions.py", "damon:damon_nr_regions.py"),
    ),
}
#: Parameters of both kernels, and of ours, where a group is run once more with them: the pool of
#: boot is not built when the tests begin.
POOLS = {
    "hugetlb": (
        "hugepages=300 hugepagesz=1G hugepages=1",
        "deferred_init=lazy hugetlb_deferred=on",
    ),
}
#: What a guest of the lab cannot run, or what says nothing there, and why.
NOT_RUN = {
    "mm:ksft_hmm.sh": "needs the module test_hmm, and guests have no modules",
    "mm:ksft_vmalloc.sh": "needs the module test_vmalloc, and guests have no modules",
    "mm:ksft_kmemleak_confirm.sh": "needs kmemleak and the module kmemleak-test",
    "mm:ksft_kmemleak_dedup.sh": "needs kmemleak and the module kmemleak-test",
    "damon:sysfs_memcg_path_leak.sh": "needs kmemleak, which the config users leaves out",
    "damon:sysfs_update_schemes_tried_regions_wss_estimation.py": "estimates a working set by when"
    " pages are accessed, and is not done in 10 minutes under emulation",
    "liveupdate:liveupdate": "test_readers_handover.py runs it, on a kernel with live update",
    "damon:sysfs.py": "needs drgn and a kernel with debugging information",
    "damon:sysfs_no_op_commit_break.py": "needs drgn and a kernel with debugging information",
}
SHORT = "quick"
#: Results that differ between two boots of stock, as patterns of their names, and why.
LUCK = {
    r"transact_test Extra pages \d": "its name counts what other threads did meanwhile",
}
#: Seconds that each test may take, and a boot.
TEST_S, BOOT_S = 1800, 7200.0
MEMORY = "4G"


def run(flavour: str, group: str, mode: str = "") -> Record:
    """Boot the kernel of *flavour* and run the tests of *group*."""
    kernel = kernel_of(flavour, "users")
    folder = kernel_selftests.installed(BASE)
    return stored.boot(
        BootSpec(
            kernel,
            machine(memory=MEMORY, cpus=2, nodes=2),
            f"log_buf_len=8M {mode}".strip(),
            "wall",
            (
                f"selftests {TEST_S} {' '.join(GROUPS[group])}",
                "poke show printed /tmp/selftests",
                "poke show meminfo /proc/meminfo",
            ),
            tuple(kernel_selftests.files(folder, kernel.image().dotconfig).items()),
            timeout_s=BOOT_S,
        )
    )


def complaints(record: Record) -> set[str]:
    """Return the splats in the kernel's log, without the numbers in them."""
    return {splat.told for splat in splats.find(record.log)}


def by_chance(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in LUCK)


def differences(group: str, both: str = "", mode: str = "deferred_init=lazy") -> set[str]:
    """Return in what a boot of each kernel differs: results, and what ours alone complains of.

    Args:
        group: of GROUPS.
        both: parameters of both kernels.
        mode: parameters of ours besides.
    """
    ours = run("flatboot", group, f"{both} {mode}")
    stock = run("stock", group, both)
    assert ours.meminfo["Deferred"] > (1 << 20 if both else 2 << 20)
    wanted, found = (kernel_selftests.results(record.files["printed"]) for record in (stock, ours))
    assert len([name for name in wanted if name.startswith("selftests: ")]) >= len(GROUPS[group])
    assert "ok" in wanted.values()
    return {
        f"{name}: {wanted.get(name)} on stock, {found.get(name)} here"
        for name in wanted.keys() | found.keys()
        if wanted.get(name) != found.get(name) and not by_chance(name)
    } | (complaints(ours) - complaints(stock))


@pytest.mark.timeout(8 * BOOT_S)
@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=[] if name == SHORT else pytest.mark.long) for name in GROUPS],
)
def test_same_results_as_stock(group: str) -> None:
    """Some tests give up after a while, so what a second try does not show is luck."""
    found = differences(group)
    assert not found or not found & differences(group)


@pytest.mark.long
@pytest.mark.timeout(8 * BOOT_S)
@pytest.mark.parametrize("group", POOLS)
def test_same_results_with_a_pool_that_is_not_built(group: str) -> None:
    found = differences(group, *POOLS[group])
    assert not found or not found & differences(group, *POOLS[group])


def test_every_test_is_run_or_known_not_to_be() -> None:
    """A base that brings a new test asks for a look at it."""
    listed = set((kernel_selftests.installed(BASE) / "kselftest-list.txt").read_text().split())
    assert listed == {test for tests in GROUPS.values() for test in tests} | NOT_RUN.keys()
