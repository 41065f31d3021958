"""Advice on a boot: what it names, and what it says would be gained."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.bootlog import bootlog
from flatboot.bootlog.bootlog_advice import RULES, Advice, advise

DATA = Path(__file__).parents[2] / "data/bootlog"
S = 1_000_000_000


def advice(name: str, *changes: tuple[str, str]) -> dict[str, Advice]:
    text = (DATA / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return {item.name: item for item in advise(bootlog.analyze(text))}


def test_the_published_gap_is_the_first_advice() -> None:
    found = advice("published-5.8.log")
    kept, lazy = found["a kernel that keeps the deferral"], found["deferred_init=lazy"]
    assert "5.11" in kept.text
    assert (kept.gain, lazy.gain) == (2_180_364_000, 2_180_364_000 + 991_000_000)
    assert list(found)[:2] == [lazy.name, kept.name]
    assert "a kernel that keeps the deferral" not in advice("published-5.7.log")


def test_a_kernel_of_another_version_has_not_that_fault() -> None:
    found = advice("published-5.8.log", ("Linux version 5.8.0", "Linux version 5.11.0"))
    assert "a kernel that keeps the deferral" not in found
    assert "CONFIG_DEFERRED_STRUCT_PAGE_INIT=y" not in found  # it is on: the kernel waits


def test_waiting_for_the_memory_map() -> None:
    assert advice("dmesg.log")["deferred_init=lazy"].gain == 2_390_000_000 + 381_086_000
    lazy = advice("dmesg.log", ("crashkernel=512M", "deferred_init=lazy"))
    assert "deferred_init=lazy" not in lazy


def test_bringing_up_fewer_cpus() -> None:
    gain = advice("dmesg.log")["maxcpus=4"].gain
    assert gain == pytest.approx(1_077_650_000 * 60 / 63)
    assert "maxcpus=4" not in advice("dmesg.log", ("crashkernel=512M", "maxcpus=8"))
    assert "maxcpus=4" not in advice("4.19-arm64.log")  # four CPUs


def test_the_kernel_of_a_crash_dump() -> None:
    found = advice("dmesg.log", ("crashkernel=512M", "elfcorehdr=0x7000000"))
    assert found["nr_cpus=1"].gain == 1_077_650_000
    assert "nr_cpus=1" not in advice("dmesg.log")


def test_parallel_bring_up_is_for_older_kernels() -> None:
    name = "parallel CPU bring-up (Linux 6.5)"
    assert name not in advice("dmesg.log")
    assert name in advice("dmesg.log", ("Linux version 6.8", "Linux version 6.4"))


def test_serial_console_and_huge_pages() -> None:
    found = advice("slow-serial.log")
    assert found["hugepage_alloc_threads="].gain == 2_265_000_000
    console = found["quiet, or a higher rate in console="]
    assert console.gain is not None
    assert 2 * S < console.gain < 2.2 * S
    assert "quiet, or a higher rate in console=" not in advice("4.19-arm64.log")


def test_root_device() -> None:
    assert advice("4.19-arm64.log")["no wait for the root device"].gain == 1_595_000_000


def test_initcalls_get_the_advice_that_fits_them() -> None:
    analysis = bootlog.analyze((DATA / "initcall-debug.log").read_text())
    found = [(item.name, item.text) for item in advise(analysis) if "initcall" in item.text]
    general = [text for name, text in found if name.startswith("driver_async_probe=")]
    assert "kswapd_init" in general[0]
    assert "acpi_init" in general[1]
    assert not any("pty_init" in text for text in general)
    assert "pty_init" in advice("initcall-debug.log")["pty.legacy_count=0"].text
    assert "initcall_debug" not in dict(found)


def test_without_initcalls_it_says_how_to_get_them() -> None:
    item = advice("dmesg.log")["initcall_debug"]
    assert item.gain is None


def test_the_timer_of_the_local_apic() -> None:
    name = "a machine with the TSC deadline timer"
    assert name in advice("initcall-debug.log")
    assert name not in advice("4.4-x86.log")  # 61 ms there are something else


def test_nothing_below_the_resolution_is_advised() -> None:
    gains = [item.gain for item in advice("dmesg-T.log").values()]
    assert all(gain is None or gain >= S for gain in gains)


def test_largest_gain_first_and_no_gain_over_the_boot() -> None:
    for path in DATA.glob("*.log"):
        if path.name in ("later.log", "dmesg-no-times.log"):
            continue
        analysis = bootlog.analyze(path.read_text())
        gains = [item.gain or 0 for item in advise(analysis)]
        assert gains == sorted(gains, reverse=True)
        assert all(gain <= analysis.total for gain in gains)


def test_each_rule_looks_at_one_thing() -> None:
    for rule in RULES:
        looks = [rule.phase, rule.took, rule.initcall, rule.line, rule.cause]
        assert sum(bool(look) for look in looks) == 1, rule.name
        assert rule.origin in ("flatboot", "mainline", "machine")


def test_what_a_few_cpus_do_not_have() -> None:
    lines = [
        "[    0.000000] Linux version 5.14.0-503.el9.x86_64 (b@h) (gcc) #1 SMP x",
        "[    0.100000] smp: Bringing up secondary CPUs ...",
        "[    0.200000] smp: Brought up 1 node, 2 CPUs",
        "[    0.900000] devtmpfs: initialized",
        "[    1.000000] Run /init as init process",
    ]
    name = "a kernel without topology_span_sane()"
    assert name not in {item.name for item in advise(bootlog.analyze("\n".join(lines)))}
    many = "\n".join(lines).replace("2 CPUs", "384 CPUs")
    found = {item.name: item.text for item in advise(bootlog.analyze(many))}
    assert found[name].endswith(
        "A distribution's kernel may carry newer code under an older number."
    )
    own = {item.name: item.text for item in advise(bootlog.analyze(many.replace("-503.el9", "")))}
    assert "distribution" not in own[name]
