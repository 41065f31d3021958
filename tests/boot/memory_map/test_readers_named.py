"""Everybody who asks by a pfn or an address whether there is a struct page has been looked at."""

from __future__ import annotations

from collections import Counter

import pytest

from flatboot.kernel import bases, callers, groups, layer, sources

pytestmark = pytest.mark.groups("memory-map")


def test_every_caller_has_a_row() -> None:
    source = sources.resolve(bases.default())
    every = groups.chosen(source.base())
    (group,) = (group for group in every if group.name == "memory-map")
    known = callers.known(group)
    made = layer.of(source.directory(), every, source.base())
    found = callers.find(source.directory(), made, known)
    there = {f"{file} {name}" for file, names in found.items() for name in names}
    listed = Counter(
        f"{file} {name}"
        for kind in known.kinds.values()
        for file, names in kind.callers.items()
        for name in names
    )
    assert sorted(there - listed.keys()) == []
    assert sorted(listed.keys() - there) == []
    assert [name for name, count in listed.items() if count > 1] == []
