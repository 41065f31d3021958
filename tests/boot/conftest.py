"""The boots that tests ask for; equal ones are done once a session."""

from __future__ import annotations

import tomllib
from pathlib import Path

import guests as boots
import pytest
from guests import Guests

from flatboot.kernel import bases, groups
from flatboot.kernel.build import KernelImage, KernelName

_TABLE = tomllib.loads((Path(__file__).parent / "kernels.toml").read_text())["kernel"]
_SHORT = {(entry["flavour"], entry["config"], entry.get("arch", "x86_64")) for entry in _TABLE}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --base and --group."""
    parser.addoption("--base", help="only tests of groups that this base has, and on its kernels")
    parser.addoption("--group", help="only tests of this group, and on kernels that have no other")


def pytest_configure(config: pytest.Config) -> None:
    """Take the kernels of --base, and leave them the group of --group and what it needs.

    Before any test is read.
    """
    if base := config.getoption("base"):
        boots.BASE = base
    if group := config.getoption("group"):
        boots.take(group)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop tests of groups that the base lacks, and what is no test of the group of --group."""
    group = config.getoption("group")
    there = {taken.name for taken in groups.chosen(boots.BASE, [group] if group else [])}
    needs = {item: _needs(item) for item in items}
    kept = [item for item in items if needs[item] <= there]
    if group:
        kept = [item for item in kept if group in needs[item]]
    elif bases.default() != boots.BASE:
        kept = [
            item for item in kept if needs[item] and not item.get_closest_marker("default_base")
        ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _needs(item: pytest.Item) -> set[str]:
    mark = item.get_closest_marker("groups")
    return set(mark.args) if mark else set()


@pytest.fixture(scope="session")
def guests() -> Guests:
    return Guests()


@pytest.fixture(autouse=True)
def kernels_of_short_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no long test boots the kernels of the table only, which are built beforehand."""
    long = request.node.get_closest_marker("long") is not None
    if long or request.config.getoption("group") or bases.default() != boots.BASE:
        return
    image = KernelName.image

    def known(name: KernelName) -> KernelImage:
        kernel = (name.flavour, name.config, name.arch)
        assert kernel in _SHORT and not name.groups, (
            f"{kernel} is not in kernels.toml: take another, or mark it long"
        )
        return image(name)

    monkeypatch.setattr(KernelName, "image", known)
