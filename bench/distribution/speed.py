"""What a distribution's users do, on the kernel with all features and on stock.

    sudo .venv/bin/python bench/distribution/speed.py            stock and flatboot, Debian's config
    sudo .venv/bin/python bench/distribution/speed.py debian     only the kernel of Debian

keeps the times in bench/distro-speed.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.common import atomic, paths, typed
from flatboot.distro import disk, distro_boot, distro_kernel
from flatboot.distro.disk import System
from flatboot.distro.distro_boot import Hardware
from flatboot.guest.machine import machine
from flatboot.kernel import bases

_KERNELS = ("stock", "flatboot")
_PROFILE = "vm"
_MEMORY = "4G"
_LIMIT_S = 3 * 3600
_PACKAGES = (
    *("fio", "gcc", "libc6-dev", "linux-perf", "postgresql", "redis-server"),
    *("redis-tools", "rt-tests", "stress-ng", "sysbench"),
)


def _path() -> Path:
    return paths.repo() / "bench/distro-speed.json"


def times(kernel: str) -> dict[str, int]:
    """Return what each row takes on *kernel*, in ns of the counting clock.

    Raises:
        FlatbootError: the guest could not be made, or did not end.
    """
    tried = distro_kernel.kernel(kernel, bases.default(), _PROFILE)
    program = Path(__file__).with_name("work.py")
    system = System(tried.package(), tried.profile, packages=_PACKAGES, program=program)
    with disk.temporary(system) as made:
        told = distro_boot.boot(made, Hardware(machine("x86_64", _MEMORY)), kernel, _LIMIT_S)
    try:
        found: dict[str, int] = json.loads(told.ran)
    except ValueError:
        sys.exit(f"the guest of {kernel} printed: {told.ran}")
    return found


def table(kept: Kept) -> Table:
    """Return each row's ratio of flatboot to stock, of the last run; no boot is made."""
    found = typed.load(_path(), dict[str, dict[str, int]])
    made = Table(title=f"Debian 13, {_MEMORY[:-1]} GiB, 1 CPU, profile {_PROFILE}")
    made.add_column("what is done")
    for heading in ("stock, ms", "flatboot, ms", "ratio"):
        made.add_column(heading, justify="right")
    stock, flatboot = (found[kernel] for kernel in _KERNELS)
    for name, its in stock.items():
        ours = flatboot[name]
        made.add_row(name, f"{its / 1e6:,.1f}", f"{ours / 1e6:,.1f}", f"{ours / its:.3f}")
    return made


def main() -> None:
    """Time each kernel that is named, and keep the times once all are there."""
    kernels = sys.argv[1:] or _KERNELS
    found = {kernel: times(kernel) for kernel in kernels}
    text = json.dumps(found, indent=1) + "\n"
    if kernels == _KERNELS:
        with atomic.new_file(_path()) as new:
            new.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
