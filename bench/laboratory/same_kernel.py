"""Boots of one kernel on the wall clock, with which the unit tests compare it against itself.

    .venv/bin/python bench/laboratory/same_kernel.py            60 boots, some minutes
    .venv/bin/python bench/laboratory/same_kernel.py --runs 5

writes tests/data/compare/same-kernel.csv: a row a boot, a column a phase, all in ns. Nothing else
should run meanwhile, but the test does not need it: what disturbs a boot disturbs either side. A
phase whose mark was missed is empty.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from flatboot.common import atomic, progress
from flatboot.guest import boot
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel.build import KernelName
from flatboot.record import phases

DATA = Path(__file__).parents[2] / "tests" / "data" / "compare" / "same-kernel.csv"
MEMORY = "512M"


def main() -> None:
    """Boot, and write the table when all boots are done."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    spec = BootSpec(KernelName("stock", "bench"), machine(memory=MEMORY), clock="wall", phases=True)
    rows = []
    with progress.step(f"booting {MEMORY} {runs} times", total=runs) as step:
        for done in range(runs):
            record = boot.boot(spec)
            rows.append(phases.by_name(record.phases))
            step.update(done + 1)
    with atomic.new_file(DATA) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, dict.fromkeys(name for row in rows for name in row))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
