"""A plugin of pytest: what all processes of a test run did, and how long each test took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flatboot.guest import stored
from flatboot.kernel import build

_seconds: dict[str, float] = {}
_others: list[dict[str, int]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file for the outcome."""
    parser.addoption("--tally", metavar="FILE", help="Write what was done as JSON.")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test takes, its fixtures included."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what a process of tests did; one that died tells nothing."""
    _others.append(getattr(node, "workeroutput", {}).get("flatboot", {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what this process did to the first one, which writes what all of them did."""
    mine = {
        "made": stored.tally.made,
        "taken": stored.tally.taken,
        "built": build.tally.built,
    }
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["flatboot"] = mine
        return
    if file := session.config.getoption("--tally"):
        everyone = [mine, *_others]
        done = {name: sum(one.get(name, 0) for one in everyone) for name in mine}
        Path(file).write_text(json.dumps({**done, "seconds": _seconds}))
