"""What `flatboot test --group G` found last, for each group."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.cli import selftest_groups
from flatboot.common import paths


def table(kept: Kept) -> Table:
    """Return what became of the tests of each group; no boot is looked at."""
    return selftest_groups.table(selftest_groups.outcomes(paths.repo()))
