"""When this machine's kernel started its clock, by the processor's counter."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from pathlib import Path

#: perf_event_open(2), by machine.
_CALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 128
#: An event that counts nothing: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.
_SOFTWARE, _DUMMY = 1, 9
#: In struct perf_event_mmap_page: whether there is time_zero, and it, in bytes from its start.
_CAPABILITIES, _TIME_ZERO = 40, 64
_HAS_TIME_ZERO = 1 << 4
#: Number and version of the loader in the boot protocol of x86, four bits for the version.
_LOADER = Path("/proc/sys/kernel/bootloader_type")
_KEXEC = 0xD
#: What kexec leaves in the device tree.
_CHOSEN = Path("/proc/device-tree/chosen/linux,booted-from-kexec")


def from_reset(loader: Path = _LOADER, chosen: Path = _CHOSEN) -> int:
    """Return the ns from the zero of the processor's counter to that of the kernel's clock.

    The counter begins at the reset of the machine, or when a virtual machine starts. perf tells how
    the kernel's clock follows it. 0 if that cannot be had, or if kexec started the kernel.
    """
    call = _CALLS.get(platform.machine())
    if call is None or by_kexec(loader, chosen):
        return 0
    return max(-_time_zero(call), 0)


def by_kexec(loader: Path, chosen: Path) -> bool:
    """Return whether kexec started the kernel, by what *loader* or *chosen* says."""
    return chosen.exists() or (loader.exists() and int(loader.read_text()) >> 4 == _KEXEC)


def _time_zero(call: int) -> int:
    """Return the kernel's time at the zero of the counter, in ns, which is negative; 0: unknown."""
    attribute = ctypes.create_string_buffer(
        struct.pack("=IIQ", _SOFTWARE, _ATTRIBUTE_BYTES, _DUMMY), _ATTRIBUTE_BYTES
    )
    any_cpu, no_group, no_flags = -1, -1, 0
    handle = ctypes.CDLL(None).syscall(call, attribute, 0, any_cpu, no_group, no_flags)
    if handle < 0:
        return 0
    try:
        with mmap.mmap(handle, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ) as page:
            return time_zero(page[:])
    except OSError:
        return 0
    finally:
        os.close(handle)


def time_zero(page: bytes) -> int:
    """Return what *page*, a struct perf_event_mmap_page, says of the zero of the counter."""
    capabilities: int = struct.unpack_from("=Q", page, _CAPABILITIES)[0]
    zero: int = struct.unpack_from("=q", page, _TIME_ZERO)[0]
    return zero if capabilities & _HAS_TIME_ZERO else 0
