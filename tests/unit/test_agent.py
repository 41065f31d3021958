"""The agent that adds deferred memory: as its own check has it, installed and gone again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flatboot.common import paths


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """A copy of the agent's folder."""
    return Path(shutil.copytree(paths.repo() / "agent", tmp_path / "agent"))


def make(agent: Path, *words: str) -> str:
    ran = subprocess.run(
        ["make", "-C", agent, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_it_does_what_it_says(agent: Path) -> None:
    assert "deferred-memd does what it says" in make(agent, "check")


def test_flags_of_a_distribution_are_taken(agent: Path) -> None:
    said = make(agent, "CPPFLAGS=-DX", "LDFLAGS=-Wl,-z,relro")
    assert "-DX" in said
    assert "-Wl,-z,relro" in said


def test_nothing_is_left_of_an_installation(agent: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(agent, f"DESTDIR={root}", "install")
    installed = [path for path in root.rglob("*") if path.is_file()]
    assert root / "usr/sbin/deferred-memd" in installed
    assert root / "usr/share/man/man8/deferred-memd.8" in installed
    make(agent, f"DESTDIR={root}", "uninstall")
    assert [path for path in root.rglob("*") if path.is_file()] == []
