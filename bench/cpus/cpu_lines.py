"""Lines of cache that CPUs take from each other as they come up: a cost that is no instruction.

Of the base that the published figures are of, whose rows they are set against.
"""

from __future__ import annotations

import cpu_project
from cpu_bring_up import MANY_CPUS, PUBLISHED_BASE
from rich.table import Table

from flatboot.analysis import projection_rules
from flatboot.campaign.kept import Kept, Wanted
from flatboot.common import units
from flatboot.record.record import Record
from flatboot.show.report_tables import add, table

#: So few lines explain nothing.
FEW = 1e6
#: CPUs and nodes.
BOOTS = ((64, 1), (128, 1), (240, 1), (240, 16))
#: What wants them, by the name of the published row, and its functions.
PARTS = {
    "#204 vmstat": ("refresh_zone_stat_thresholds",),
    "#198 workqueue_online_cpu": ("workqueue_online_cpu", "unbound_wq_update_pwq"),
    "SMP init, others": ("set_cpu_sibling_map",),
    "sched_init_domains": (
        *("build_sched_domains", "__bitmap_equal", "__bitmap_intersects"),
        *("cpu_smt_mask", "cpu_clustergroup_mask", "cpu_coregroup_mask"),
    ),
    "cacheinfo_sysfs_init": ("populate_cache_leaves",),
}


def boot(kept: Kept, cpus: int, nodes: int) -> Record:
    """Return the boot of stock on a machine of so many CPUs and nodes."""
    return kept(
        Wanted(
            "cpu_lines",
            "stock",
            "2G",
            MANY_CPUS,
            cpus=cpus,
            nodes=nodes,
            functions="lines",
            base=PUBLISHED_BASE,
        )
    )


def _lines(record: Record, name: str) -> int:
    return sum(record.functions.get(function, 0) for function in PARTS[name])


def lines(kept: Kept) -> Table:
    """Return how many lines come over in each boot."""
    made = table(
        f"Linux {PUBLISHED_BASE}: lines of cache that come over from other CPUs",
        ["what wants them"],
        [f"{cpus} CPUs, {units.many(nodes, 'node')}" for cpus, nodes in BOOTS],
    )
    records = [boot(kept, cpus, nodes) for cpus, nodes in BOOTS]
    for name in PARTS:
        add(made, name, *(f"{_lines(record, name):,}" for record in records))
    return made


def published(kept: Kept) -> Table:
    """Return what a line would take, if lines were what the instructions of a row leave open."""
    found = cpu_project.projected(kept, PUBLISHED_BASE)
    stock = found.rules.ways[0]
    cpus, nodes = BOOTS[-1]
    record = boot(kept, cpus, nodes)
    made = table(
        f"{cpu_project.MACHINE.cpus:,} CPUs: published seconds, and what is left for lines",
        ["row"],
        ["published", "projected", "left", "lines, millions", "ns a line"],
    )
    for row in projection_rules.published():
        estimate = found.row(row, stock)
        if row.name not in PARTS or estimate is None or not row.before:
            continue
        # Pairs of CPUs; the nodes are as many.
        assert row.nodes == nodes
        count = _lines(record, row.name) * (row.cpus / cpus) ** 2
        left = row.before - estimate.value
        each = f"{left / count * 1e9:,.0f}" if count > FEW else ""
        figures = (f"{row.before:g}", f"{estimate.value:.2f}", f"{left:.2f}")
        add(made, row.name, *figures, f"{count / 1e6:,.1f}", each)
    return made
