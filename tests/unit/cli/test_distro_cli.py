"""`flatboot distro`: what is asked for, and what is refused before anything is made."""

from __future__ import annotations

import pytest

from flatboot.cli import distro_cli
from flatboot.common import host
from flatboot.common.errors import FlatbootError, UsageError


def test_a_guest_that_this_machine_cannot_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 4 << 30)
    with pytest.raises(FlatbootError, match=r"a guest of 1 TiB takes .* GB .* --memory"):
        distro_cli.distro("2G,1T")


@pytest.mark.parametrize("memory", ["", "2G,", "much"])
def test_a_size_that_is_none(memory: str) -> None:
    with pytest.raises(UsageError, match="memory size"):
        distro_cli.distro(memory)
