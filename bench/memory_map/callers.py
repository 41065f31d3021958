"""Who asks whether there is memory or a struct page, by kinds."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.kernel import callers, groups


def table(kept: Kept) -> Table:
    """Return how many functions there are of each kind, of callers.toml; no boot is looked at."""
    (group,) = (group for group in groups.every() if group.name == "memory-map")
    made = Table(title="Functions that ask, on x86-64 and arm64, and what is true of them")
    made.add_column("what they do")
    made.add_column("functions", justify="right")
    made.add_column("files", justify="right")
    for kind in callers.known(group).kinds.values():
        named = [len(functions) for functions in kind.callers.values()]
        made.add_row(kind.why, str(sum(named)), str(len(named)))
    return made
