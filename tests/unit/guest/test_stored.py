"""Boots that repeat are done once, and now and then again."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import boots
import pytest

from flatboot.common import paths
from flatboot.common.errors import FlatbootError
from flatboot.guest import boot, initramfs, qemu, stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel import own_kernel
from flatboot.record.record import Record


class Lab:
    """Passes for QEMU: each boot costs what it is told."""

    def __init__(self, spec: BootSpec) -> None:
        self.spec = spec
        self.cost = 1000
        self.made = 0

    async def measure(self, spec: BootSpec, on_phase: object) -> Record:
        self.made += 1
        return boots.record("stock", "2G", self.cost)

    def cost_of(self, **changed: object) -> int:
        """Return what a boot costs that differs by the fields *changed*."""
        spec = dataclasses.replace(self.spec, **changed)  # type: ignore[arg-type]
        return stored.boot(spec).to_init


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in ("vmlinux", "System.map"):
        (tmp_path / name).write_text(name)
    made = Lab(BootSpec(own_kernel.find(tmp_path), machine()))

    async def able(arch: object) -> qemu.Capabilities:
        return boots.ABLE

    monkeypatch.setattr(qemu, "capabilities", able)
    monkeypatch.setattr(boot, "measure", made.measure)
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    monkeypatch.setattr(initramfs, "make", lambda *what: repr(what).encode())
    monkeypatch.setattr(random, "randrange", lambda end: 1)
    return made


def test_a_boot_that_repeats_is_done_once(lab: Lab) -> None:
    before = dataclasses.replace(stored.tally)
    assert lab.cost_of() == 1000
    lab.cost = 2000
    assert lab.cost_of() == lab.cost_of(timeout_s=1) == 1000
    assert lab.made == 1
    assert (stored.tally.made, stored.tally.taken) == (before.made + 1, before.taken + 2)


def test_a_kernel_that_comes_out_like_another_keeps_its_names(lab: Lab) -> None:
    """What was booted under the names of one is the boot of the other, too."""
    made = stored.boot(lab.spec)
    named = dataclasses.replace(lab.spec.image, flavour="flatboot", config="users")  # type: ignore[type-var]
    again = stored.boot(dataclasses.replace(lab.spec, kernel=named))
    assert lab.made == 1
    assert (again.kernel.flavour, again.kernel.config) == ("flatboot", "users")
    assert dataclasses.replace(again, kernel=made.kernel) == made


@pytest.mark.parametrize(
    "changed",
    [
        {"machine": machine(cpus=2)},
        {"machine": machine(nodes=2, cpus=2)},
        {"cmdline": "quiet"},
        {"programs": ("ready",)},
        {"files": (("bin/x", Path("/bin/true")),)},
        {"arguments": ("-device", "edu")},
        {"phases": True},
        {"functions": "instructions"},
        {"functions": "lines"},
        {"spans": True},
        {"run": 1},
    ],
)
def test_another_boot_is_done(lab: Lab, changed: dict[str, object]) -> None:
    lab.cost_of()
    lab.cost_of(**changed)
    assert lab.made == 2
    lab.cost_of(**changed)
    assert lab.made == 2


def test_another_kernel_and_another_qemu_are_other_boots(lab: Lab) -> None:
    key = lab.spec.key(boots.ABLE)
    assert lab.spec.key(dataclasses.replace(boots.ABLE, version="10.0.0")) != key
    assert lab.spec.key() != key
    (lab.spec.image.directory / "vmlinux").write_text("another")
    assert lab.spec.key(boots.ABLE) != key


def test_the_wall_clock_and_devices_with_files_are_never_taken(lab: Lab) -> None:
    for changed in ({"clock": "wall"}, {"arguments": ("-drive", "file=/tmp/disk")}):
        lab.cost_of(**changed)
        lab.cost_of(**changed)
    assert lab.made == 4


def test_fresh_does_it_anew_and_keeps_that(lab: Lab) -> None:
    lab.cost_of()
    lab.cost = 2000
    assert stored.boot(lab.spec, fresh=True).to_init == 2000
    assert lab.cost_of() == 2000


@pytest.mark.parametrize(
    ("cpus", "before", "after", "agrees"),
    [
        (1, 10**9, 10**9 + 100, True),
        (1, 10**9, 10**9 + 101, False),
        (2, 10**9, 10**9 + 2 * 10**6, True),
        (2, 10**9, 10**9 - 2 * 10**6 - 1, False),
    ],
)
def test_one_that_is_done_again_must_agree(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, cpus: int, before: int, after: int, agrees: bool
) -> None:
    lab.spec = dataclasses.replace(lab.spec, machine=machine(cpus=cpus))
    lab.cost = before
    lab.cost_of()
    monkeypatch.setattr(random, "randrange", lambda end: 0)
    lab.cost = after
    if agrees:
        assert lab.cost_of() == after
    else:
        with pytest.raises(FlatbootError, match="should repeat: find out why"):
            lab.cost_of()
    assert lab.made == 2
