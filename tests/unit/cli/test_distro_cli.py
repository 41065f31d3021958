"""`flatboot distro`: what is asked for, and what is refused before anything is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer

from flatboot.cli import distro_cli
from flatboot.common import host
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.distro import disk, distro_boot
from flatboot.distro.disk import System
from flatboot.distro.distro_boot import Hardware
from flatboot.distro.distro_kernel import DistroKernel
from flatboot.distro.firmware import Firmware
from flatboot.distro.installing import Disk
from flatboot.show import distro_tables


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Hardware, System]]:
    """Boot nothing; return kernel, machine and disk of what would have been booted."""
    made: list[tuple[str, Hardware, System]] = []
    asked: list[System] = []

    def make(folder: Path, system: System) -> Disk:
        asked.append(system)
        return Disk(folder, None)

    def boot(disk: Disk, hardware: Hardware, kernel: str, limit_s: float) -> Mock:
        assert asked[-1].firmware == hardware.firmware
        made.append((kernel, hardware, asked[-1]))
        return Mock(ran="it ran\n")

    def shell(disk: Disk, hardware: Hardware) -> int:
        made.append(("shell", hardware, asked[-1]))
        return 3

    def tables(told: list[object]) -> Iterator[None]:
        assert len(told) == len(made)
        yield from ()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "flatboot").mkdir()
    monkeypatch.setattr(disk, "make", make)
    monkeypatch.setattr(distro_boot, "boot", boot)
    monkeypatch.setattr(distro_boot, "shell", shell)
    monkeypatch.setattr(Firmware, "check", lambda self: None)
    monkeypatch.setattr(disk, "check_host", lambda: None)
    monkeypatch.setattr(distro_tables, "tables", tables)
    monkeypatch.setattr(DistroKernel, "package", lambda self: None)
    monkeypatch.setattr(DistroKernel, "to_build", property(lambda self: self.name != "debian"))
    monkeypatch.setattr(host, "available_memory", lambda: 4 << 30)
    return made


def test_both_kernels_on_every_machine(
    boots: list[tuple[str, Hardware, System]], capsys: pytest.CaptureFixture[str]
) -> None:
    distro_cli.distro("2G,16G", "1,4", "stock,flatboot")
    assert "2 kernels of Debian's config to build first" in capsys.readouterr().out
    assert [(kernel, hardware.machine.title) for kernel, hardware, _ in boots] == [
        (kernel, f"x86_64, {size}, {cpus}")
        for kernel in ("stock", "flatboot")
        for cpus in ("1 CPU", "4 CPUs")
        for size in ("2 GiB", "16 GiB")
    ]
    made_with = {"stock": System(), "flatboot": System(profile="vm")}
    assert all(asked == made_with[kernel] for kernel, _, asked in boots)


def test_stock_is_left_out_where_this_machine_cannot_carry_it(
    boots: list[tuple[str, Hardware, System]], capsys: pytest.CaptureFixture[str]
) -> None:
    distro_cli.distro("2G,1T", kernels="stock,flatboot")
    assert [(kernel, hardware.machine.title) for kernel, hardware, _ in boots] == [
        ("stock", "x86_64, 2 GiB, 1 CPU"),
        ("flatboot", "x86_64, 2 GiB, 1 CPU"),
        ("flatboot", "x86_64, 1 TiB, 1 CPU"),
    ]
    assert "left out" in capsys.readouterr().err


def test_a_kernel_that_fits_nowhere_is_left_out(boots: list[tuple[str, Hardware, System]]) -> None:
    distro_cli.distro("1T", kernels="stock,flatboot")
    assert [kernel for kernel, _, _ in boots] == ["flatboot"]


def test_what_was_told_before_a_boot_that_failed_is_shown(
    boots: list[tuple[str, Hardware, System]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    first = distro_boot.boot

    def boot(disk: Disk, hardware: Hardware, kernel: str, limit_s: float) -> None:
        if boots:
            raise FlatbootError("it hangs")
        first(disk, hardware, kernel, limit_s)

    def tables(told: list[object]) -> tuple[()]:
        shown.append(len(told))
        return ()

    monkeypatch.setattr(distro_boot, "boot", boot)
    monkeypatch.setattr(distro_tables, "tables", tables)
    with pytest.raises(FlatbootError, match="it hangs"):
        distro_cli.distro("2G,4G")
    assert shown == [1]


def test_another_profile(boots: list[tuple[str, Hardware, System]]) -> None:
    distro_cli.distro("2G", kernels="flatboot,debian", profile="server")
    assert [(kernel, asked.profile) for kernel, _, asked in boots] == [
        ("flatboot", "server"),
        ("debian", ""),
    ]


def test_another_loader_on_other_hardware(boots: list[tuple[str, Hardware, System]]) -> None:
    distro_cli.distro("2G", loader="grub", firmware="bios", disk_device="nvme")
    [(_, hardware, asked)] = boots
    assert (hardware.firmware, hardware.disk) == ("bios", "nvme")
    assert asked == System(loader="grub", firmware="bios")


def test_further_words_for_qemu(boots: list[tuple[str, Hardware, System]]) -> None:
    distro_cli.distro("2G", qemu="-nic user -name 'a guest'")
    [(_, hardware, _)] = boots
    assert hardware.words == ("-nic", "user", "-name", "a guest")
    with pytest.raises(UsageError, match="a quote that does not end"):
        distro_cli.distro("2G", qemu="-name 'a guest")


def test_another_initramfs(boots: list[tuple[str, Hardware, System]]) -> None:
    distro_cli.distro("2G", initramfs="dracut")
    [(_, _, asked)] = boots
    assert asked == System(initramfs="dracut")
    with pytest.raises(UsageError, match="initramfs 'tar': choose one of initramfs-tools, dracut"):
        distro_cli.distro("2G", initramfs="tar")


def test_a_program_with_the_packages_that_it_needs(
    boots: list[tuple[str, Hardware, System]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "measure"
    with pytest.raises(UsageError, match=r"there is no file .*/measure"):
        distro_cli.distro("2G", run=program)
    program.touch()
    distro_cli.distro("2G", packages="fio,sysbench", run=program)
    [(_, _, asked)] = boots
    assert asked == System(packages=("fio", "sysbench"), program=program)
    said = "What measure printed, debian, x86_64, 2 GiB, 1 CPU:\nit ran\n"
    assert said in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: True))
    with pytest.raises(UsageError, match="leave out --run or --shell"):
        distro_cli.distro("2G", run=program, shell=True)


def test_a_shell_is_one_boot(
    boots: list[tuple[str, Hardware, System]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: True))
    with pytest.raises(typer.Exit) as ended:
        distro_cli.distro("2G,1T", kernels="debian,stock", shell=True)
    assert ended.value.exit_code == 3
    [(how, hardware, _)] = boots
    assert (how, hardware.machine.title) == ("shell", "x86_64, 2 GiB, 1 CPU")
    printed = capsys.readouterr()
    assert "log in as root" in printed.out
    assert "build" not in printed.out
    assert printed.err == ""


def test_a_shell_needs_a_terminal(
    boots: list[tuple[str, Hardware, System]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: False))
    with pytest.raises(UsageError, match="needs a terminal"):
        distro_cli.distro("2G", shell=True)
    assert boots == []


@pytest.mark.parametrize(("base", "built"), [(None, "7.3"), ("6.12", "6.12")])
def test_kernels_of_a_base(
    boots: list[tuple[str, Hardware, System]],
    monkeypatch: pytest.MonkeyPatch,
    base: str | None,
    built: str,
) -> None:
    bases: list[str] = []
    monkeypatch.setattr(DistroKernel, "package", lambda self: bases.append(self.base))
    distro_cli.distro("2G", kernels="stock,flatboot", base=base)
    assert bases == [built] * len(boots) == [built] * 2


def test_a_guest_that_this_machine_cannot_carry(boots: list[tuple[str, Hardware, System]]) -> None:
    with pytest.raises(FlatbootError, match=r"1 TiB takes .* GB .* --memory"):
        distro_cli.distro("1T")
    assert boots == []


@pytest.mark.parametrize(
    ("memory", "cpus", "kernels", "profile", "said"),
    [
        ("", "1", "stock", "vm", "memory size"),
        ("2G,", "1", "stock", "vm", "memory size"),
        ("much", "1", "stock", "vm", "memory size"),
        ("2G", "some", "stock", "vm", "'some' is not a number of CPUs"),
        ("2G", "0", "stock", "vm", "CPU"),
        ("2G", "1", "stock,", "vm", "unknown kernel ''"),
        ("2G", "1", "flatboot", "none", "unknown profile 'none'"),
    ],
)
def test_what_is_refused(memory: str, cpus: str, kernels: str, profile: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        distro_cli.distro(memory, cpus, kernels, profile)


@pytest.mark.parametrize(
    ("loader", "firmware", "disks", "said"),
    [
        ("lilo", "uefi", "virtio", "'lilo': choose one of systemd-boot, uki, grub, none"),
        (
            "grub",
            "coreboot",
            "virtio",
            "unknown firmware 'coreboot': choose one of uefi, secure-boot, bios, microvm",
        ),
        ("grub", "uefi", "floppy", "unknown disk 'floppy': choose one of virtio, nvme, mmio"),
        ("uki", "bios", "virtio", "bios nothing starts uki: give --loader grub"),
        ("none", "microvm", "virtio", "microvm there is no disk virtio: give --disk mmio"),
        ("grub", "uefi", "mmio", "uefi there is no disk mmio: give --disk virtio or nvme"),
        ("grub", "secure-boot", "virtio", "nothing starts grub: give --loader uki"),
    ],
)
def test_hardware_that_is_refused(
    boots: list[tuple[str, Hardware, System]], loader: str, firmware: str, disks: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        distro_cli.distro("2G", loader=loader, firmware=firmware, disk_device=disks)
    assert boots == []


def test_a_base_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"unknown base '5\.0'"):
        distro_cli.distro("2G", kernels="stock", base="5.0")
