"""Firmware and loader before the kernel, and user space behind it."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flatboot.bootlog import bootlog, bootlog_way, kernel_clock
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


LOG = """[    0.000000] Linux version 6.12.1 (a@b) #1 SMP
[    0.000000] Command line: root=/dev/vda{words}
[    0.010000] Memory: 1000K/2048K available
[    2.000000] Run {ran} as init process
[    5.100000] systemd[1]: systemd 257 running in system mode
"""


def stages(words: str, ran: str, said: str) -> dict[str, int]:
    log = bootlog.analyze(LOG.format(words=words, ran=ran))
    told = bootlog_way.of_text(f"Startup finished in {said}")
    return {stage.name: stage.length for stage in bootlog_way.added(log, told).stages}


def test_an_initramfs_without_systemd_is_no_part_of_the_kernel() -> None:
    said = "5s (kernel) + 9s (userspace) = 14s"
    apart = {"kernel": 2 * S, "initrd": 3 * S, "userspace": 9 * S}
    assert stages("", "/init", said) == apart
    assert stages(" rdinit=/first", "/first", said) == apart
    log = (
        LOG.format(words="", ran="/init")
        + f"[   14.000000] systemd[1]: Startup finished in {said}.\n"
    )
    assert {stage.name: stage.length for stage in bootlog.analyze(log).stages} == apart


@pytest.mark.parametrize(
    ("words", "ran", "said"),
    [
        ("", "/sbin/init", "5s (kernel) + 9s (userspace) = 14s"),
        (" rdinit=/first", "/init", "5s (kernel) + 9s (userspace) = 14s"),
        ("", "/init", "2.080s (kernel) + 9s (userspace) = 11.080s"),
    ],
    ids=["no initramfs", "not that of the initramfs", "systemd is in the initramfs"],
)
def test_what_systemd_counts_as_the_kernel_stays_so(words: str, ran: str, said: str) -> None:
    assert "initrd" not in stages(words, ran, said)


def test_an_initramfs_with_systemd_tells_of_itself() -> None:
    said = "5s (kernel) + 3s (initrd) + 9s (userspace) = 17s"
    assert stages("", "/init", said) == {"kernel": 5 * S, "initrd": 3 * S, "userspace": 9 * S}


BEFORE = "3s (firmware) + 1s (loader) + "


@pytest.mark.parametrize(
    ("told", "counted", "first"),
    [
        ("", 7 * S, {"before": 7 * S}),
        ("", 7200 * S, {}),
        (
            BEFORE,
            7 * S,
            {"firmware": 3 * S, "loader": S, "unpacking": 3 * S},
        ),
        (BEFORE, 3 * S, {"firmware": 3 * S, "loader": S}),
        (BEFORE, 99 * S, {"firmware": 3 * S, "loader": S}),
    ],
    ids=["alone", "hours", "with firmware", "too little", "too much"],
)
def test_what_the_counter_tells_of_the_time_before(
    told: str, counted: int, first: dict[str, int]
) -> None:
    log = bootlog.analyze(LOG.format(words="", ran="/sbin/init"))
    way = bootlog_way.of_text(f"Startup finished in {told}2s (kernel) + 9s (userspace) = 0s")
    found = bootlog_way.added(log, replace(way, counted=counted)).stages
    assert {stage.name: stage.length for stage in found[:-2]} == first


def test_what_perf_says_of_the_kernel_s_clock(tmp_path: Path) -> None:
    page = bytearray(4096)
    page[64:72] = struct.pack("=q", -7 * S)
    assert kernel_clock.time_zero(bytes(page)) == 0
    page[40] = 1 << 4
    assert kernel_clock.time_zero(bytes(page)) == -7 * S
    (tmp_path / "bootloader_type").write_text("208\n")
    assert kernel_clock.from_reset(tmp_path / "bootloader_type") == 0


def test_who_started_the_kernel(tmp_path: Path) -> None:
    """QEMU is 0xb in the boot protocol of x86, kexec 0xd, and the version follows."""
    loader, chosen = tmp_path / "bootloader_type", tmp_path / "linux,booted-from-kexec"
    assert not kernel_clock.by_kexec(loader, chosen)
    for said, kexec in (("176\n", False), ("13\n", False), ("208\n", True), ("209\n", True)):
        loader.write_text(said)
        assert kernel_clock.by_kexec(loader, chosen) == kexec
    loader.unlink()
    chosen.touch()
    assert kernel_clock.by_kexec(loader, chosen)


def test_parts_of_a_boot_of_debian_are_within_two_per_cent() -> None:
    """As test_distro.py boots it; no log tells how a kernel unpacks itself."""
    folder = DATA / "debian-13"
    counters = json.loads((folder / "counters.json").read_text())
    log = bootlog.analyze((folder / "dmesg.log").read_text())
    way = bootlog_way.of_text((folder / "systemd-analyze.txt").read_text())
    found = {stage.name: stage.length for stage in bootlog_way.added(log, way).stages}
    before = sum(found[name] for name in ("firmware", "loader", "kernel"))
    near = 0.02 * counters["FINISH"]
    assert abs(before + counters["unpacking"] - counters["INITRAMFS"]) <= near
    assert abs(found["initrd"] - (counters["DISK"] - counters["INITRAMFS"])) <= near
    assert abs(found["userspace"] - (counters["FINISH"] - counters["DISK"])) <= near
