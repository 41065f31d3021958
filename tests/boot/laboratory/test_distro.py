"""The parts of a real distribution's boot, by its counters, and what analyze tells of them."""

from __future__ import annotations

import mmap
import re
from itertools import pairwise
from pathlib import Path

import pytest
from terminal_session import PROGRAM, Session

from flatboot.bootlog import bootlog, bootlog_way
from flatboot.common import processes
from flatboot.common.errors import FlatbootError
from flatboot.distro import disk, distro_boot
from flatboot.distro.disk import System
from flatboot.distro.distro_boot import Hardware, Told
from flatboot.distro.installing import Disk
from flatboot.guest.machine import machine
from flatboot.kernel import parameters

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
#: By which part of the whole a part may be wrong.
NEAR = 0.02
#: How long a boot may take, in seconds.
LIMIT_S = 1800


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    made = disk.make(tmp_path_factory.mktemp("disk"), System())
    return distro_boot.boot(made, Hardware(machine("x86_64", "2G")), "debian", LIMIT_S)


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


def assert_whole(told: Told) -> None:
    assert told.counters["LOGIN"] > told.counters["DISK"]
    assert told.failed == ()
    assert "unpacking failed" not in told.log
    assert told.cpus == 1
    # Firmware keeps some for itself, that of Secure Boot more than others.
    left = re.search(r"Memory: \d+K/(\d+)K available", told.log)
    assert left is not None
    assert 0.955 < told.memory_bytes / 1024 / int(left[1]) < 1


def test_the_guest_comes_up_whole(told: Told) -> None:
    assert_whole(told)


@pytest.fixture(scope="module")
def with_grub(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return disk.make(tmp_path_factory.mktemp("disk"), System(profile="vm", loader="grub"))


@pytest.mark.parametrize(("firmware", "disk"), [("uefi", "virtio"), ("bios", "nvme")])
def test_grub_starts_it_with_the_parameters_of_a_package(
    with_grub: Disk, firmware: str, disk: str
) -> None:
    hardware = Hardware(machine("x86_64", "2G"), firmware, disk)
    told = distro_boot.boot(with_grub, hardware, "debian", LIMIT_S)
    assert_whole(told)
    assert parameters.profile("vm").line in told.log
    assert ("efi: EFI v" in told.log) == (firmware == "uefi")
    assert told.parts().keys() == {"before", "kernel", "initrd", "userspace"}
    assert_near(told, told.parts())


def test_a_microvm_boots_without_a_loader(tmp_path: Path) -> None:
    made = disk.make(tmp_path, System(profile="vm", loader="none", firmware="microvm"))
    hardware = Hardware(machine("x86_64", "2G"), "microvm", "mmio")
    told = distro_boot.boot(made, hardware, "debian", LIMIT_S)
    assert_whole(told)
    assert parameters.profile("vm").line in told.log
    parts, near = told.parts(), NEAR * told.counters["FINISH"]
    assert parts.keys() == {"before", "kernel", "initrd", "userspace"}
    # What systemd does until it looks at its clock is no small part of a boot without firmware.
    assert abs(parts["before"] + parts["kernel"] - told.counters["INITRAMFS"]) <= near
    assert abs(sum(parts.values()) - told.counters["FINISH"]) <= near


def test_dracut_makes_its_initramfs(tmp_path: Path) -> None:
    made = disk.make(tmp_path, System(initramfs="dracut"))
    told = distro_boot.boot(made, Hardware(machine("x86_64", "2G")), "debian", LIMIT_S)
    assert_whole(told)
    assert "Running in initrd" in told.log
    assert_near(told, told.parts())


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    system = System(profile="vm", loader="uki", firmware="secure-boot")
    return disk.make(tmp_path_factory.mktemp("disk"), system)


def test_what_is_signed_is_started_by_firmware_that_has_the_key(signed: Disk) -> None:
    hardware = Hardware(machine("x86_64", "2G"), "secure-boot")
    told = distro_boot.boot(signed, hardware, "debian", LIMIT_S)
    assert_whole(told)
    assert "Secure boot enabled" in told.log
    assert "Kernel is locked down from EFI Secure Boot" in told.log
    assert parameters.profile("vm").line in told.log
    assert_near(told, told.parts())


def test_what_was_changed_after_it_was_signed_is_not_started(signed: Disk, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    processes.run(["cp", "--sparse=always", signed.image, image], what="copying a disk")
    with image.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        at = content.find(b"rdinit=/mark")
        assert at >= 0
        content[at : at + 12] = b"rdinit=/kram"
    changed = Disk(image, signed.variables)
    hardware = Hardware(machine("x86_64", "2G"), "secure-boot")
    with pytest.raises(FlatbootError, match=r"Error loading \\EFI\\Linux\S*: Access denied"):
        distro_boot.boot(changed, hardware, "debian", 600)


def test_a_shell_is_left_at_the_login_and_ends_with_the_guest() -> None:
    session = Session([*PROGRAM, "distro", "--shell", "--memory", "2G", "--cpus", "2"])
    try:
        session.expect(b"debian login: ")
        session.type(b"root\n")
        session.expect(b"root@debian:~# ")
        session.type(b"echo $(nproc) CPUs; systemctl is-failed told; poweroff\n")
        session.expect(b"2 CPUs")
        session.expect(b"inactive")
        assert session.ended() == 0
    finally:
        session.close()
