"""Which test caught each mutant of tests/mutants/, from what `flatboot test --mutants` kept."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.cli import selftest_mutants
from flatboot.common import paths


def table(kept: Kept) -> Table:
    """Return the mutants and who caught them; no boot is looked at."""
    root = paths.repo()
    return selftest_mutants.table(
        selftest_mutants.mutants(root, None), selftest_mutants.outcomes(root)
    )
