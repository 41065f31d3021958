"""A distribution's memory: added, taken, reported free, limited, compressed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from distro_guest import Guest, swap_disk

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]
_GIB = 1 << 30
#: How long QEMU's side of a request may take, in seconds.
_SOON_S = 120
_MOVABLE = "echo online_movable >/sys/devices/system/memory/auto_online_blocks"
_STATES = "cat /sys/devices/system/memory/memory*/state"
_BLOCKS_OF_GIB = 8


def _eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SOON_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1)


def test_a_dimm_comes_and_goes(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2, "-m", "2048M,slots=2,maxmem=16G")
    guest.log_in()
    before = guest.memory_bytes()
    guest.does(_MOVABLE)
    assert guest.qemu("object_add memory-backend-ram,id=more,size=4G") == ""
    assert guest.qemu("device_add pc-dimm,id=dimm,memdev=more") == ""
    guest.becomes(f"{_STATES} | grep -c online", str(6 * _BLOCKS_OF_GIB))
    assert guest.memory_bytes() - before >= 0.95 * 4 * _GIB
    guest.does("python3 -c 'bytearray(3 << 30)'")
    assert guest.qemu("device_del dimm") == ""
    guest.becomes(f"{_STATES} | grep -c online", str(2 * _BLOCKS_OF_GIB))
    assert guest.memory_bytes() == before
    guest.assert_nothing_is_wrong()


def test_virtio_mem_grows_and_shrinks(start: Callable[..., Guest]) -> None:
    more = ("-object", "memory-backend-ram,id=more,size=4G")
    device = "virtio-mem-pci,id=more-mem,memdev=more,requested-size=0"
    guest = start("2G", 2, "-m", "2048M,maxmem=16G", *more, "-device", device)
    guest.log_in()
    before = guest.memory_bytes()
    guest.does(_MOVABLE)
    assert guest.qemu("qom-set more-mem requested-size 3G") == ""
    _eventually(lambda: guest.memory_bytes() - before >= 0.95 * 3 * _GIB)
    guest.does("python3 -c 'bytearray(4 << 30)'")
    assert guest.qemu("qom-set more-mem requested-size 1G") == ""
    _eventually(lambda: guest.memory_bytes() - before <= _GIB)
    assert guest.qemu("qom-set more-mem requested-size 0") == ""
    _eventually(lambda: guest.memory_bytes() == before)
    guest.does("python3 -c 'bytearray(1 << 30)'")
    guest.assert_nothing_is_wrong()


def test_a_balloon_takes_and_gives(start: Callable[..., Guest]) -> None:
    guest = start("4G", 2, "-device", "virtio-balloon-pci")
    guest.log_in()
    before = guest.memory_bytes()
    guest.qemu("balloon 1024")
    _eventually(lambda: "actual=1024" in guest.qemu("info balloon"))
    assert before - guest.memory_bytes() >= 2.9 * _GIB
    guest.qemu("balloon 4096")
    _eventually(lambda: "actual=4096" in guest.qemu("info balloon"))
    assert guest.memory_bytes() == before
    guest.does("python3 -c 'bytearray(3 << 30)'")
    guest.assert_nothing_is_wrong()


def test_what_is_freed_is_reported_to_the_host(start: Callable[..., Guest]) -> None:
    guest = start("4G", 2, "-device", "virtio-balloon-pci,free-page-reporting=on")
    guest.log_in()
    at_login = guest.host_bytes()
    guest.does("head -c 1500M /dev/zero >/dev/shm/filled")
    assert guest.host_bytes() - at_login >= 1.3 * _GIB
    guest.does("rm /dev/shm/filled")
    _eventually(lambda: guest.host_bytes() - at_login <= 0.4 * _GIB)
    guest.does("python3 -c 'bytearray(3 << 30)'")
    guest.assert_nothing_is_wrong()


def test_a_service_is_held_to_its_memory_limit(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2)
    guest.log_in()
    limited = "systemd-run --quiet --pipe --wait -p MemoryMax=128M -p MemorySwapMax=0 --"
    guest.does(f"{limited} python3 -c 'bytearray(64 << 20)'")
    status, _ = guest.says(f"{limited} python3 -c 'bytearray(256 << 20)'")
    assert status != 0
    assert "Memory cgroup out of memory" in guest.does("dmesg")


#: That much is not one word again and again, which would not be compressed.
_MORE_THAN_ALL = f"python3 -c 'bytearray(b\"abc\") * {2 * _GIB // 3}'"


def test_a_full_machine_swaps_to_compressed_memory(start: Callable[..., Guest]) -> None:
    guest = start("2G", 2)
    guest.log_in()
    guest.does("modprobe zram num_devices=1 && echo 2G >/sys/block/zram0/disksize")
    guest.does("mkswap /dev/zram0 && swapon /dev/zram0")
    guest.does(_MORE_THAN_ALL)
    assert guest.event_bytes("pswpout") > 100 << 20
    guest.assert_nothing_is_wrong()


def test_zswap_stands_before_a_disk(tmp_path: Path, start: Callable[..., Guest]) -> None:
    guest = start("2G", 2, *swap_disk(tmp_path))
    guest.log_in()
    guest.does("echo 1 >/sys/module/zswap/parameters/enabled")
    guest.does("mkswap /dev/vdb && swapon /dev/vdb")
    guest.does(_MORE_THAN_ALL)
    assert guest.event_bytes("zswpout") > 100 << 20
    guest.assert_nothing_is_wrong()
