"""What a reboot by kexec costs that hands memory over to the next kernel (live update)."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record.excerpts import Reads

SIZES = ("2G", "64G", "1T")
WAYS = {"stock": "", "flatboot": "deferred_init=lazy"}
#: What is kept for the next kernel does not depend on the size of memory here.
HANDOVER = "kho=on kho_scratch=64M,256M,256M"
CONSOLE = "console=ttyS0 quiet panic=-1 tsc=reliable reboot=t"
READS = Reads(results=("ticks.kexec",))


def wanted(flavour: str, memory: str) -> Wanted:
    """Return a boot and its reboot, in which both kernels have the same parameters."""
    cmdline = f"{HANDOVER} {WAYS[flavour]}".strip()
    return Wanted(
        "handover",
        flavour,
        memory,
        cmdline,
        config="handover",
        next_cmdline=f"{CONSOLE} {cmdline}",
        reads=READS,
    )


def table(kept: Kept) -> Table:
    """Return the instructions from kexec -e to the next kernel's /init, by size."""
    made = Table(
        title="Kexec handover: instructions from kexec -e to the next /init",
        caption="one CPU, exact clock; 8 MiB are preserved, and checked before /init",
    )
    made.add_column("kernels")
    for memory in SIZES:
        made.add_column(units.binary_size(units.size(memory)), justify="right")
    made.add_column("1 TiB to 2 GiB", justify="right")
    for flavour in WAYS:
        boots = [wanted(flavour, memory) for memory in SIZES]
        records = [kept(boot) if kept.can(boot) else None for boot in boots]
        costs = [
            record.to_init - int(record.results["ticks.kexec"]) if record else None
            for record in records
        ]
        first, last = costs[0], costs[-1]
        ratio = f"{last / first:.3f}" if first and last else ""
        made.add_row(flavour, *(f"{cost:,}" if cost else "" for cost in costs), ratio)
    return made
