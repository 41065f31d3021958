"""The same three messages in each form that spreads them, or names them otherwise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flatboot.bootlog import bootlog, bootlog_lines

DATA = Path(__file__).parents[2] / "data/bootlog"
MESSAGES = (
    (0, "Linux version 6.1.0 (b@h) (gcc) #1 SMP x"),
    (1_500_000, "smp: Brought up 1 node, 4 CPUs"),
    (2_500_000, "Run /init as init process"),
)
TRANSPORT = {"_TRANSPORT": "kernel", "PRIORITY": "6", "_BOOT_ID": "a" * 32}


def fields(micros: int, text: str) -> dict[str, str]:
    return {**TRANSPORT, "_SOURCE_MONOTONIC_TIMESTAMP": str(micros), "MESSAGE": text}


def export() -> str:
    parts = []
    for micros, text in MESSAGES:
        lines = ["__CURSOR=s=1;i=1", *(f"{k}={v}" for k, v in fields(micros, text).items())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def verbose() -> str:
    parts = []
    for micros, text in MESSAGES:
        head = "Tue 2024-01-02 03:04:05.123456 CET [s=1a2b;i=1;b=3c;m=4d;t=5e;x=6f]"
        parts += [head, *(f"    {k}={v}" for k, v in fields(micros, text).items())]
    return "\n".join(parts)


def json_pretty() -> str:
    return "\n".join(json.dumps(fields(*message), indent=8) for message in MESSAGES)


def json_list() -> str:
    return json.dumps([fields(*message) for message in MESSAGES])


def json_list_by_lines() -> str:
    return "[" + ",\n".join(json.dumps(fields(*message)) for message in MESSAGES) + "]"


def dmesg_json() -> str:
    entries = [{"pri": 6, "time": micros / 1e6, "msg": text} for micros, text in MESSAGES]
    return json.dumps({"dmesg": entries}, indent=3)


def by_time(stamp: str) -> str:
    """Return lines that begin with *stamp*, in which {s} and {us} are seconds and microseconds."""
    return "\n".join(
        stamp.format(s=5 + micros // 1_000_000, us=micros % 1_000_000) + text
        for micros, text in MESSAGES
    )


FORMS = {
    "export": (export, "journalctl -o export or verbose"),
    "verbose": (verbose, "journalctl -o export or verbose"),
    "json-pretty": (json_pretty, "journalctl -o export or verbose"),
    "list": (json_list, "journalctl -o json"),
    "list-by-lines": (json_list_by_lines, "journalctl -o json"),
    "dmesg-json": (dmesg_json, "dmesg --json"),
}
STAMPS = {
    "journalctl -o short-precise": "Jan 02 03:04:{s:02d}.{us:06d} host kernel: ",
    "journalctl -o short-iso-precise": "2024-01-02T03:04:{s:02d}.{us:06d}+0100 host kernel: ",
    "journalctl -o short-unix": "170000000{s}.{us:06d} host kernel: ",
    "journalctl -o short-monotonic": "[    {s}.{us:06d}] host kernel: ",
}


def check(analysis: bootlog.Analysis, form: str, total: int) -> None:
    assert analysis.format == form
    assert (analysis.total, analysis.boots) == (total, 1)
    assert (analysis.facts.version, analysis.facts.cpus) == ("6.1.0", 4)


@pytest.mark.parametrize("name", FORMS)
def test_spread_over_lines(name: str) -> None:
    make, form = FORMS[name]
    check(bootlog.analyze(make()), form, 2_500_000_000)


@pytest.mark.parametrize("form", STAMPS)
def test_by_time(form: str) -> None:
    start = 5_000_000_000 if form.endswith("monotonic") else 0
    check(bootlog.analyze(by_time(STAMPS[form])), form, start + 2_500_000_000)


def test_what_systemd_says_is_kept_of_other_units() -> None:
    """Of a whole journal the kernel's lines count, and systemd's own."""
    said = "Startup finished in 1.5s (kernel) + 3s (userspace) = 4.5s."
    others = [
        {**fields(3_000_000, "hello"), "_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "cron"},
        {
            **fields(4_500_000, said),
            "_TRANSPORT": "journal",
            "SYSLOG_IDENTIFIER": "systemd",
            "_PID": "1",
        },
    ]
    text = "\n".join(json.dumps(item) for item in [*(fields(*m) for m in MESSAGES), *others])
    analysis = bootlog.analyze(text)
    assert [stage.length for stage in analysis.stages] == [1_500_000_000, 3_000_000_000]
    assert analysis.total == 2_500_000_000
    whole = by_time("Jan 02 03:04:{s:02d}.{us:06d} host kernel: ")
    short = bootlog.analyze(f"{whole}\nJan 02 03:04:09.500000 host systemd[1]: {said}")
    assert [stage.name for stage in short.stages] == ["kernel", "userspace"]


def test_the_quick_way_reads_a_line_as_its_pattern_does(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text(errors="replace") for path in sorted(DATA.rglob("*.log"))]
    lines = [line for text in texts for line in text.splitlines()]
    lines += [
        "[    1.000000] c0 1 text",
        "[    1.000000] c0ffee is no CPU",
        "[    1.000000] host kernel: text",
        "[    1.000000] host systemd[1]: text",
        "[    1.000000] kernel: text",
    ]
    quick = list(bootlog_lines.parse(lines))
    monkeypatch.setattr(bootlog_lines, "_MOST", re.compile("(?!)"))
    assert list(bootlog_lines.parse(lines)) == quick
