"""What ACPICA says of tables and methods when it is asked to, against stock."""

from __future__ import annotations

import re

import pytest
from guests import Guests, asked

pytestmark = pytest.mark.groups("acpi")

#: The interpreter's dispatcher, and what it says of methods; events, and the calls of functions.
METHODS = "acpi.debug_layer=0x40 acpi.debug_level=0x4"
CALLS = "acpi.debug_layer=0x4 acpi.debug_level=0x200000"


def _said(guests: Guests, flavour: str, cmdline: str, pattern: str) -> list[str]:
    cmdline = f"{cmdline} ignore_loglevel log_buf_len=4M"
    return re.findall(pattern, guests(asked(flavour, "2G", cmdline=cmdline)).log)


def test_methods_are_examined_before_they_first_run(guests: Guests) -> None:
    """Those that create objects run one at a time. Boot asks the PCI root for _OSC."""
    stock, ours = (
        _said(guests, flavour, METHODS, r"Method serialized \[(\w+)\]")
        for flavour in ("stock", "flatboot")
    )
    assert {"_OSC", "_SRS"} <= set(stock)
    assert ours == ["_OSC"]


def test_functions_are_traced_on_request(guests: Guests) -> None:
    stock, ours = (
        _said(guests, flavour, CALLS, r"(\w+)-\d+ \w+ +: ----(?:Entry|Exit.*)")
        for flavour in ("stock", "flatboot")
    )
    assert ours
    assert ours == stock


def test_the_pm_timer_is_there_when_the_first_process_runs(guests: Guests) -> None:
    """It is verified beside the rest of boot, which waits for that at its end."""
    show = "poke show sources /sys/devices/system/clocksource/clocksource0/available_clocksource"
    stock, ours = (
        guests(asked(flavour, "2G", (show,))).files["sources"].split()
        for flavour in ("stock", "flatboot")
    )
    assert "acpi_pm" in ours
    assert set(ours) == set(stock)
