"""What a guest of a distribution tells, how it is shown, and what is needed to boot one."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from flatboot.common import processes, screen
from flatboot.common.errors import FlatbootError
from flatboot.distro import disk, distro_boot, installing, user_space
from flatboot.distro.disk import System
from flatboot.distro.distro_boot import Hardware
from flatboot.distro.firmware import FIRMWARE, Firmware
from flatboot.distro.installing import LOADERS, Disk
from flatboot.guest.machine import machine
from flatboot.kernel import fetch, parameters
from flatboot.show import distro_tables

STAGES = {"firmware": 2, "loader": 1, "unpacking": 1, "kernel": 3, "initrd": 4, "userspace": 5}
LIVE = {"stages": [{"name": name, "length": s * 10**9} for name, s in STAGES.items()]}
DISK = Disk(Path("disk.img"), None)
TOLD = f"""==== counters\r
COUNTER_INITRAMFS=7000000000
COUNTER_DISK=11000000000
COUNTER_FINISH=16000000000
COUNTER_LOGIN=17000000000
==== time
Startup finished in 2s (firmware) + 1s (loader) + 7s (kernel) + 5s (userspace) = 15s
==== blame
1s udev.service
==== critical-chain
graphical.target @5s
==== free
               total        used        free
Mem:      2078474240   306225152  1700000000
==== lscpu
Architecture:             x86_64
CPU(s):                   1
==== failed
broken.service loaded failed failed Broken
==== log
[    0.000000] Linux version 6.12.1
==== live
{json.dumps(LIVE)}
==== end
"""


def test_what_a_guest_tells() -> None:
    told = distro_boot.read(TOLD)
    assert told.counters["LOGIN"] == 17 * 10**9
    assert told.said.startswith("Startup finished")
    assert told.said.endswith("graphical.target @5s\n")
    assert (told.memory_bytes, told.cpus, told.failed) == (2078474240, 1, ("broken.service",))
    assert told.log == "[    0.000000] Linux version 6.12.1\n"
    assert told.parts()["initrd"] == 4 * 10**9
    assert told.ran == ""


def test_what_a_program_in_the_guest_printed() -> None:
    told = distro_boot.read(
        TOLD.replace("==== failed", "==== run\n fio: 3\r\n ==== COUNTER_A=1\n==== failed")
    )
    assert told.ran == "fio: 3\n==== COUNTER_A=1\n"
    assert told.failed == ("broken.service",)


@pytest.mark.parametrize(
    "missing",
    [
        "==== end\n",
        "==== blame\n",
        "==== failed\n",
        "COUNTER_LOGIN",
        "Mem:",
        "CPU(s):",
        json.dumps(LIVE),
    ],
)
def test_a_guest_that_ends_too_early(missing: str) -> None:
    with pytest.raises(ValueError, match="missing"):
        distro_boot.read(TOLD.replace(missing, ""))


def test_the_parts_of_the_way_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    small, large = distro_boot.read(TOLD), distro_boot.read(TOLD.replace("=17", "=34"))
    two, one = machine(memory="2G", cpus=4), machine(memory="1T", cpus=64)
    boots = [("stock", two, small), ("stock", one, large), ("flatboot", two, small)]
    for table in distro_tables.tables(boots):
        screen.console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    rows = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines]
    parts = ["2.00", "1.00", "4.00", "4.00", "5.00"]
    assert ["stock", "2 GiB", "4", *parts, "17.00"] in rows
    assert ["1 TiB", "64", *parts, "34.00", "2.000"] in rows
    assert ["flatboot", "2 GiB", "4", *parts, "17.00"] in rows
    assert sum("broken.service" in line for line in lines) == 3


def test_parts_that_nobody_keeps_are_left_blank(capsys: pytest.CaptureFixture[str]) -> None:
    grub_s = {"before": 4, "kernel": 3, "initrd": 4, "userspace": 5}
    live = {"stages": [{"name": name, "length": s * 10**9} for name, s in grub_s.items()]}
    told = distro_boot.read(TOLD.replace(json.dumps(LIVE), json.dumps(live)))
    way, _ = distro_tables.tables([("debian", machine(), told)])
    screen.console().print(way)
    rows = [line.strip("│ ").split("│") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert ["debian", "2 GiB", "1", "4.00", "", "3.00", "4.00", "5.00", "17.00"] in [
        row[:9] for row in cells
    ]


def test_a_disk_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(user_space, "archive", Mock(side_effect=AssertionError))
    with pytest.raises(FlatbootError, match="root"):
        disk.make(tmp_path, System())


def test_firmware_starts_loaders_that_there_are() -> None:
    named = {name for firmware in FIRMWARE.values() for name in firmware.loaders}
    assert named == LOADERS.keys()


def test_without_firmware_nothing_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "flatboot").mkdir()
    there_is_none = Firmware(tmp_path / "none", "ovmf", "q35", ("uki",))
    monkeypatch.setitem(FIRMWARE, "uefi", there_is_none)
    with pytest.raises(FlatbootError, match="install ovmf"):
        distro_boot.boot(DISK, Hardware(machine()), "stock", 60)


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of QEMU that writes what the file beside it holds where a guest would.

    It keeps the words that it is called with in another file beside it.
    """
    program = tmp_path / "bin/qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "$*" > "$0.words"\nfor word; do case "$word" in *path=*/told)'
        ' to=${word##*path=};; file:*/console) echo "it hangs" > ${word#file:};; esac; done\n'
        'cat "$0.told" > "${to-/dev/stdout}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "flatboot").mkdir()
    for name, firmware in FIRMWARE.items():
        there = dataclasses.replace(
            firmware, file=program, variables=firmware.variables and program
        )
        monkeypatch.setitem(FIRMWARE, name, there)
    return program


def test_a_boot_leaves_nothing_behind(qemu: Path, tmp_path: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text(TOLD)
    told = distro_boot.boot(DISK, Hardware(machine(memory="3G", cpus=4)), "stock", 60)
    assert told == distro_boot.read(TOLD)
    assert list((tmp_path / "flatboot").iterdir()) == []
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    assert "-M q35,smm=off,memory-backend=m " in words
    assert "-smp 4" in words
    assert "-m 3072M" in words
    assert "file=disk.img,format=raw,if=none,id=disk,snapshot=on" in words
    assert "virtio-blk-pci,drive=disk" in words
    assert "pflash" not in words


def test_other_hardware(qemu: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text(TOLD)
    hardware = Hardware(machine(), "bios", "nvme", ("-nic", "user"))
    distro_boot.boot(DISK, hardware, "stock", 60)
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    assert "-M pc,memory-backend=m " in words
    assert "nvme,drive=disk,serial=disk" in words
    assert words.endswith("-nic user\n")
    signed = Disk(Path("disk.img"), Path("keys"))
    distro_boot.boot(signed, Hardware(machine(), "secure-boot"), "stock", 60)
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    assert "-M q35,smm=on,memory-backend=m " in words
    assert "if=pflash,format=raw,unit=1,file=keys,snapshot=on" in words


def test_a_guest_s_last_words_are_shown(qemu: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text("")
    with pytest.raises(FlatbootError, match=r"before it told of its boot.*\nit hangs"):
        distro_boot.boot(DISK, Hardware(machine()), "stock", 60)


def test_a_guest_that_does_not_end_is_ended(qemu: Path, tmp_path: Path) -> None:
    qemu.write_text(qemu.read_text() + "sleep 100\n")
    qemu.with_name("qemu-system-x86_64.told").write_text("")
    with pytest.raises(FlatbootError, match=r"took longer than 1 s.*\nit hangs"):
        distro_boot.boot(DISK, Hardware(machine()), "stock", 1)
    assert list((tmp_path / "flatboot").iterdir()) == []


def test_a_shell_has_the_terminal(
    qemu: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text("vm login: ")
    assert distro_boot.shell(DISK, Hardware(machine(), words=("-nic", "user"))) == 0
    assert capfd.readouterr().out == "vm login: "
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    assert "stdio,id=terminal" in words
    assert words.endswith("-nic user\n")
    assert "-icount" not in words
    assert list((tmp_path / "flatboot").iterdir()) == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The little of a root file system that a disk is made of."""
    made = tmp_path / "root"
    for name in ("boot/vmlinuz-6.12", "boot/initrd.img-6.12", "usr/local/sbin/mark"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).touch()
    return made


def files_of(image: Path) -> Callable[[str], str]:
    """Return what debugfs says of the root file system on the disk *image* when it is asked."""
    table = processes.run(["sfdisk", "--json", image], what="sfdisk")
    partitions = json.loads(table)["partitiontable"]["partitions"]
    assert len(partitions) == 3
    inside = f"{image}?offset={partitions[2]['start'] * 512}"
    return lambda request: processes.run(["debugfs", "-R", request, inside], what="debugfs")


def installs(qemu: Path) -> None:
    """Have the program in place of QEMU say that it did what the guest does."""
    qemu.write_text(qemu.read_text().replace("it hangs", "The boot loader is installed"))
    qemu.with_name("qemu-system-x86_64.told").touch()


def test_grub_is_installed_by_the_guest_itself(qemu: Path, tmp_path: Path, root: Path) -> None:
    installs(qemu)
    grub, uefi = LOADERS["grub"], FIRMWARE["uefi"]
    made = installing.disk(tmp_path, root, "console=ttyS0", "vm", grub, uefi)
    assert made == Disk(tmp_path / "disk.img", None)
    debugfs = files_of(made.image)
    assert 'GRUB_CMDLINE_LINUX="console=ttyS0"' in debugfs("cat /etc/default/grub")
    assert "update-grub" in debugfs("cat /usr/local/sbin/install-loader")
    package = tmp_path / "parameters.deb"
    debugfs(f"dump /flatboot-parameters_1_all.deb {package}")
    content = processes.run(["dpkg-deb", "--contents", package], what="dpkg-deb")
    assert "etc/default/grub.d/flatboot.cfg" in content
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    assert f"-kernel {root}/boot/vmlinuz-6.12" in words
    assert f"file={made.image},format=raw,if=virtio" in words


@pytest.mark.parametrize("firmware", ["uefi", "secure-boot"])
def test_a_unified_image_is_signed_for_firmware_that_asks_for_it(
    qemu: Path, tmp_path: Path, root: Path, firmware: str
) -> None:
    installs(qemu)
    uki, starts = LOADERS["uki"], FIRMWARE[firmware]
    made = installing.disk(tmp_path, root, "console=ttyS0", "vm", uki, starts)
    debugfs = files_of(made.image)
    line = f"root=LABEL=root console=ttyS0 {parameters.profile('vm').line}\n"
    assert debugfs("cat /etc/kernel/cmdline").endswith(line)
    assert "layout=uki" in debugfs("cat /etc/kernel/install.conf")
    assert "bootctl" in debugfs("cat /usr/local/sbin/install-loader")
    words = qemu.with_name("qemu-system-x86_64.words").read_text()
    if firmware == "uefi":
        assert made.variables is None
        assert "File not found" in debugfs("cat /etc/kernel/uki.conf")
    else:
        assert made.variables == tmp_path / "variables"
        assert "SecureBootPrivateKey=" in debugfs("cat /etc/kernel/uki.conf")
        assert f"unit=1,file={made.variables},snapshot=off" in words
    assert ("-kernel" in words) == (firmware == "uefi")


def test_qemu_itself_loads_the_kernel_of_a_microvm(qemu: Path, tmp_path: Path, root: Path) -> None:
    none, microvm = LOADERS["none"], FIRMWARE["microvm"]
    made = installing.disk(tmp_path, root, "console=ttyS0", "vm", none, microvm)
    assert not qemu.with_name("qemu-system-x86_64.words").exists()
    shutil.rmtree(root)
    words = dict(zip(made.words[::2], made.words[1::2], strict=True))
    assert all(Path(words[name]).is_file() for name in ("-kernel", "-initrd"))
    line = parameters.profile("vm").line
    assert words["-append"] == f"root=LABEL=root console=ttyS0 tsc_early_khz=1000000 {line}"


def test_a_guest_that_cannot_install_its_loader(qemu: Path, tmp_path: Path, root: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").touch()
    grub, uefi = LOADERS["grub"], FIRMWARE["uefi"]
    with pytest.raises(FlatbootError, match=r"installs its boot loader failed.*\nit hangs"):
        installing.disk(tmp_path, root, "console=ttyS0", "", grub, uefi)
    assert not list(root.glob("*.deb"))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Take the place of mmdebstrap; return how it is called, and what the archive beside holds."""
    calls: list[list[str]] = []
    run = processes.run

    def instead(command: list[str | Path], *, what: str) -> str:
        if command[0] != "mmdebstrap":
            return run(command, what=what)
        words = [str(word) for word in command]
        calls.append(words)
        Path(words[words.index(user_space.SUITE) + 1]).write_text("archive")
        return ""

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(processes, "run", instead)
    monkeypatch.setattr(fetch, "mirror", lambda folder: "http://mirror.example/debian")
    return calls


def test_user_space_is_made_once(asked: list[list[str]]) -> None:
    made = user_space.archive(None, "initramfs-tools")
    assert made.read_text() == "archive"
    assert user_space.archive(None, "initramfs-tools") == made
    [command] = asked
    assert command[0] == "mmdebstrap"
    assert command[-1] == "http://mirror.example/debian"
    assert "initramfs-tools,linux-image-cloud-amd64" in command[3]
    more = user_space.archive(None, "initramfs-tools", ("fio", "sysbench"))
    assert "initramfs-tools,fio,sysbench,linux-image-cloud-amd64" in asked[1][3]
    assert made.is_file()
    assert more.is_file()


def test_dracut_takes_the_drivers_of_every_machine(asked: list[list[str]]) -> None:
    first, second = (user_space.archive(None, each) for each in ("initramfs-tools", "dracut"))
    assert first.is_file()
    assert second.is_file()
    _, command = asked
    assert "dracut" in command[3]
    assert "initramfs-tools" not in command[3]
    assert any("hostonly=no" in word for word in command)


def test_apt_installs_a_kernel_of_ours_once_all_else_is_there(
    asked: list[list[str]], tmp_path: Path
) -> None:
    packages = []
    for folder, name in (("a", "stock"), ("b", "ours"), ("c of mine", "stock")):
        packages.append(tmp_path / folder / f"linux-image-{name}_1_amd64.deb")
        packages[-1].parent.mkdir()
        packages[-1].write_text(folder)
    made = [user_space.archive(deb, "initramfs-tools") for deb in packages[:2]]
    command = asked[0]
    assert command[3].endswith(",initramfs-tools")
    assert [word for word in command if "-hook=" in word] == [
        f'--customize-hook=cp {packages[0]} "$1/kernel.deb"',
        '--customize-hook=chroot "$1" apt-get install --yes /kernel.deb',
        '--customize-hook=rm "$1/kernel.deb"',
    ]
    again = user_space.archive(packages[2], "initramfs-tools")
    assert f"cp '{packages[2]}' " in asked[2][4]
    assert [path.is_file() for path in (*made, again)] == [False, True, True]


def test_the_counter_is_kept_for_who_asks(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = Path(disk.__file__).parent / "files/mark.c"
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", mark, source], check=True)
    done = subprocess.run([mark, tmp_path / "counter", "/bin/echo", "then"], capture_output=True)
    assert done.stdout == b"then\n"
    assert int((tmp_path / "counter").read_text()) > 0
    assert subprocess.run([mark, tmp_path / "counter"]).returncode == 1
