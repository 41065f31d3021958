"""Who asks what a group changes the answer to, by kinds; no boot is looked at."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.kernel import callers, groups


def memory_map(kept: Kept) -> Table:
    """Return how many functions of each kind ask whether there is memory or a struct page."""
    return _table("memory-map", "Functions that ask, on x86-64 and arm64, and what is true of them")


def cpus(kept: Kept) -> Table:
    """Return how many functions of each kind look at the CPUs that are online."""
    return _table("cpu-groups", "Functions that look at the CPUs that are up, and what they do")


def _table(name: str, title: str) -> Table:
    (group,) = (group for group in groups.every() if group.name == name)
    made = Table(title=title)
    made.add_column("what they do")
    made.add_column("functions", justify="right")
    made.add_column("files", justify="right")
    for kind in callers.known(group).kinds.values():
        named = [len(functions) for functions in kind.callers.values()]
        made.add_row(kind.why, str(sum(named)), str(len(named)))
    return made
