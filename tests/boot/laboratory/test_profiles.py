"""The boot parameters that are offered for a kind of machine are known, and take."""

from __future__ import annotations

import pytest
from guests import Guests, asked

from flatboot.kernel import parameters

#: Where the kernel says what became of a parameter.
TAKEN = {
    "deferred_init": "/sys/kernel/mm/deferred_init/mode",
    "prezero": "/sys/kernel/mm/prezero/enabled",
    "hugetlb_deferred": "/sys/kernel/mm/hugepages/hugepages-2048kB/unbuilt_hugepages",
    "cpuhp.defer": "/sys/devices/system/cpu/deferred",
}
POOL = "hugepages=64"


@pytest.mark.parametrize("name", parameters.profiles())
def test_a_profile_boots(guests: Guests, name: str) -> None:
    profile = parameters.profile(name)
    given = [parameter.text.partition("=")[::2] for parameter in profile.parameters]
    programs = [f"poke show {key} {TAKEN[key]}" for key, _ in given]
    cmdline = f"{profile.line} {POOL}"
    record = guests(asked("flatboot", "1G", programs, cpus=8, cmdline=cmdline, config="users"))
    assert "Unknown kernel command line parameters" not in record.log
    for key, value in given:
        told = record.files[key].strip()
        if key == "deferred_init":
            assert told == value
        elif key == "prezero":
            assert told == "1"
        elif key == "cpuhp.defer":
            assert f"Brought up 1 node, {value} CPU" in record.log
        else:
            # Those of such a small pool may all be built by now.
            assert 0 < int(told) <= 64 or "all pages of boot are built" in record.log
