"""Sizes and counts as people write and read them."""

from __future__ import annotations

import re

from flatboot.common.errors import UsageError

_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?(us|ms|s|min|h)")
#: What ``span`` reads, to be a part of other patterns.
SPAN = r"(?:\d+(?:\.\d+)? ?(?:us|ms|s|min|h) ?)+"
_SIZE = re.compile(r"(\d+)([KMGT]?)(?:i?B)?", re.IGNORECASE)


def size(text: str | int) -> int:
    """Return the bytes that *text* names: ``2G``, ``1TiB``, ``512M``, or a number of bytes.

    Raises:
        UsageError: it is no size.
    """
    match = _SIZE.fullmatch(str(text).strip())
    if not match:
        raise UsageError(f"{text!r} is not a memory size: write a whole number and K, M, G or T")
    return int(match[1]) * _FACTORS[match[2].upper()]


def short_size(count: int) -> str:
    """Return *count* bytes in the largest unit that needs no fraction, as ``size`` reads it."""
    for unit in ("T", "G", "M", "K"):
        if count and count % _FACTORS[unit] == 0:
            return f"{count // _FACTORS[unit]}{unit}"
    return str(count)


def binary_size(count: float) -> str:
    """Return *count* bytes for people: ``1023.4 GiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _FACTORS[unit[0]]
        if abs(count) >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.2f} {unit}"
    return f"{count:.0f} B"


def decimal_size(count: float) -> str:
    """Return *count* bytes in the decimal units that host memory is quoted in: ``17.4 GB``."""
    return f"{count / 1e9:.2f} GB"


def span(text: str) -> int:
    """Return the nanoseconds that *text* names: ``50ms``, ``1.5s``, ``1min 2.5s``.

    Raises:
        UsageError: it is no time.
    """
    if not re.fullmatch(SPAN, text.strip()):
        raise UsageError(f"{text!r} is not a time: write a number and us, ms or s")
    return round(sum(float(count) * _NS[unit] for count, unit in _TIME.findall(text)))


def many(number: int, what: str) -> str:
    """Return *number* of *what*, as "1 CPU" or "2 CPUs"."""
    return f"{number} {what}{'s' * (number != 1)}"


def count(value: float) -> str:
    """Return a large count for people: ``16.290 G``, ``455.1 M``, ``3.2 k``."""
    for unit, factor, digits in (("G", 1e9, 3), ("M", 1e6, 1), ("k", 1e3, 1)):
        if abs(value) >= factor:
            return f"{value / factor:.{digits}f} {unit}"
    return f"{value:.0f}"


def duration(ns: float) -> str:
    """Return *ns* nanoseconds for people: ``2.002 s``, ``12.3 ms``, ``40 us``."""
    for unit, factor, digits in (("s", 1e9, 3), ("ms", 1e6, 1)):
        if abs(ns) >= factor:
            return f"{ns / factor:.{digits}f} {unit}"
    return f"{ns / 1e3:.0f} us"
