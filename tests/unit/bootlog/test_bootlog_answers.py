"""Logs of other people's machines: what analyze says of each, and what it says first."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flatboot.bootlog import bootlog_advice, bootlog_input
from flatboot.common.errors import FlatbootError
from flatboot.show import bootlog_tables

LOGS = Path(__file__).parents[2] / "data/bootlog/public"
ANSWERS: dict[str, dict[str, Any]] = tomllib.loads((LOGS / "answers.toml").read_text())
MS = 1_000_000
HEAD_LINES = 4


@pytest.mark.parametrize("name", ANSWERS)
def test_the_right_answer(name: str) -> None:
    wanted = dict(ANSWERS[name])
    if words := wanted.pop("refused", None):
        with pytest.raises(FlatbootError) as caught:
            bootlog_input.analyze(str(LOGS / name))
        assert all(word in str(caught.value) for word in words)
        return
    analysis = bootlog_input.analyze(str(LOGS / name))
    console = Console(width=80, file=io.StringIO(), record=True)
    for part in bootlog_tables.report(analysis, bootlog_advice.advise(analysis)):
        console.print(part)
    said = console.export_text()
    head = " ".join(" ".join(said.splitlines()[:HEAD_LINES]).split())
    assert [word for word in wanted.pop("head", []) if word not in head] == []
    assert [word for word in wanted.pop("not_said", []) if word in said] == []
    assert wanted.pop("clock_fault", "") in analysis.clock_fault
    cause = analysis.causes[0] if analysis.causes else None
    found = {
        "cause": cause.name if cause else "",
        "cause_ms": round(cause.length / MS) if cause else 0,
        "total_ms": round(analysis.total / MS),
        "gaps": len(analysis.gaps),
        "format": analysis.format,
        "boot": analysis.boot,
        "boots": analysis.boots,
        "version": analysis.facts.version,
        "arch": analysis.facts.arch,
        "hypervisor": analysis.facts.hypervisor,
        "cpus": analysis.facts.cpus,
    }
    assert {key: found[key] for key in wanted} == wanted


def test_each_log_has_an_answer() -> None:
    assert sorted(ANSWERS) == sorted(path.name for path in LOGS.glob("*.log"))
