"""Whether KVM really runs a kernel here: asked by booting one, and remembered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from pathlib import Path

from flatboot.common import atomic, paths
from flatboot.common.errors import FlatbootError
from flatboot.guest import boot_spec, guest_run, initramfs
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.guest_run import Guest
from flatboot.guest.guestlog import parse
from flatboot.guest.machine import machine

LIMIT_S = 10.0
_DEVICE = Path("/dev/kvm")


async def works(guest: Guest) -> bool:
    """Tell whether the kernel of *guest* boots to the end under KVM on this host in 10 seconds.

    A /dev/kvm that opens proves nothing: a nested, paravirtualised host may run firmware and hang
    in the kernel, or refuse a register, on which QEMU ends before the guest begins. The machine is
    a small one, without the guest's own parameters and devices. The answer is remembered for this
    host kernel, QEMU and guest kernel.
    """
    if platform.machine() not in guest.arch.native_hosts or not os.access(
        _DEVICE, os.R_OK | os.W_OK
    ):
        return False
    kernel = boot_spec.digest(guest.kernel)
    key = [platform.release(), platform.version(), guest.able.version, guest.arch.name, kernel]
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    remembered = paths.cache() / "kvm" / f"{name}.json"
    if remembered.exists():
        return bool(json.loads(remembered.read_text())["works"])
    with guest_run.memory_file("probe", initramfs.make(guest.arch, (), "wall")) as initrd:
        probe = dataclasses.replace(
            guest,
            spec=BootSpec(
                guest.spec.kernel, machine(guest.arch.name), clock="wall", timeout_s=LIMIT_S
            ),
            initrd=initrd,
            accelerator="kvm",
        )
        try:
            answer = parse((await guest_run.run(probe)).console).complete
        except FlatbootError:
            answer = False
    with atomic.new_file(remembered) as temporary:
        temporary.write_text(json.dumps({"works": answer, "for": key}) + "\n")
    return answer
