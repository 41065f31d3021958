"""What bringing up CPUs costs part by part, and which part grows with them.

A flavour that is added to FLAVOURS has its rows beside stock's when the table is made again.
"""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot import cpu_work, sweep
from flatboot.cpu_work import Boot
from flatboot.kept import Kept, Wanted

FLAVOURS = ("stock", "flatboot")
CPUS = (4, 16, 64, 128, 240)
#: Many virtual CPUs neither calibrate nor take ticks, which would be most of what is measured.
CMDLINE = f"lpj=4000000 nolapic_timer {sweep.TRACE_CMDLINE}"
#: CPUs that are online and CPUs that are possible, and how many parts that differ most are shown.
ONLINE, POSSIBLE, MOST = 16, 128, 12
DRAWN = 8


def wanted(flavour: str, cpus: int, online: int) -> Wanted:
    """Return the boot of a machine of *cpus* CPUs, of which so many are *online*."""
    limited = online < cpus
    return Wanted(
        f"cpu_bring_up/online{online}" if limited else "cpu_bring_up",
        flavour,
        "2G",
        f"{CMDLINE} maxcpus={online}" if limited else CMDLINE,
        cpus=cpus,
        programs=(sweep.TRACE_PROGRAM,),
        spans=True,
        fills=False,
    )


def boots(kept: Kept) -> dict[str, list[Boot]]:
    """Return the boots of each flavour, fewest CPUs first."""
    return cpu_work.boots([kept(wanted(name, cpus, cpus)) for name in FLAVOURS for cpus in CPUS])


def table(kept: Kept) -> Table:
    """Return what each part costs, what grows fastest first."""
    return cpu_work.work_table(boots(kept))


def draw(kept: Kept, path: Path) -> None:
    """Draw the work per CPU of the parts that grow most beyond the number of CPUs."""
    cpu_work.draw(boots(kept), path, DRAWN)


def possible(kept: Kept) -> Table:
    """Return which parts cost more where more CPUs are possible and no more are online."""
    return cpu_work.difference(
        {
            f"{ONLINE} of {cpus}": cpu_work.boot(kept(wanted(FLAVOURS[0], cpus, ONLINE)))
            for cpus in (ONLINE, POSSIBLE)
        },
        f"Work of CPU bring-up, {ONLINE} CPUs online, of {ONLINE} and of {POSSIBLE} that are"
        " possible: instructions",
        MOST,
    )
