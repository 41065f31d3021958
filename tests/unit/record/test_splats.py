"""Splats are found in what kernels really print, and a healthy boot holds none."""

from __future__ import annotations

import pytest

from flatboot.record import splats

SAMPLES = {
    "warning": """\
[    0.512345] ------------[ cut here ]------------
[    0.512346] WARNING: mm/page_alloc.c:5372 at __alloc_pages_noprof+0x123/0x2f0, CPU#0: swapper/0/1
[    0.512347] Modules linked in:""",
    "bug": "[    1.204511] kernel BUG at mm/page_alloc.c:1218!",
    "oops": "[    2.000001] Oops: general protection fault, probably for non-canonical address"
    " 0xffff: 0000 [#1] SMP KASAN PTI",
    "lockdep": """\
[    3.412121] ======================================================
[    3.412122] WARNING: possible circular locking dependency detected
[    3.412123] 7.3.4 #2 Not tainted
[    3.412124] ------------------------------------------------------
[    3.412125] swapper/0/1 is trying to acquire lock:""",
    "rcu": "[    4.100000] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "context": "[    0.300000] [ BUG: Invalid wait context ]",
    "kasan": "[    9.1] BUG: KASAN: slab-out-of-bounds in foo+0x1/0x20 at addr ffff888000000000",
    "page": "[    5.500000] page dumped because: VM_BUG_ON_PAGE(PagePoisoned(page))",
    "poison": "[    6.000000] pagealloc: memory corruption",
    "kmemleak": "[  600.000000] kmemleak: 3 new suspected memory leaks"
    " (see /sys/kernel/debug/kmemleak)",
    "reserved": "[    0.700000] Cannot free reserved memory because of deferred initialization of"
    " the memory map",
    "allocation": "[    1.114682] fill invoked oom-killer: gfp_mask=0x140dca, order=0",
    "stall": "[  122.000000] INFO: task init:1 blocked for more than 120 seconds.",
    "ubsan": "[    0.900000] UBSAN: array-index-out-of-bounds in mm/foo.c:12:3",
    "kunit": "[    1.000000]     not ok 2 deferred_init_claims",
    "tainted": "[    1.0] CPU: 0 UID: 0 PID: 35 Comm: fill Not tainted 7.3.4+ #2 PREEMPTLAZY",
    "trace": "[    1.114699] Call Trace:",
}

MORE = [
    ("context", "BUG: sleeping function called from invalid context at mm/page_alloc.c:4912"),
    ("rcu", "WARNING: suspicious RCU usage"),
    ("lockdep", "inconsistent lock state"),
    ("lockdep", "WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected"),
    ("page", "BUG: Bad page state in process fill  pfn:1f400"),
    ("oops", "BUG: unable to handle page fault for address: ffffea0000000008"),
    ("poison", "list_del corruption. prev->next should be ffffea0001, but was dead000000000122"),
    ("poison", "BUG kmalloc-64 (Not tainted): Left Redzone overwritten"),
    ("stall", "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [init:1]"),
    ("allocation", "swapper/0: page allocation failure: order:9, mode:0x20(GFP_ATOMIC)"),
    ("tainted", "CPU: 1 UID: 0 PID: 1 Comm: swapper/0 Tainted: G        W           7.3.4 #2"),
    ("kmemleak", "kmemleak: Cannot allocate a kmemleak_object structure"),
    ("kmemleak", "[    7.100000] kmemleak: Kernel memory leak detector disabled"),
    ("kmemleak", "6,97,7100000,-;kmemleak: Kernel memory leak detector disabled"),
    ("kmemleak", "kmemleak: Memory pool empty, consider increasing CONFIG_DEBUG_KMEMLEAK_MEM_POOL"),
    ("kmemleak", "kmemleak: Found object by alias at 0xffff888001234000"),
    ("kmemleak", "kmemleak: Not scanning unknown object at 0xffff888001234000"),
]

HEALTHY = """\
[    0.000000] Linux version 7.3.4 (flatboot@localhost) (gcc (Debian 12.2.0) 12.2.0) #1 SMP PREEMPT
[    0.000000] kasan: KernelAddressSanitizer initialized (generic)
[    0.000000] rcu: RCU lockdep checking is enabled.
[    0.000000] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    0.010000] SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=2, Nodes=2
[    0.020000] x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'
[    0.100000] Kernel/User page tables isolation: enabled
[    0.250000] mem auto-init: stack:all(zero), heap alloc:off, heap free:off
[    0.256036] node 0 deferred pages initialised in 0ms
[    0.000000] kmemleak: Kernel memory leak detector disabled
6,97,0,-;kmemleak: Kernel memory leak detector disabled
[    1.225626] kmemleak: Kernel memory leak detector disabled
[    1.225630] Running RCU self tests
[    1.225973] rcu: Preemptible hierarchical RCU implementation.
6,97,1225626,-;kmemleak: Kernel memory leak detector disabled
6,98,1225973,-;rcu: Preemptible hierarchical RCU implementation.
[    0.300000] kmemleak: Kernel memory leak detector initialized (mem pool available: 15984)
[    0.300001] kmemleak: Automatic memory scanning thread started
[    0.350000] Freeing initrd memory: 912K
[    0.402469] Freeing unused kernel image (initmem) memory: 1128K
[    0.410000] ok 1 deferred_init
HardwareCorrupted:     0 kB
[    0.420000] deferred_init: all 62464 deferred pages initialised
[    0.430000] check: Scanning 1 areas for low memory corruption
"""

STOPPED = """\
[   18.009522] reboot: machine restart
[   18.053423] ------------[ cut here ]------------
[   18.058746] sched: Unexpected reschedule of offline CPU#6!
[   18.059473] WARNING: arch/x86/kernel/apic/ipi.c:71 at native_smp_send_reschedule+0x4a, CPU#5
[   18.067178] CPU: 5 UID: 0 PID: 166 Comm: kworker/6:1 Tainted: G N 7.3.4 #1 PREEMPT
[   18.090586] Call Trace:
[   18.114576] ---[ end trace 0000000000000000 ]---
"""


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_splat_of_each_kind_is_found(kind: str) -> None:
    assert kind in {splat.kind for splat in splats.find(SAMPLES[kind])}


@pytest.mark.parametrize(("kind", "line"), MORE)
def test_a_line_is_of_its_most_telling_kind(kind: str, line: str) -> None:
    assert [splat.kind for splat in splats.find(line)] == [kind]


def test_every_pattern_is_tried_by_a_sample() -> None:
    assert set(splats.PATTERNS) == set(SAMPLES)


def test_a_healthy_boot_has_no_splat() -> None:
    assert splats.find(HEALTHY) == []


def test_a_splat_is_found_between_other_lines_and_shown_with_them() -> None:
    console = HEALTHY + SAMPLES["warning"] + "\n" + HEALTHY
    found = splats.find(console)
    assert [splat.kind for splat in found] == ["trace", "warning", "trace"]
    assert found[0].line == len(HEALTHY.splitlines()) + 1
    assert "page_alloc.c:5372" in splats.around(console, found[0])


def test_records_of_dev_kmsg_count_as_well() -> None:
    assert splats.find("4,279,1127545,-;WARNING: mm/foo.c:1 at foo+0x1/0x2")


@pytest.mark.parametrize("lines", range(4, 8))
def test_a_cpu_stopped_for_a_reboot_while_another_wakes_its_task_is_none(lines: int) -> None:
    console = HEALTHY + "".join(STOPPED.splitlines(keepends=True)[:lines])
    assert splats.find(console) == []


def test_it_is_one_before_the_reboot_and_so_is_another_warning_after_it() -> None:
    first, *warning = STOPPED.splitlines(keepends=True)
    assert splats.find("".join(warning))
    assert splats.find(first + SAMPLES["warning"])
    after = splats.find(STOPPED + SAMPLES["bug"])
    assert [(splat.kind, splat.line) for splat in after] == [("bug", 8)]


def test_another_splat_before_its_end_is_not_lost_with_it() -> None:
    cut_off = "".join(STOPPED.splitlines(keepends=True)[:-1])
    kinds = {splat.kind for splat in splats.find(cut_off + SAMPLES["warning"] + "\n" + STOPPED)}
    assert {"warning", "trace"} <= kinds
