"""What bringing up CPUs costs part by part, and which part grows with them.

A flavour that is added to FLAVOURS has its rows beside stock's when the table is made again.
"""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flatboot.analysis import cpu_work
from flatboot.analysis.cpu_work import BootParts
from flatboot.campaign import jobs
from flatboot.campaign.kept import Kept, Wanted
from flatboot.show import cpu_work_tables

FLAVOURS = ("stock", "flatboot")
#: The base that the published figures are of.
PUBLISHED_BASE = "6.12"
CPUS = (4, 16, 64, 128, 240)
#: Many virtual CPUs neither calibrate nor take ticks, which would be most of what is measured.
MANY_CPUS = "lpj=4000000 nolapic_timer"
CMDLINE = f"{MANY_CPUS} {jobs.TRACE_CMDLINE}"
#: CPUs that are online and CPUs that are possible, and how many parts that differ most are shown.
ONLINE, POSSIBLE, MOST = 16, 128, 12
DRAWN = 8
#: How many CPUs boot brings up where it leaves others for later.
FEW = 4


def wanted(flavour: str, cpus: int, online: int, base: str = "") -> Wanted:
    """Return the boot of a machine of *cpus* CPUs, of which so many are *online*."""
    if online < cpus:
        return _wanted(f"cpu_possible/online{online}", flavour, cpus, f"maxcpus={online}")
    return _wanted("cpu_bring_up", flavour, cpus, "", base)


def on_nodes(cpus: int, nodes: int) -> Wanted:
    """Return the boot of a machine of several nodes, of the base that has published figures."""
    name = f"cpu_nodes/{nodes}"
    return _wanted(name, FLAVOURS[0], cpus, "", PUBLISHED_BASE, nodes)


def with_memory(memory: str) -> Wanted:
    """Return the boot of few CPUs with so much memory, of that base."""
    name = f"cpu_memory/{memory}"
    return _wanted(name, FLAVOURS[0], FEW, "", PUBLISHED_BASE, memory=memory)


def deferred(cpus: int) -> Wanted:
    """Return the boot of a machine of *cpus* CPUs, of which boot brings up a few."""
    return _wanted(f"cpu_bring_up/defer{FEW}", "flatboot", cpus, f"cpuhp.defer={FEW}")


def _wanted(
    table: str,
    flavour: str,
    cpus: int,
    parameter: str,
    base: str = "",
    nodes: int = 1,
    memory: str = "2G",
) -> Wanted:
    return Wanted(
        table,
        flavour,
        memory,
        f"{CMDLINE} {parameter}".strip(),
        cpus=cpus,
        nodes=nodes,
        programs=(jobs.TRACE_PROGRAM,),
        spans=True,
        fills=False,
        base=base,
    )


def boots(kept: Kept) -> dict[str, list[BootParts]]:
    """Return the boots of each flavour, fewest CPUs first."""
    return cpu_work.boots([kept(wanted(name, cpus, cpus)) for name in FLAVOURS for cpus in CPUS])


def table(kept: Kept) -> Table:
    """Return what each part costs, what grows fastest first."""
    return cpu_work_tables.work_table(boots(kept))


def draw(kept: Kept, path: Path) -> None:
    """Draw the work per CPU of the parts that grow most beyond the number of CPUs."""
    cpu_work_tables.draw(boots(kept), path, DRAWN)


def possible(kept: Kept) -> Table:
    """Return which parts cost more where more CPUs are possible and no more are online."""
    return cpu_work_tables.difference(
        {
            f"{ONLINE} of {cpus}": cpu_work.boot(kept(wanted(FLAVOURS[0], cpus, ONLINE)))
            for cpus in (ONLINE, POSSIBLE)
        },
        f"Work of CPU bring-up, {ONLINE} CPUs online, of {ONLINE} and of {POSSIBLE} that are"
        " possible: instructions",
        MOST,
    )


def later(kept: Kept) -> Table:
    """Return which parts cost more on a machine whose other CPUs boot leaves for later."""
    return cpu_work_tables.difference(
        {f"{cpus} possible": cpu_work.boot(kept(deferred(cpus))) for cpus in (CPUS[0], CPUS[-1])},
        f"Work of boot with cpuhp.defer={FEW}, on {CPUS[0]} CPUs and on {CPUS[-1]}: instructions",
        MOST,
    )
