"""What `flatboot kernel check` found last."""

from __future__ import annotations

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.cli import kernel_check_cli
from flatboot.common import paths


def table(kept: Kept) -> Table:
    """Return how many trials were clean, of how many; no boot is looked at."""
    return kernel_check_cli.table(kernel_check_cli.kept(paths.repo()))
