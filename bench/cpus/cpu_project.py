"""A machine of 1,780 CPUs, projected from the boots of cpu_bring_up: `flatboot project`."""

from __future__ import annotations

import cpu_bring_up
from rich.table import Table

from flatboot.analysis import projection, projection_rules
from flatboot.analysis.projection import MachineSize, Projection
from flatboot.campaign.kept import Kept
from flatboot.show import projection_tables

MACHINE = MachineSize(1780, 16)


def projected(kept: Kept) -> Projection:
    """Return the projection from the records of every flavour and number of CPUs."""
    rules = projection_rules.rules()
    records = [
        kept(cpu_bring_up.wanted(flavour, cpus, cpus))
        for flavour in cpu_bring_up.FLAVOURS
        for cpus in cpu_bring_up.CPUS
    ] + [kept(cpu_bring_up.deferred(cpus)) for cpus in cpu_bring_up.CPUS]
    kernels = projection.kernels(records, rules.ways)
    return Projection(kernels, rules, projection_rules.published())


def ways(kept: Kept) -> Table:
    """Return the seconds of each phase by the way that the machine boots."""
    return projection_tables.ways(projected(kept), MACHINE)


def published(kept: Kept) -> Table:
    """Return each published row beside its projection."""
    return projection_tables.published(projected(kept), projection_rules.published())


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
