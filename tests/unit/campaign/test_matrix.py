"""The matrix: what a file says, in which order it is booted, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sweeps

from flatboot.campaign import matrix
from flatboot.campaign.matrix import Matrix
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest.machine import Node

WHOLE = """\
memory = ["2G", "16G"]
cpus = [1, 4]
nodes = [1, 2]
clock = "wall"
phases = false
repetitions = 3
timeout = 90.5

[kernels.stock]
flavour = "stock"
[kernels.mine]
tree = "linux"
config = "my.config"
arch = "arm64"
[kernels.built]
kernel = "built"

[cmdline]
plain = ""
lazy = "deferred_init=lazy"

[[exclude]]
kernel = ["stock", "built"]
cmdline = "lazy"
[[exclude]]
cpus = 1
nodes = 2
"""


def parse(data: dict[str, Any], folder: Path = Path()) -> Matrix:
    return matrix.parse(data, "m.toml", folder)


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(WHOLE)
    (tmp_path / "linux").mkdir()
    (tmp_path / "my.config").touch()
    sweeps.kernel(tmp_path, "built")
    found = matrix.load(tmp_path / "m.toml")
    assert (found.clock, found.phases, found.trace, found.timeout_s) == ("wall", False, False, 90.5)
    kernels = {cell.kernel.name: cell.kernel for cell in found.cells}
    assert list(kernels) == ["stock", "mine", "built"]
    assert (kernels["stock"].source, kernels["stock"].config) == ("7.3", "bench")
    assert kernels["mine"].source == str(tmp_path / "linux")
    assert kernels["mine"].config == str(tmp_path / "my.config")
    assert kernels["built"].built == tmp_path / "built"
    # Two sizes, three machines of each (one node for one CPU), one command line and two for mine.
    assert len(found.cells) == 3 * 2 * 3 * (1 + 2 + 1)
    assert not any(
        (cell.cmdline and cell.kernel.name != "mine")
        or (cell.machine.cpus == 1 and cell.machine.nodes)
        for cell in found.cells
    )
    assert {cell.machine.arch for cell in found.cells if cell.kernel.name == "mine"} == {"arm64"}


def test_kernels_take_turns_and_repetitions_are_rounds() -> None:
    found = parse(
        {
            "kernels": {"a": {"flavour": "stock"}, "b": {}},
            "memory": ["2G", "4G"],
            "repetitions": 2,
        }
    )
    assert [cell.title for cell in found.cells] == [
        "a, x86_64, 2 GiB, 1 CPU",
        "b, x86_64, 2 GiB, 1 CPU",
        "a, x86_64, 4 GiB, 1 CPU",
        "b, x86_64, 4 GiB, 1 CPU",
        "a, x86_64, 2 GiB, 1 CPU, run 2",
        "b, x86_64, 2 GiB, 1 CPU, run 2",
        "a, x86_64, 4 GiB, 1 CPU, run 2",
        "b, x86_64, 4 GiB, 1 CPU, run 2",
    ]


def test_what_is_not_said() -> None:
    found = parse({})
    (cell,) = found.cells
    assert (found.clock, found.phases, found.trace, found.timeout_s) == ("exact", True, False, 600)
    assert cell.title == "flatboot, x86_64, 2 GiB, 1 CPU"
    assert (cell.kernel.flavour, cell.kernel.config, cell.cmdline) == ("flatboot", "bench", "")


def test_nodes_of_their_own() -> None:
    (cell,) = parse({"nodes": "2G:2,0:1,6G"}).cells
    assert cell.machine.nodes == (Node(2 << 30, 2), Node(0, 1), Node(6 << 30, 0))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"cpu": 1}, "unknown key 'cpu': there are kernels, cmdline, memory, cpus, nodes"),
        ({"kernels": {"a": {"flavor": "x"}}}, "unknown key 'kernels.a.flavor': there are base"),
        ({"kernels": {}}, "kernels = {}: give it a value"),
        ({"kernels": {"a": "stock"}}, "kernels.a = 'stock': write a table"),
        ({"kernels": {"a": {"base": 7.3}}}, "kernels.a.base = 7.3: write a text in quotes"),
        ({"kernels": {"a": {"base": "7.3", "tree": "."}}}, "has more than one of base, tree"),
        ({"kernels": {"a": {"kernel": ".", "config": "x"}}}, "leave out flavour and config"),
        ({"kernels": {"a": {"tree": "none"}}}, "kernels.a.tree: there is no /.*none"),
        ({"kernels": {"a": {"arch": "vax"}}}, "unknown architecture 'vax'"),
        ({"memory": []}, r"memory = \[\]: give it a value"),
        ({"memory": ["2G", "2048M"]}, "memory has '2G' twice: leave one out"),
        ({"memory": ["2X"]}, "'2X' is not a memory size"),
        ({"memory": [{"size": 2}]}, "is not a memory size"),
        ({"cpus": ["4"]}, "cpus = '4': write a whole number"),
        ({"cpus": [True]}, "cpus = True: write a whole number"),
        ({"nodes": [2, "2"]}, "nodes has '2' twice"),
        ({"nodes": ["2G:x"]}, "'2G:x' is not a node"),
        ({"cmdline": "quiet"}, "cmdline = 'quiet': write a table"),
        ({"cmdline": {"a": "x", "b": "x "}}, "cmdline has 'x' twice"),
        ({"clock": "sun"}, "clock = 'sun': choose 'exact' or 'wall'"),
        ({"phases": 1}, "phases = 1: write true or false"),
        ({"repetitions": 0}, "repetitions = 0: it should be greater than or equal to 1"),
        ({"timeout": "1h"}, "timeout = '1h': write a number"),
        ({"exclude": {"cpus": 1}}, "exclude = {'cpus': 1}: write a list"),
        ({"exclude": [{}]}, "exclude rule 1 names nothing"),
        ({"exclude": [{"cpu": 1}]}, r"unknown key 'exclude\[0\].cpu': there are kernel, cmdline"),
        ({"exclude": [{"cpus": 2}]}, "exclude rule 1 names cpus '2', which is not in the matrix"),
        ({"exclude": [{"memory": "4G"}]}, "exclude rule 1 names memory '4G', which is not"),
        ({"exclude": [{"memory": "2048M"}]}, "all cells are excluded"),
    ],
)
def test_refuses(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^m.toml: .*{sentence}"):
        parse(data)


def test_impossible_cells_are_named() -> None:
    with pytest.raises(UsageError) as failure:
        parse({"memory": ["1M", "2G"], "cpus": [1, 5000], "kernels": {"k": {}}})
    text = str(failure.value)
    assert (
        "the cell kernel k, cmdline plain, nodes 1, cpus 1, memory 1M is impossible: 1M of" in text
    )
    assert text.count("is impossible") == 3
    assert "5000 CPUs cannot be emulated" in text
    with pytest.raises(UsageError, match="; and 2 more; change or exclude"):
        parse({"memory": ["1M", "2M", "3M", "4M", "5M"]})


def test_impossible_cells_can_be_excluded() -> None:
    data = {"memory": ["2G", "16T"], "kernels": {"big": {}, "small": {"arch": "arm64"}}}
    with pytest.raises(UsageError, match=r"kernel small, .*memory 16T is impossible"):
        parse(data)
    found = parse({**data, "exclude": [{"kernel": "small", "memory": "16T"}]})
    assert [cell.title for cell in found.cells] == [
        "big, x86_64, 2 GiB, 1 CPU",
        "small, arm64, 2 GiB, 1 CPU",
        "big, x86_64, 16 TiB, 1 CPU",
    ]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match=r"cannot read .*none\.toml"):
        matrix.load(tmp_path / "none.toml")
    (tmp_path / "m.toml").write_text("memory = [\n2G]")
    with pytest.raises(UsageError, match=r"m.toml is not TOML: .*line 2"):
        matrix.load(tmp_path / "m.toml")
    (tmp_path / "m.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"m.toml is not TOML"):
        matrix.load(tmp_path / "m.toml")
