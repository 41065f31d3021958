"""Sizes as people write them."""

from __future__ import annotations

import pytest

from flatboot.common import units
from flatboot.common.errors import UsageError


@pytest.mark.parametrize(
    ("text", "count"),
    [("2G", 2 << 30), ("1T", 1 << 40), ("512M", 512 << 20), ("1TiB", 1 << 40), (4096, 4096)],
)
def test_size(text: str | int, count: int) -> None:
    assert units.size(text) == count


@pytest.mark.parametrize("text", ["", "G", "1.5G", "-1G", "2 giga", "2GG"])
def test_bad_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a memory size"):
        units.size(text)


def test_what_people_read() -> None:
    assert units.short_size(3 << 29) == "1536M"
    assert units.size(units.short_size(5 << 30)) == 5 << 30
    assert units.binary_size(1 << 40) == "1 TiB"
    assert units.binary_size(3 << 29) == "1.50 GiB"
    assert units.decimal_size(17.4e9) == "17.40 GB"
    assert units.count(16_290_000_000) == "16.290 G"
    assert units.count(42) == "42"
