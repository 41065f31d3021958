"""The lab's C programs: compiled once, by a compiler that Ctrl-C reaches through the lab alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flatboot.common.errors import FlatbootError
from flatboot.guest import cprogram

# A compiler that writes the process group that it runs in, as its version and as its program.
_COMPILER = """#!/bin/sh
read -r _ _ _ _ group _ < /proc/self/stat
echo "$group" >> "$0.groups"
[ "$1" = --version ] && echo 1 && exit
while [ "$1" != -o ]; do shift; done
echo compiled > "$2"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "compiler"
    made.write_text(_COMPILER)
    made.chmod(0o755)
    return made


def test_a_program_is_compiled_once_in_a_group_of_its_own(compiler: Path, tmp_path: Path) -> None:
    source = tmp_path / "source" / "program.c"
    source.parent.mkdir()
    source.write_text("int main(void) { return 0; }\n")
    made = [cprogram.compiled("guest/it", str(compiler), ["-O2"], source) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].read_text() == "compiled\n"
    # Ctrl-C on a terminal goes to all of its group: a compiler that heard it would fail, and that
    # failure would be told instead.
    groups = Path(f"{compiler}.groups").read_text().split()
    assert len(groups) == 3
    assert str(os.getpgrp()) not in groups


def test_a_compiler_that_is_missing_is_named(compiler: Path, tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match="none-cc is not there: install it"):
        cprogram.compiled("guest/it", str(compiler.parent / "none-cc"), [], tmp_path / "it.c")
