"""Each group of the kernel part with nothing but what it needs: it applies, builds and boots."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from guests import BASE, Guests, asked

from flatboot.kernel import bases, callers, groups, layer, sources
from flatboot.kernel.build import KernelName
from flatboot.kernel.groups import Group


def of_each(those: list[Group]) -> pytest.MarkDecorator:
    """Return a mark with which a test is done for each group of *those*."""
    marked = [
        pytest.param(group, id=group.name, marks=pytest.mark.groups(group.name)) for group in those
    ]
    return pytest.mark.parametrize("group", marked)


GROUPS = of_each(list(groups.chosen(BASE)))
WITH_CALLERS = of_each(
    [group for group in groups.every() if (group.folder / "callers.toml").is_file()]
)


@GROUPS
def test_a_group_applies(group: Group) -> None:
    taken = groups.chosen(BASE, [group.name])
    tree = sources.resolve(BASE).directory()
    layer.of(tree, taken, BASE)


@WITH_CALLERS
def test_every_caller_has_a_row(group: Group) -> None:
    """Each has been looked at: by pfn or address, who asks for a struct page; who asks for CPUs."""
    source = sources.resolve(BASE)
    known = callers.known(group)
    made = layer.of(source.directory(), groups.chosen(BASE), BASE)
    found = callers.find(source.directory(), made, known)
    there = {f"{file} {name}" for file, names in found.items() for name in names}
    shared, own = (
        Counter(f"{file} {name}" for kind in kinds for file in kind for name in kind[file])
        for kinds in (
            [kind.callers for kind in known.kinds.values()],
            callers.only(group, BASE).values(),
        )
    )
    assert callers.only(group, BASE).keys() <= known.kinds.keys()
    listed = shared + own
    assert sorted(there - listed.keys()) == []
    # Another base may lack callers that the default base has.
    assert sorted((listed if bases.default() == BASE else own).keys() - there) == []
    assert [name for name, count in listed.items() if count > 1] == []


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
