"""A machine of 1,780 CPUs, projected from the boots of cpu_bring_up: `flatboot project`.

Of the default base, and of the one that the published figures are of.
"""

from __future__ import annotations

import cpu_bring_up
from cpu_bring_up import PUBLISHED_BASE
from rich.table import Table

from flatboot.analysis import cpu_work, projection, projection_rules
from flatboot.analysis.cpu_work import Part
from flatboot.analysis.projection import MachineSize, Projection
from flatboot.campaign.kept import Kept
from flatboot.common import units
from flatboot.show import projection_tables
from flatboot.show.report_tables import add, table

MACHINE = MachineSize(1780, 16)
#: CPUs, and on how many nodes.
ON_NODES = (64, (1, 2, 4, 8, 16))
#: The phase before other CPUs come up, and the memory of the machines whose phase is compared.
FIRST, MEMORY = "boot processor", ("2G", "64G", "1T")
#: What the published fixes make shorter.
FIXED = {
    Part("vmstat_cpu_online", "callback"): "thresholds of counters",
    Part("sched_init_domains", "boot"): "scheduler domains, spans checked",
}


def projected(kept: Kept, base: str = "") -> Projection:
    """Return the projection from the records of every flavour and number of CPUs."""
    rules = projection_rules.rules(base)
    boots = [
        cpu_bring_up.wanted(flavour, cpus, cpus, base)
        for flavour in cpu_bring_up.FLAVOURS
        for cpus in cpu_bring_up.CPUS
    ]
    if not base:
        boots += [cpu_bring_up.deferred(cpus) for cpus in cpu_bring_up.CPUS]
    kernels = projection.kernels([kept(boot) for boot in boots], rules.ways)
    return Projection(kernels, rules, projection_rules.published())


def ways(kept: Kept) -> Table:
    """Return the seconds of each phase by the way that the machine boots."""
    return projection_tables.ways(projected(kept), MACHINE)


def published(kept: Kept) -> Table:
    """Return each published row beside its projection."""
    return projection_tables.published(projected(kept), projection_rules.published())


def published_base(kept: Kept) -> Table:
    """Return each published row beside its projection from the base that it is of."""
    found = projected(kept, PUBLISHED_BASE)
    return projection_tables.published(found, projection_rules.published())


def fixed(kept: Kept) -> Table:
    """Return what the published fixes are of: instructions for one more CPU, few and many."""
    made = table(
        f"One more CPU on Linux {PUBLISHED_BASE}: instructions of all that boot does",
        ["what", "kernel"],
        [],
    )
    for first, last in (cpu_bring_up.CPUS[:2], cpu_bring_up.CPUS[-2:]):
        made.add_column(f"{first} to {last} CPUs", justify="right")
    made.add_column("ratio", justify="right")
    kernels = {
        name: [
            cpu_work.boot(kept(cpu_bring_up.wanted(flavour, cpus, cpus, PUBLISHED_BASE)))
            for cpus in cpu_bring_up.CPUS
        ]
        for name, flavour in (("stock", "stock"), ("published-fixes", "flatboot"))
    }
    for part, what in FIXED.items():
        for name, series in kernels.items():
            grown = cpu_work.growth(series, [part])
            assert grown
            ratio = f"{grown.ratio:.1f}" if grown.ratio else ""
            add(made, what, name, f"{grown.low:,.0f}", f"{grown.high:,.0f}", ratio)
    return made


def nodes(kept: Kept) -> Table:
    """Return what those parts cost where the same CPUs and memory are on more nodes."""
    made = table(
        f"{ON_NODES[0]} CPUs on Linux {PUBLISHED_BASE}: instructions by NUMA nodes",
        ["what"],
        [units.many(count, "node") for count in ON_NODES[1]],
    )
    boots = [cpu_work.boot(kept(cpu_bring_up.on_nodes(ON_NODES[0], n))) for n in ON_NODES[1]]
    for part, what in FIXED.items():
        add(made, what, *(f"{boot.together([part]).working:,.0f}" for boot in boots))
    return made


def memory(kept: Kept) -> Table:
    """Return how what comes before SMP init grows with memory, in instructions and as seconds."""
    rules = projection_rules.rules(PUBLISHED_BASE)
    speed = rules.terms["instructions"].value
    made = table(
        f"Linux {PUBLISHED_BASE}, stock: what the boot processor does before others come up",
        ["memory"],
        ["millions of instructions", "beyond 2 GiB", "seconds beyond 2 GiB"],
    )
    least = 0.0
    for size in MEMORY:
        boot = cpu_work.boot(kept(cpu_bring_up.with_memory(size)))
        work = boot.together(part for part in boot.costs if rules.of(part).phase == FIRST).working
        least = least or work
        more = (f"{(work - least) / 1e6:,.1f}", f"{(work - least) / speed:.2f}")
        add(made, units.binary_size(units.size(size)), f"{work / 1e6:,.1f}", *more)
    few = cpu_bring_up.FEW
    made.caption = f"{few} CPUs; seconds at {speed / 1e9:g} G instructions a second"
    return made


def asked(kept: Kept) -> Table:
    """Return each ratio that is asked for, as projected."""
    return projection_tables.verdicts(projected(kept), MACHINE)


def check(kept: Kept) -> Table:
    """Return what is projected for the boots held out, and what they cost."""
    return projection_tables.check(projected(kept))


def terms(kept: Kept) -> Table:
    """Return the terms that the exact clock does not see."""
    return projection_tables.terms(projected(kept))


def dearest(kept: Kept) -> Table:
    """Return the parts that cost each way most."""
    return projection_tables.dearest(projected(kept), MACHINE)
