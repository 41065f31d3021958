"""The parts of a real distribution's boot, by its counters, and what analyze tells of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flatboot.bootlog import bootlog, bootlog_way
from flatboot.distro import disk, distro_boot
from flatboot.distro.distro_boot import Told
from flatboot.guest.machine import machine

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
#: By which part of the whole a part may be wrong.
NEAR = 0.02


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    disks = disk.make(tmp_path_factory.mktemp("disks"), None, "")
    return distro_boot.boot(disks, machine("x86_64", "2G"), "debian")


def assert_near(told: Told, parts: dict[str, int], unpacking: int = 0) -> None:
    moments = [0, *(told.counters[name] for name in ("INITRAMFS", "DISK", "FINISH"))]
    to_initramfs, initramfs, user_space = (end - begin for begin, end in pairwise(moments))
    near = NEAR * told.counters["FINISH"]
    assert all(length > 0 for length in parts.values())
    assert abs(parts.pop("initrd") - initramfs) <= near
    assert abs(parts.pop("userspace") - user_space) <= near
    assert abs(sum(parts.values()) + unpacking - to_initramfs) <= near


def test_on_the_machine_itself_all_parts_are_told(told: Told) -> None:
    parts = told.parts()
    assert {"firmware", "loader", "unpacking", "kernel"} <= parts.keys()
    assert_near(told, parts)


def test_the_log_and_what_systemd_says_tell_all_but_the_kernel_that_unpacks_itself(
    told: Told,
) -> None:
    analysis = bootlog_way.added(bootlog.analyze(told.log), bootlog_way.of_text(told.said))
    parts = {stage.name: stage.length for stage in analysis.stages}
    unpacking = told.parts()["unpacking"]
    assert told.parts() == {**parts, "unpacking": unpacking}
    assert_near(told, parts, unpacking)


def test_the_guest_comes_up_whole(told: Told) -> None:
    assert told.counters["LOGIN"] > told.counters["DISK"]
    assert told.failed == ()
    assert told.cpus == 1
    assert 1.9 * 2**30 < told.memory_bytes < 2 * 2**30
