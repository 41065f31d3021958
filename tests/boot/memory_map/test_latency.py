"""Growth is spread evenly: a touch of a fresh page pays for one block of the memory map at most."""

from __future__ import annotations

import pytest
from guests import BLOCKS, LAST_BLOCK, Guests, asked, results, vmstat

pytestmark = pytest.mark.groups("memory-map")

#: A touch is slow from here on, as a power of two of instructions: a block of 1,024 struct pages is
#: below, so that growth alone makes no touch slow and, as it has interrupts as the caller has them,
#: never keeps them off for longer.
SLOW = 15
#: No touch may take more instructions.
WORST = 2_000_000
#: Slow touches that timer ticks may cause in one boot.
CHANCE = 8
#: A touch in which the CPU went to a kernel thread for a while says nothing of growth and is left
#: out; that must stay rare, at most one in so many.
RARE = 5000
#: Memory blocks are registered behind boot, by a thread that would get in between.
PROGRAMS = (
    f"poke await listed {BLOCKS}{LAST_BLOCK}/state online",
    "latency 3072",
    "poke show vmstat /proc/vmstat",
)


def slow_touches(touched: dict[str, int], slow: int) -> int:
    """Return how many touches took 2^slow instructions or more."""
    return sum(n for name, n in touched.items() if name.startswith("2^") and int(name[2:]) >= slow)


#: A MiB every 10 ms and a bit, which leaves the CPU idle most of the time.
STEADY = (
    "poke show before /proc/vmstat",
    "latency 2048 4k 1 10",
    "poke show vmstat /proc/vmstat",
)


def test_who_reads_memory_steadily_finds_it_initialised(guests: Guests) -> None:
    """The thread has done it before, but for the first round and those that find the CPU busy."""
    record = guests(asked("flatboot", "4G", STEADY, "lazy"))
    before, after = (vmstat(record.files[when]) for when in ("before", "vmstat"))
    by_demand, by_thread = (
        after[f"deferred_init_{who}"] - before[f"deferred_init_{who}"]
        for who in ("demand", "background")
    )
    assert by_demand + by_thread > 1500 * 256
    assert by_demand <= (by_demand + by_thread) // 8


def test_growth_makes_no_touch_slow(guests: Guests) -> None:
    """The slow touches of stock, which fill a CPU's list with 2,016 pages, are all there are.

    The slowest one may pay for two blocks: a touch allocates a page table besides its page.
    """
    stock = results(guests(asked("stock", "4G", PROGRAMS)), "latency.")
    lazy = results(guests(asked("flatboot", "4G", PROGRAMS, "lazy")), "latency.")
    assert lazy["pages"] == stock["pages"] == 3072 * 256
    assert max(lazy["left_out"], stock["left_out"]) <= stock["pages"] // RARE
    assert slow_touches(lazy, SLOW) <= slow_touches(stock, SLOW) + CHANCE
    assert lazy["worst"] <= stock["worst"] + 2 * 2**SLOW


@pytest.mark.parametrize(("size", "cpus"), [("thp", 1), ("4k", 2), ("thp", 2)])
def test_no_touch_takes_long(guests: Guests, size: str, cpus: int) -> None:
    """With several CPUs a touch's instructions are those of all meanwhile."""
    programs = (PROGRAMS[0], f"latency 2048 {size} {cpus}")
    touched = results(guests(asked("flatboot", "4G", programs, "lazy", cpus=cpus)), "latency.")
    assert 0 < touched["worst"] <= WORST


def test_each_block_is_a_step_of_its_own(guests: Guests) -> None:
    record = guests(asked("flatboot", "4G", PROGRAMS, "lazy"))
    blocks = vmstat(record.files["vmstat"])["deferred_init_demand"] // 1024
    stock = results(guests(asked("stock", "4G", PROGRAMS)), "latency.")
    some = SLOW - 2  # 1,024 struct pages take a little more or less than half of SLOW.
    steps = slow_touches(results(record, "latency."), some) - slow_touches(stock, some)
    assert blocks > 0
    assert abs(steps - blocks) <= blocks // 10
