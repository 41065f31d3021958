"""The wheel where nothing else is: what needs no kernel works, the rest says what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests/data/bootlog"
#: As of a user who has only the wheel.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def flatboot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The command, of a wheel in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, source], check=True, env=ENVIRONMENT)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, env=ENVIRONMENT)
    wheel = next(folder.glob("*.whl"))
    subprocess.run(
        [folder / "venv/bin/python", "-m", "pip", "-q", "install", wheel],
        check=True,
        env=ENVIRONMENT,
    )
    yield folder / "venv/bin/flatboot"


@pytest.mark.long
def test_a_log_is_analysed(flatboot: Path, tmp_path: Path) -> None:
    command = [str(flatboot), "analyze", str(LOGS / "public/dhcp.log"), "--json"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=ENVIRONMENT)
    assert json.loads(done.stdout)["causes"][0]["name"] == "network"
    logs = [LOGS / "published-5.7.log", LOGS / "published-5.8.log"]
    done = subprocess.run(
        [flatboot, "analyze", *logs], cwd=tmp_path, check=True, capture_output=True, env=ENVIRONMENT
    )
    assert done.stdout.startswith(b"1.863 s longer")


@pytest.mark.long
def test_a_large_machine_is_projected(flatboot: Path, tmp_path: Path) -> None:
    command = [str(flatboot), "project", str(ROOT / "bench/results/cpu_bring_up.json")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=ENVIRONMENT)


@pytest.mark.long
@pytest.mark.parametrize("command", ["boot", "project", "lint"])
def test_what_needs_the_checkout_says_so(flatboot: Path, tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [flatboot, command], cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 1
    assert "this needs flatboot's checkout" in done.stderr
    assert "Traceback" not in done.stderr
