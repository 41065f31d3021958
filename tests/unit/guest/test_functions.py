"""Instructions by function: what the plugin wrote is read, compared, and kept in records."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import json
from pathlib import Path

import pytest
from boots import GUEST, record

from flatboot.common import arches
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import boot, functions, guest_run, qemu
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.functions import FIRMWARE, Difference
from flatboot.guest.guest_run import Counting, Guest
from flatboot.guest.machine import machine
from flatboot.kernel import own_kernel
from flatboot.record.marks import Symbols
from flatboot.record.record import load

SYSTEM_MAP = """\
ffffffff81000000 T _text
ffffffff81000100 T startup_64
ffffffff81000200 t helper
ffffffff81000300 t helper
ffffffff81000400 T memmap_init
ffffffff81000500 D data
ffffffff81002000 B _end
"""

COUNTS = """\
fffffff0 7
fe05b 20
1000100 3
1002000 1
ffffffff81000110 10
ffffffff81000200 100
ffffffff81000308 200
ffffffff81000400 5000
ffffffff810004f0 500
ffffffff81000400 2
ffffffff81002000 4
"""

X86 = arches.load("x86_64")


def able(version: str) -> qemu.Capabilities:
    return qemu.Capabilities("/bin/q", version, "pc-q35", 288, frozenset(), "")


def test_counts_by_function() -> None:
    found = functions.read(COUNTS, Symbols(SYSTEM_MAP), X86)
    assert found == {"memmap_init": 5502, "helper": 300, FIRMWARE: 32, "startup_64": 13}
    assert next(iter(found)) == "memmap_init"
    assert sum(found.values()) == sum(int(line.split()[1]) for line in COUNTS.splitlines())


def test_nothing_was_counted() -> None:
    assert functions.read("", Symbols("\n" + SYSTEM_MAP), X86) == {}


def test_a_symbol_table_without_ends() -> None:
    with pytest.raises(FlatbootError, match="no _text and _end"):
        functions.read(COUNTS, Symbols("ffffffff81000100 T startup_64\n"), X86)


def test_what_grew_most() -> None:
    small = {"same": 5, "page": 10, "gone": 50}
    large = {"same": 5, "page": 1010, "block": 60, "new": 40}
    rows = functions.differences(small, large)
    assert [(row.name, row.grown) for row in rows] == [
        ("page", 1000),
        ("block", 60),
        ("new", 40),
        ("same", 0),
        ("gone", -50),
    ]
    assert functions.most_grown(rows, 0.95, 25) == rows[:2]
    assert functions.most_grown(rows, 0.9, 25) == rows[:1]
    assert functions.most_grown(rows, 1, 25) == rows[:3]
    assert functions.most_grown(rows, 1, 2) == rows[:2]
    assert functions.together("rest", rows[2:]) == Difference("rest", 55, 45)
    assert functions.most_grown(functions.differences(small, small), 0.95, 25) == []


@pytest.mark.parametrize(("version", "api"), [("7.2.22", 1), ("8.2.0", 1), ("9.0.0", 2)])
def test_the_plugin_has_the_version_that_qemu_takes(version: str, api: int) -> None:
    path = functions.plugin(able(version), "functions")
    # Lazily: what it calls is QEMU's.
    loaded = ctypes.CDLL(str(path), mode=1)
    assert ctypes.c_int.in_dll(loaded, "qemu_plugin_version").value == api
    before = path.stat().st_mtime_ns
    assert functions.plugin(able(version), "functions") == path
    assert path.stat().st_mtime_ns == before


def test_command_with_the_plugin() -> None:
    counted = dataclasses.replace(GUEST, counting=Counting(Path("/c/p"), 0x401000, 9))
    words = guest_run._command(counted)
    assert words[words.index("-plugin") + 1] == "/c/p,out=/proc/self/fd/9,entry=0x401000"
    assert guest_run._files(counted, None) == (5, 9)
    assert guest_run._files(counted, 7) == (5, 7, 9)
    assert "-plugin" not in guest_run._command(GUEST)


def test_only_on_the_exact_clock(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="functions are counted on the exact clock only"):
        boot.boot(
            BootSpec(own_kernel.find(tmp_path), machine(), clock="wall", functions="instructions")
        )


def test_a_kernel_without_symbols_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    wanted = dataclasses.replace(
        GUEST, spec=dataclasses.replace(GUEST.spec, functions="instructions")
    )
    with boot._counting(wanted, tmp_path / "System.map", notes) as (guest, counts):
        assert guest is wanted
        assert counts().functions == {}
    assert notes == [f"there is no {tmp_path}/System.map, so there are no functions"]


def test_counts_come_from_the_file_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text(SYSTEM_MAP)
    notes: list[str] = []
    wanted = dataclasses.replace(
        GUEST, spec=dataclasses.replace(GUEST.spec, functions="instructions")
    )
    with boot._counting(wanted, tmp_path / "System.map", notes) as (guest, counts):
        assert guest.counting is not None
        assert counts().functions == {}
        assert notes == ["QEMU's plugin did not see where to end, so there are no functions"]
        Path(f"/proc/self/fd/{guest.counting.out}").write_text(COUNTS)
        assert counts().functions["memmap_init"] == 5502


def test_all_instructions_are_counted_up_to_the_restart(tmp_path: Path) -> None:
    symbols = f"{SYSTEM_MAP}ffffffff81300000 T __do_sys_reboot\n"
    (tmp_path / "System.map").write_text("".join(sorted(symbols.splitlines(keepends=True))))
    wanted = dataclasses.replace(GUEST, spec=dataclasses.replace(GUEST.spec, counted="end"))
    with boot._counting(wanted, tmp_path / "System.map", []) as (guest, counts):
        assert guest.counting is not None
        assert guest.counting.until == 0xFFFFFFFF81300000
        Path(f"/proc/self/fd/{guest.counting.out}").write_text(COUNTS)
        total = sum(int(line.split()[1]) for line in COUNTS.splitlines())
        assert counts().results == {"counted": str(total)}


def test_delay_loops_are_no_work() -> None:
    assert functions.work({"kmalloc": 7, "delay_tsc": 90, "__delay": 1}) == 7


def test_all_instructions_are_counted_up_to_init(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text(SYSTEM_MAP)
    wanted = dataclasses.replace(GUEST, spec=dataclasses.replace(GUEST.spec, counted="init"))
    with boot._counting(wanted, tmp_path / "System.map", []) as (guest, counts):
        assert guest.counting is not None
        Path(f"/proc/self/fd/{guest.counting.out}").write_text(COUNTS)
        assert counts().functions == {}
        assert int(counts().results["counted"]) > 0


def test_instructions_are_not_counted_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text(SYSTEM_MAP)
    wanted = dataclasses.replace(GUEST, spec=dataclasses.replace(GUEST.spec, counted="end"))
    with (
        pytest.raises(FlatbootError, match="no __do_sys_reboot, so no end"),
        boot._counting(wanted, tmp_path / "System.map", []),
    ):
        pass


def test_two_things_are_not_counted_together(tmp_path: Path) -> None:
    spec = BootSpec(own_kernel.find(tmp_path), machine(), functions="instructions", counted="end")
    with pytest.raises(UsageError, match="functions and instructions are not counted together"):
        boot.boot(spec)


def test_the_replay_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Counting | None] = []

    async def run(guest: Guest, record_to: int | None = None) -> guest_run.Ended:
        seen.append(guest.counting)
        console = "flatboot: mark=7\nflatboot: complete\n"
        return guest_run.Ended(console, "guest-reset", "", False, qemu.Held(1, 1))

    async def again(guest: Guest, *_: object) -> guest_run.Marked:
        seen.append(guest.counting)
        return guest_run.Marked([], None)

    monkeypatch.setattr(guest_run, "run", run)
    monkeypatch.setattr(guest_run, "run_again", again)
    counting = Counting(Path("/c/p"), 0x401000, 9)
    tracking = guest_run.Tracking((), Symbols(SYSTEM_MAP), 0x401000, lambda phase: None)
    asyncio.run(boot._run(dataclasses.replace(GUEST, counting=counting), tracking))
    assert seen == [counting, None]


def test_records_keep_functions_and_older_ones_load(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    before = dataclasses.replace(record("stock", "2G", 1000), functions={"memmap_init": 900})
    before.save(path)
    assert load(path) == before
    data = json.loads(path.read_text())
    del data["functions"]
    path.write_text(json.dumps({**data, "schema": 1}))
    assert load(path).functions == {}
    path.write_text(json.dumps({**data, "functions": {"memmap_init": "many"}}))
    with pytest.raises(
        FlatbootError, match=r"functions\.memmap_init = 'many': write a whole number"
    ):
        load(path)
