"""A guest inside the guest, whose memory is huge pages and which has a disk passed through."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from distro_guest import LOGIN_S, STARTS_AGAIN, Guest

from flatboot.distro import disk
from flatboot.distro.disk import System

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * 3600)]
_DISK_BYTES = 8 << 20
#: An AMD, since QEMU emulates only these processors' way to run guests; a disk behind an IOMMU.
_HARDWARE = (
    *("-cpu", "max", "-device", "intel-iommu,intremap=on"),
    *("-device", "nvme,drive=passed,serial=passed,bus=pcie.0,addr=10"),
)
_AT = "0000:00:10.0"
_PACKAGES = ("qemu-system-x86", "busybox", "cpio")
#: The first process of the guest inside.
_CHECK = """#!/bin/sh
mount -t devtmpfs none /dev
mount -t proc none /proc
until [ -b /dev/nvme0n1 ]; do sleep 1; done
echo "read $(sha256sum </dev/nvme0n1)"
poweroff -f
"""
_QEMU = (
    "qemu-system-x86_64 -M q35,accel=kvm -cpu host -m 512M -mem-path /dev/hugepages -display none"
    " -no-reboot -nic none -serial mon:stdio -kernel /boot/vmlinuz-$(uname -r) -initrd /root/initrd"
    f" -append 'console=ttyS0 rdinit=/check panic=-1' -device vfio-pci,host={_AT}"
)


def test_a_guest_inside_reads_its_disk(
    package: Path, tmp_path: Path, start: Callable[..., Guest]
) -> None:
    content = Random(1).randbytes(_DISK_BYTES)
    passed = tmp_path / "passed"
    passed.write_bytes(content)
    folder = tmp_path / "disk"
    folder.mkdir()
    other = disk.make(folder, System(package, "hugepages", packages=_PACKAGES))
    file = f"file={passed},format=raw,if=none,id=passed"
    guest = start("3G", 2, "-drive", file, *_HARDWARE, *STARTS_AGAIN, other=other)
    guest.log_in()
    guest.boots_with("hugepages=600 intel_iommu=on")
    guest.sends("reboot")
    guest.log_in()
    assert guest.does("cat /proc/sys/vm/nr_hugepages") == "600"
    device = f"/sys/bus/pci/devices/{_AT}"
    guest.does("modprobe vfio-pci && modprobe kvm-amd")
    guest.does(f"echo vfio-pci >{device}/driver_override")
    guest.does(f"echo {_AT} >{device}/driver/unbind; echo {_AT} >/sys/bus/pci/drivers_probe")
    lines = _CHECK.replace("\n", "\\n")
    guest.does(f"cd /root && printf '{lines}' >check && chmod +x check")
    guest.does("(echo check | cpio -o -H newc; cat /boot/initrd.img-$(uname -r)) >initrd")
    said = guest.does(_QEMU, LOGIN_S)
    assert f"read {sha256(content).hexdigest()}" in said
    used = guest.does("awk '/^HugePages_Free/ { print $2 }' /proc/meminfo")
    assert used == "600"
    assert guest.does("systemctl is-system-running --wait") == "running"
    guest.assert_nothing_is_wrong()
