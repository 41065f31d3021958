"""What --redact takes out of a log, and what it leaves, so that the log stays of use."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.bootlog import bootlog
from flatboot.bootlog.redact import Redactor

LOGS = Path(__file__).parents[2] / "data/bootlog"


@pytest.mark.parametrize(
    ("line", "secrets"),
    [
        ("Linux version 6.1.0 (joe@build.corp.com) (gcc 12) #1 SMP", ["joe", "corp"]),
        ("[    1.000000] e1000e 0000:00:19.0 eth0: 3c:97:0e:1f:aa:01", ["3c:97:0e:1f:aa:01"]),
        (
            "[    1.000000] IP-Config: Got DHCP answer from 10.1.2.3, my address is 10.1.2.77",
            ["10.1.2"],
        ),
        ("[    1.000000] IPv6: eth0: fe80::3e97:eff:fe1f:aa01 is up", ["3e97"]),
        ("Command line: root=UUID=6c586e13-0a2b-4c3d-9e8f-001122334455 ro", ["6c586e13"]),
        ("Command line: root=UUID=1A2B-3C4D ro", ["1A2B"]),
        ("[    1.000000] usb 1-2: SerialNumber: 4C530001", ["4C530001"]),
        ("androidboot.serialno=R58M123ABC androidboot.mode=normal", ["R58M"]),
        ("[    5.000000] systemd[1]: Hostname set to <db7.corp.example>.", ["db7"]),
        ("Jan  2 03:04:05 db7 kernel: usb 1-1: new device", ["db7"]),
        ("[    5.000000] db7 kernel: usb 1-1: new device", ["db7"]),
        ("2024-01-02T03:04:05+0100 db7 systemd[1]: Started.", ["db7"]),
        ("Loaded X.509 cert 'Corp Secure Boot: 1a2b3c'", ["Corp", "1a2b3c"]),
        ("Command line: wifi.psk=hunter2 api_token=abcdef quiet", ["hunter2", "abcdef"]),
        ("systemd[1]: Started session-1.scope - Session 1 of User joe.", []),
        ("[    5.000000] systemd-logind: New session 4 of user joe.", ["joe"]),
        ("[    5.000000] EXT4-fs (sda1): mounted /home/joe", ["joe"]),
    ],
)
def test_secrets_go(line: str, secrets: list[str]) -> None:
    left = Redactor().line(line)
    assert [secret for secret in secrets if secret in left] == []


@pytest.mark.parametrize(
    "line",
    [
        "[    0.000000] Linux version 5.6.6.1-arch1 #1 SMP",
        "[    1.000000] pci 0000:00:1f.6: [8086:15bc] type 00 class 0x020000",
        "[    1.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable",
        "[    1.000000] 10:20:30 is a time, 127.0.0.1 is everybody's, as is ::1",
        "[    1.000000] e1000e: Intel(R) PRO/1000 Network Driver - 3.2.6-k",
        "[    1.000000] Run /init as init process",
        "[    1.000000] user space is not a user, nor is user mode",
        "[    1.000000] clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x2b3e459bf4c",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert Redactor().line(line) == line


def test_equal_secrets_stay_equal_and_others_do_not() -> None:
    redactor = Redactor()
    lines = ["a 10.0.0.1", "b 10.0.0.2", "c 10.0.0.1", "d 192.0.2.1"]
    assert list(redactor.lines(lines)) == [
        "a 192.0.2.1",
        "b 192.0.2.2",
        "c 192.0.2.1",
        "d 192.0.2.1",
    ]
    assert redactor.counts == {"IPv4 address": 2}
    again = Redactor()
    assert next(iter(again.lines(redactor.lines(lines)))) == "a 192.0.2.1"


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.name)
def test_a_redacted_log_tells_the_same(path: Path) -> None:
    text = path.read_text(errors="replace")
    if path.name == "later.log":
        return
    left = "\n".join(Redactor().lines(text.splitlines()))
    whole, redacted = bootlog.analyze(text), bootlog.analyze(left)
    assert redacted.phases == whole.phases
    # What a serial console printed is counted in characters.
    for left_cause, cause in zip(redacted.causes, whole.causes, strict=True):
        assert left_cause.length == pytest.approx(cause.length, rel=0.02)
    assert redacted.facts.version == whole.facts.version
