"""The launcher: what it installs, and when it does not."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from fakes import write

from flatboot.common import paths

TOOLS = ("bash", "cat", "dirname", "flock", "grep", "readlink", "sha256sum", "uname")


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The launcher beside a .venv that is current, on a machine with hardly a program."""
    root = tmp_path / "checkout"
    given = {
        name: (paths.repo() / name).read_text() for name in ("requirements.lock", "pyproject.toml")
    }
    made_from = hashlib.sha256("".join(given.values()).encode()).hexdigest()
    write(
        root,
        {
            **given,
            ".venv/bin/python": "",
            ".venv/bin/flatboot": '#!/bin/bash\necho "asked for $*"\n',
            ".venv/made-from": f"{root}\n{made_from}  -\n",
            "bin/apt-get": '#!/bin/bash\necho "apt-get $*" >&2\n',
            "bin/sudo": '#!/bin/bash\nexec "$@"\n',
        },
    )
    for program in (".venv/bin/python", ".venv/bin/flatboot", "bin/apt-get", "bin/sudo"):
        (root / program).chmod(0o755)
    for tool in (*TOOLS, "env"):
        found = shutil.which(tool)
        assert found is not None
        (root / "bin" / tool).symlink_to(found)
    shutil.copy(paths.repo() / "flatboot", root / "flatboot")
    return root / "flatboot"


def run(launcher: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, *arguments],
        env={"PATH": str(launcher.parent / "bin")},
        capture_output=True,
        text=True,
        check=True,
    )


def test_what_is_missing_is_told_of(launcher: Path) -> None:
    ran = run(launcher, "kernel", "check")
    assert ran.stdout == "asked for kernel check\n"
    assert "missing: make (runs the kernel build)" in ran.stderr
    assert "missing: clang-19 (the second compiler of kernel check)" in ran.stderr
    assert "clang-19" not in run(launcher, "kernel", "build").stderr


def test_help_installs_nothing(launcher: Path) -> None:
    ran = run(launcher, "kernel", "check", "--help")
    assert ran.stdout == "asked for kernel check --help\n"
    assert ran.stderr == ""
