"""A lazy kernel hands its memory over to another, which is as lazy.

The tests are named after the rows of docs/struct-page-readers.md.
"""

from __future__ import annotations

import pytest
from guests import BASE, DEFERRED, Guests, asked, kernel_of, meminfo
from readers import PENDING, answer, lazy

from flatboot.guest import borrowed, kernel_selftests, next_kernel
from flatboot.record.record import Record

#: KASAN's shadow must fit into what is kept for the second kernel: low memory, any, each node.
MEMORY = "4G"
HANDOVER = "kho=on kho_scratch=64M,256M,512M"
#: What the kernels after the first boot with. KASAN takes interrupts for wild accesses while
#: identify_cpu() has cleared the CPU's features, on which its shadow's place hangs with five
#: levels of page tables; what the kernel before left to interrupt comes early enough.
CMDLINE = f"console=ttyS0 quiet panic=-1 tsc=reliable reboot=t no5lvl {HANDOVER}"
LIVE = "liveupdate=on"
#: All memory is used, and freed, and completed, around what is preserved.
USE = ("fill 4k 2", f"poke write all {DEFERRED}complete 1", "poke show after /proc/meminfo")
#: The kernel's own tests of live update that survive a kexec: what is left before it is there
#: after it.
LIVE_UPDATES = ("luo_kexec_simple", "luo_multi_session", "luo_stress_sessions", "luo_stress_files")

pytestmark = [
    pytest.mark.groups("memory-map"),
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.default_base,
]


def load(mode: str, cmdline: str = "") -> str:
    """Return the guest program that loads the next kernel, to be booted in *mode*."""
    return next_kernel.load(f"{CMDLINE} deferred_init={mode} {cmdline}")


def assert_whole(record: Record) -> None:
    """Of what was not preserved, every page can be used, and none is lost or counted twice."""
    assert record.results["fill.bad_words"] == "0"
    assert record.results["fill.still_deferred"] == "0"
    assert meminfo(record.files["after"])["MemTotal"] == record.meminfo["MemTotal"]


def test_handing_over(guests: Guests) -> None:
    """The areas for the next kernel are reserved, and the map is as lazy as without them."""
    record = guests(
        lazy(
            f"pages raw before {PENDING}",
            "poke drain scratch /sys/kernel/debug/kho/out/scratch_phys",
            "poke drain flags /proc/kpageflags",
            f"poke write all {DEFERRED}complete 1",
            "poke show after /proc/meminfo",
            memory=MEMORY,
            cmdline=HANDOVER,
        )
    )
    assert record.files[f"{DEFERRED}mode"].strip() == "lazy"
    assert answer(record, "raw.before") == "poison"
    assert int(record.results["drain.scratch"]) > 0
    assert meminfo(record.files["after"])["MemTotal"] == record.meminfo["MemTotal"]


def handed_over(guests: Guests, mode: str) -> Record:
    """Return the second boot of the debug kernel, which gets memory from the first."""
    programs = ("poke drain flags /proc/kpageflags", *USE)
    kernel = kernel_of("flatboot", "debug").image().image
    return guests(
        lazy(
            load(mode),
            next_kernel.BOOT,
            memory=MEMORY,
            cmdline=HANDOVER,
            files=tuple(next_kernel.files(kernel, programs, "wall").items()),
        )
    )


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_taking_over(guests: Guests, mode: str) -> None:
    """What is preserved is there, and what is kept for the next kernel is as with a full map."""
    record = handed_over(guests, mode)
    assert record.files[f"{DEFERRED}mode"].strip() == mode
    assert "KHO restore succeeded" in record.log
    if mode == "lazy":
        assert record.meminfo["Deferred"] > record.meminfo["MemTotal"] / 4
    assert int(record.results["drain.flags"]) > 0
    assert_whole(record)
    waited = handed_over(guests, "wait")
    assert waited.meminfo["Deferred"] == 0
    assert abs(record.meminfo["MemTotal"] - waited.meminfo["MemTotal"]) < 64
    kept = record.meminfo["CmaFree"], waited.meminfo["CmaFree"]
    assert kept[0] == pytest.approx(kept[1], rel=0.01)


@pytest.mark.parametrize("test", LIVE_UPDATES)
def test_a_live_update(guests: Guests, test: str) -> None:
    """Twice: the third kernel gets what the second one preserved, lazily booted and used up."""
    program = kernel_selftests.installed(BASE) / "liveupdate" / test
    tests = {f"bin/{test}": program, **borrowed.libraries(program)}
    kernel = kernel_of("flatboot", "handover").image().image
    after, before = f"{test} -s 2", (f"{test} -s 1", load("lazy", LIVE), next_kernel.BOOT)
    third = next_kernel.files(kernel, (after, "fill 4k 2"), "wall", tests)
    second = next_kernel.files(kernel, ("fill 4k 2", after, *before), "wall", {**tests, **third})
    ask = asked(
        "flatboot",
        MEMORY,
        before,
        "lazy",
        cpus=2,
        nodes=2,
        config="handover",
        cmdline=f"{HANDOVER} {LIVE}",
        clock="wall",
        files=tuple({**tests, **second}.items()),
    )
    record = guests(ask)
    assert record.console.count("flatboot: mark=") == 3
    assert record.console.count(f"exit.{test}=0") == 4
    assert record.meminfo["Deferred"] > 1 << 20


def test_what_live_update_offers(guests: Guests) -> None:
    """The kernel's own test of the calls finds the same as on stock."""
    program = kernel_selftests.installed(BASE) / "liveupdate/liveupdate"
    files = {"bin/liveupdate": program, **borrowed.libraries(program)}
    stock, ours = (
        kernel_selftests.results(
            guests(
                asked(
                    flavour,
                    MEMORY,
                    ("liveupdate",),
                    mode,
                    config="handover",
                    cmdline=f"{HANDOVER} {LIVE}",
                    clock="wall",
                    files=tuple(files.items()),
                )
            ).console
        )
        for flavour, mode in (("stock", None), ("flatboot", "lazy"))
    )
    assert list(stock.values()).count("ok") > 10
    assert ours == stock
