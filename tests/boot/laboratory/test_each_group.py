"""Each group of the kernel part with nothing but what it needs: it applies, builds and boots."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from guests import BASE, Guests, asked

from flatboot.common import paths
from flatboot.kernel import groups, layer, sources
from flatboot.kernel.build import KernelName
from flatboot.kernel.groups import Group

GROUPS = pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, id=group.name, marks=pytest.mark.groups(group.name))
        for group in groups.every()
    ],
)


@GROUPS
def test_a_group_applies(group: Group) -> None:
    taken = groups.chosen(BASE, [group.name])
    tree = sources.resolve(BASE).directory()
    layer.of(tree, taken, BASE)


def test_all_mutants_apply(tmp_path: Path) -> None:
    made = layer.of(sources.resolve(BASE).directory(), groups.every(), BASE)
    mutants = sorted((paths.repo() / "tests/mutants").glob("*.patch"))
    assert mutants
    for patch in mutants:
        for name in layer.touched(patch.read_text()):
            file = made.files[name]
            assert file
            file.write(tmp_path / name)
        layer.apply(patch, tmp_path)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("config", ["bench", "debug"])
@GROUPS
def test_a_group_builds_and_boots(guests: Guests, group: Group, config: str) -> None:
    ask = asked("flatboot", "1G", cpus=2, nodes=2, config=config, clock="wall")
    kernel = KernelName("flatboot", config, groups=(group.name,))
    record = guests(dataclasses.replace(ask, kernel=kernel))
    assert record.kernel.flavour == "flatboot"
