"""What each group is for, and what it takes to have it."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.kernel import bases, groups, kconfig


def table(kept: Kept) -> Table:
    """Return what each group gives, needs and is chosen by; no boot is looked at."""
    made = Table(title="The groups")
    for heading in ("group", "what for", "gives", "needs", "options", "parameters"):
        made.add_column(heading)
    for group in groups.every():
        had = [base for base in bases.with_hooks() if group.serves(base)]
        # Most are for the default base alone.
        name = group.name if bases.default() in had else f"{group.name} ({', '.join(had)})"
        words = (group.needs, kconfig.options(group), group.parameters)
        made.add_row(name, group.title, group.gives, *(", ".join(each) or "none" for each in words))
    return made
