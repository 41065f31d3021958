"""Each cause on a boot that waited for it, and on one that looks alike and did not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from flatboot.bootlog import bootlog, bootlog_advice
from flatboot.bootlog.bootlog_causes import RULES, SERIAL

TABLE = Path(__file__).parents[2] / "data/bootlog/causes.toml"
LOGS: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["log"]
MS = 1_000_000


def text_of(log: dict[str, Any]) -> str:
    """Return the whole log: what every boot says, and the lines of this one where they belong."""
    early, kernel, user = (log.get(part, "").strip("\n").split("\n") for part in PARTS)
    end = next((line for line in reversed([*early, *kernel]) if line), "[    4.000000]")
    seconds = max(float(end[1:].split("]")[0]) + 0.1, 5.0)
    lines = [
        "[    0.000000] Linux version 6.1.0 (build@host) (gcc 12) #1 SMP PREEMPT_DYNAMIC x",
        f"[    0.000000] Command line: root=/dev/sda2 {log.get('cmdline', '')}",
        *early,
        *(["[    0.500000] smp: Brought up 1 node, 4 CPUs"] if not log.get("early") else []),
        *(["[    0.600000] devtmpfs: initialized"] if not log.get("early") else []),
        *kernel,
        f"[{seconds:12.6f}] Run /init as init process",
        *user,
    ]
    return "\n".join(line for line in lines if line)


PARTS = ("early", "kernel", "user")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log['cause']}-{log['waits_ms']}")
def test_cause(log: dict[str, Any]) -> None:
    analysis = bootlog.analyze(text_of(log))
    lengths = {cause.name: round(cause.length / MS) for cause in analysis.causes if cause.name}
    assert lengths.get(log["cause"], 0) == pytest.approx(log["waits_ms"], abs=1)
    if log["waits_ms"] >= 1000:
        assert analysis.causes[0].name == log["cause"]
    bootlog_advice.advise(analysis)


def test_each_cause_has_logs_of_both_kinds() -> None:
    names = [rule.name for rule in RULES] + [SERIAL]
    assert len(names) == len(set(names))
    for name in names:
        kinds = {log["waits_ms"] > 0 for log in LOGS if log["cause"] == name}
        assert kinds == {True, False}, name


def test_each_cause_says_how_sure_it_is_and_what_to_do() -> None:
    advised = {rule.cause for rule in bootlog_advice.RULES}
    for rule in RULES:
        assert (rule.sure == "likely") == bool(rule.like), rule.name
        assert rule.name in advised, rule.name
