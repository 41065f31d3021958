"""The check of scheduler levels says what that of the base says, with less work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from guests import BASE

from flatboot.kernel import groups, layer, sources

pytestmark = pytest.mark.groups("published-fixes")
FILE = "kernel/sched/topology.c"


def function(text: str, name: str) -> str:
    """Return the source of the check in *text*, under another *name*."""
    found = re.search(r"^static bool topology_span_sane\(.*?^}$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found.group().removeprefix("static ").replace("topology_span_sane", name, 1)


def test_the_check_says_what_that_of_the_base_says(tmp_path: Path) -> None:
    """A million levels, each with a random set of CPUs that domains are built for."""
    tree = sources.resolve(BASE).directory()
    ours = layer.of(tree, groups.chosen(BASE, ["published-fixes"]), BASE).files[FILE]
    assert ours
    stock = function((tree / FILE).read_text(), "stock_sane")
    both = f"{stock}\n\n{function(ours.content.decode(), 'our_sane')}\n"
    (tmp_path / "both.c").write_text(f'#include "span_sane.h"\n\n{both}')
    program, here = tmp_path / "span_sane", Path(__file__).parent
    files = [here / "span_sane.c", tmp_path / "both.c"]
    subprocess.run(["gcc", "-O2", "-Wall", f"-I{here}", *files, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    insane, sane = map(int, done.stdout.split())
    assert min(insane, sane) > 100_000
