"""What a guest of a distribution tells, how it is shown, and what is needed to boot one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from flatboot.common import processes, screen
from flatboot.common.errors import FlatbootError
from flatboot.distro import disk, distro_boot, user_space
from flatboot.distro.disk import Disks
from flatboot.guest.machine import machine
from flatboot.kernel import fetch
from flatboot.show import distro_tables

STAGES = {"firmware": 2, "loader": 1, "unpacking": 1, "kernel": 3, "initrd": 4, "userspace": 5}
LIVE = {"stages": [{"name": name, "length": s * 10**9} for name, s in STAGES.items()]}
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


@pytest.mark.parametrize("missing", ["==== end\n", "COUNTER_LOGIN", "Mem:", "CPU(s):"])
def test_a_guest_that_ends_too_early(missing: str) -> None:
    with pytest.raises(ValueError, match="missing"):
        distro_boot.read(TOLD.replace(missing, ""))


def test_the_parts_of_the_way_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = [distro_boot.read(TOLD), distro_boot.read(TOLD.replace("=17", "=34"))]
    for table in distro_tables.tables([machine(memory="2G"), machine(memory="1T")], told):
        screen.console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    row = next(line for line in lines if "34.000" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")][1:] == [
        *("2.000", "1.000", "4.000", "4.000", "5.000", "34.000")
    ]
    assert any("ratio" in line and "2.000" in line for line in lines)
    assert any("broken.service" in line for line in lines)


def test_disks_need_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(FlatbootError, match="root"):
        disk.make(tmp_path / "disks")
    assert not (tmp_path / "disks").exists()


def test_without_firmware_nothing_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distro_boot, "FIRMWARE", tmp_path / "none")
    with pytest.raises(FlatbootError, match="install ovmf"):
        distro_boot.boot(Disks(tmp_path, tmp_path), machine())


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of QEMU that writes what the file beside it holds where a guest would."""
    program = tmp_path / "bin/qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nfor word; do case "$word" in file:*/told) to=${word#file:};;'
        ' file:*/console) echo "it hangs" > ${word#file:};; esac; done\ncat "$0.told" > "$to"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "flatboot").mkdir()
    monkeypatch.setattr(distro_boot, "FIRMWARE", program)
    return program


def test_a_boot_leaves_nothing_behind(qemu: Path, tmp_path: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text(TOLD)
    assert distro_boot.boot(Disks(tmp_path, tmp_path), machine()) == distro_boot.read(TOLD)
    assert list((tmp_path / "flatboot").iterdir()) == []


def test_a_guest_s_last_words_are_shown(qemu: Path, tmp_path: Path) -> None:
    qemu.with_name("qemu-system-x86_64.told").write_text("")
    with pytest.raises(FlatbootError, match="it hangs"):
        distro_boot.boot(Disks(tmp_path, tmp_path), machine())


def test_user_space_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], *, what: str) -> str:
        asked.append([str(word) for word in command])
        Path(command[-2]).write_text("archive")
        return ""

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(processes, "run", run)
    monkeypatch.setattr(fetch, "mirror", lambda folder: "http://mirror.example/debian")
    assert user_space.archive().read_text() == "archive"
    assert user_space.archive() == user_space.archive()
    [command] = asked
    assert command[0] == "mmdebstrap"
    assert command[-1] == "http://mirror.example/debian"
    assert "linux-image-cloud-amd64" in command[3]


def test_the_counter_is_kept_for_who_asks(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = Path(disk.__file__).parent / "files/mark.c"
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", mark, source], check=True)
    done = subprocess.run([mark, tmp_path / "counter", "/bin/echo", "then"], capture_output=True)
    assert done.stdout == b"then\n"
    assert int((tmp_path / "counter").read_text()) > 0
    assert subprocess.run([mark, tmp_path / "counter"]).returncode == 1
