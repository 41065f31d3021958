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
#: What the loader calls itself in the boot protocol of x86; 13 is kexec.
_LOADER = Path("/proc/sys/kernel/bootloader_type")
_KEXEC = "13"


def from_reset(loader: Path = _LOADER) -> int:
    """Return the ns from the zero of the processor's counter to that of the kernel's clock.

    The counter begins at the reset of the machine, or when a virtual machine starts. perf tells how
    the kernel's clock follows it. 0 if that cannot be had, or if kexec started the kernel.
    """
    try:
        if loader.read_text().strip() == _KEXEC:
            return 0
    except OSError:
        pass
    call = _CALLS.get(platform.machine())
    return max(-_time_zero(call), 0) if call else 0


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
