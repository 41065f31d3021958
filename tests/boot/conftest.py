"""The boots that tests ask for; equal ones are done once a session."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from guests import Guests

from flatboot.kernel.build import KernelImage, KernelName

_TABLE = tomllib.loads((Path(__file__).parent / "kernels.toml").read_text())["kernel"]
_SHORT = {(entry["flavour"], entry["config"], entry.get("arch", "x86_64")) for entry in _TABLE}


@pytest.fixture(scope="session")
def guests() -> Guests:
    return Guests()


@pytest.fixture(autouse=True)
def kernels_of_short_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no long test boots the kernels of the table only, which are built beforehand."""
    if request.node.get_closest_marker("long") is not None:
        return
    image = KernelName.image

    def known(name: KernelName) -> KernelImage:
        kernel = (name.flavour, name.config, name.arch)
        assert kernel in _SHORT and not name.groups, (
            f"{kernel} is not in kernels.toml: take another, or mark it long"
        )
        return image(name)

    monkeypatch.setattr(KernelName, "image", known)
