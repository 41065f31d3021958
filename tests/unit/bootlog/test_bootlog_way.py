"""Firmware and loader before the kernel, and user space behind it."""

from __future__ import annotations

from pathlib import Path

from flatboot.bootlog import bootlog, bootlog_way
from flatboot.bootlog.bootlog_facts import Stage
from flatboot.bootlog.bootlog_way import Unit

DATA = Path(__file__).parents[2] / "data/bootlog"
S, MS = 1_000_000_000, 1_000_000
SAID = (DATA / "systemd-analyze.txt").read_text()


def test_what_systemd_analyze_says() -> None:
    way = bootlog_way.of_text(SAID)
    assert way.stages == [
        Stage("firmware", 5123 * MS),
        Stage("loader", 2001 * MS),
        Stage("kernel", 1502 * MS),
        Stage("initrd", 3200 * MS),
        Stage("userspace", 62500 * MS),
    ]
    assert way.slowest[:2] == [
        Unit("apt-daily.service", 90_005 * MS),
        Unit("NetworkManager-wait-online.service", 8100 * MS),
    ]
    assert [unit.name for unit in way.chain] == [
        "graphical.target",
        "multi-user.target",
        "docker.service",
        "network-online.target",
        "NetworkManager-wait-online.service",
    ]
    assert way.chain[2] == Unit("docker.service", 53_100 * MS, 9200 * MS)
    assert bootlog_way.of_text("no such thing") == bootlog_way.WholeWay()


def test_firmware_s_own_record(tmp_path: Path) -> None:
    fpdt, variables = tmp_path / "boot", tmp_path / "efivars"
    fpdt.mkdir()
    variables.mkdir()
    assert bootlog_way._before_kernel(fpdt, variables) == []
    for name, micros in (("LoaderTimeInitUSec", 4_000_000), ("LoaderTimeExecUSec", 6_500_000)):
        path = variables / f"{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
        path.write_bytes(b"\x06\0\0\0" + f"{micros}\0".encode("utf-16-le"))
    assert bootlog_way._before_kernel(fpdt, variables) == [
        Stage("firmware", 4 * S),
        Stage("loader", 2500 * MS),
    ]
    (fpdt / "bootloader_launch_ns").write_text("3000000000\n")
    (fpdt / "exitbootservice_end_ns").write_text("5000000000\n")
    assert bootlog_way._before_kernel(fpdt, variables) == [
        Stage("firmware", 3 * S),
        Stage("loader", 2 * S),
    ]


def test_the_log_s_own_line_counts_first() -> None:
    own = bootlog.analyze((DATA / "public/initrd.log").read_text())
    both = bootlog_way.added(own, bootlog_way.of_text(SAID))
    assert [stage.name for stage in both.stages] == [
        "firmware",
        "loader",
        "kernel",
        "initrd",
        "userspace",
    ]
    assert both.stages[2:] == own.stages
    assert both.stages[0] == Stage("firmware", 5123 * MS)


def test_without_anything_nothing_is_added() -> None:
    own = bootlog.analyze((DATA / "dmesg.log").read_text())
    assert bootlog_way.added(own, bootlog_way.WholeWay()) == own


def test_other_service_managers_say_when_they_are_done() -> None:
    log = (DATA / "public/mips.log").read_text()
    assert bootlog.analyze(log).stages == []
    done = f"{log}[   41.100000] procd: - init complete -\n"
    assert bootlog.analyze(done).stages == [Stage("kernel", 3100 * MS), Stage("userspace", 38 * S)]
