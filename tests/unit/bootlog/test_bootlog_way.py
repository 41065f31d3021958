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


PLOT = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<svg width="1651px" height="2610px" version="1.1" xmlns="http://www.w3.org/2000/svg">
<rect class="background" width="100%" height="100%" />
<text x="20" y="50">Startup finished in 4.129s (kernel) + 11.491s (userspace) = 15.620s</text>\
<text x="20" y="30">Debian GNU/Linux 13 (trixie) host (Linux 6.12.1) x86-64</text>\
<g transform="translate(20.000,100)">
  <rect class="kernel" x="0.000" y="0.000" width="412.868" height="19.000" />
  <text class="left" x="5.000" y="14.000">kernel</text>
  <rect class="active" x="412.868" y="20.000" width="1149.081" height="19.000" />
  <rect class="security" x="414.875" y="20.000" width="1.470" height="19.000" />
  <rect class="generators" x="425.598" y="20.000" width="17.255" height="19.000" />
  <text class="left" x="417.868" y="34.000">systemd</text>
  <rect class="activating" x="480.000" y="40.000" width="22.000" height="19.000" />
  <rect class="active" x="502.000" y="40.000" width="900.000" height="19.000" />
  <text class="left" x="485.000" y="54.000">systemd-udev-trigger.service (220ms)</text>
  <text class="left" x="500.000" y="54.000">-.mount</text>
  <text class="right" x="912.868" y="74.000">dev-disk-by\\x2da&amp;b.device (1min 30.5s)</text>
</g></svg>
"""


def test_what_systemd_analyze_draws() -> None:
    way = bootlog_way.of_text(PLOT)
    assert way.stages == [Stage("kernel", 4129 * MS), Stage("userspace", 11_491 * MS)]
    assert way.slowest == [
        Unit("dev-disk-by\\x2da&b.device", 90_500 * MS, 5000 * MS),
        Unit("systemd-udev-trigger.service", 220 * MS, 721_320_000),
    ]


def test_what_systemd_analyze_plots_as_json() -> None:
    text = """[{"name":"a.service","activated":9,"activating":2,"time":7000,"deactivated":0},
    {"name":"b.mount","time":null},{"name":"c.socket","time":0},{"name":"d.device","time":90000}]"""
    assert bootlog_way.of_text(text) == bootlog_way.WholeWay(
        slowest=[Unit("d.device", 90 * MS), Unit("a.service", 7 * MS)]
    )
    for other in ("[]", "[1]", '{"a": 1}', "[{"):
        assert bootlog_way.of_text(other) == bootlog_way.WholeWay()


def test_what_systemd_analyze_dumps() -> None:
    text = """Manager: systemd 257 (257.9-1)
Timestamp kernel: Thu 2026-03-05 10:00:00 CET
Timestamp userspace: Thu 2026-03-05 10:00:04 CET
Timestamp finish: Thu 2026-03-05 10:00:19 CET
-> Unit a.service:
\tDescription: A
\tState Change Timestamp: Thu 2026-03-05 10:00:15 CET
\tInactive Exit Timestamp: Thu 2026-03-05 10:00:05 CET
\tActive Enter Timestamp: Thu 2026-03-05 10:00:15 CET
\tActive Exit Timestamp: n/a
-> Unit b.service:
\tInactive Exit Timestamp: n/a
\tActive Enter Timestamp: n/a
-> Unit c.service:
\tInactive Exit Timestamp: Thu 2026-03-05 10:00:05 CET
\tActive Enter Timestamp: Thu 2026-03-05 10:00:05 CET
"""
    assert bootlog_way.of_text(text) == bootlog_way.WholeWay(
        stages=[Stage("kernel", 4 * S), Stage("userspace", 15 * S)],
        slowest=[Unit("a.service", 10 * S)],
    )


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
