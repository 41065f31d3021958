"""How much code each group is."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.kernel import bases, groups, layer, lines


def table(kept: Kept) -> Table:
    """Return the lines of code of each group; no boot is looked at."""
    base = bases.default()
    made = Table(title="Lines of code, without comments, documentation, tests and tracepoints")
    made.add_column("group")
    for heading in ("patches", "files of its own", "hooks", "together"):
        made.add_column(heading, justify="right")
    for group in groups.chosen(base):
        own, hooked = lines.own_files(group, base), lines.hooks(group, base)
        counts = (len(layer.series(group.hooks(base))), own, hooked, own + hooked)
        made.add_row(group.name, *(f"{count:,}" for count in counts))
    return made
