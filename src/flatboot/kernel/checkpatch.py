"""The kernel's own checkpatch, from the base tree, with the project's few exceptions."""

from __future__ import annotations

import fnmatch
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import paths, processes
from flatboot.common.errors import FlatbootError

_REPORT = re.compile(r"^(\S+?):(\d+): (ERROR|WARNING|CHECK):(\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """One complaint of checkpatch: where, and what kind."""

    file: str
    line: int
    level: str
    kind: str
    text: str

    def __str__(self) -> str:
        """Return the complaint as one line."""
        return f"{self.file}:{self.line}: {self.level}:{self.kind}: {self.text}"


def check(tree: Path, folder: Path, files: Sequence[str], *options: str) -> list[Report]:
    """Return what ``checkpatch --strict`` of *tree* says of *files* in *folder*, less exceptions.

    *options* are further options of checkpatch, such as ``--file``. The exceptions are the lines
    of kernel/checkpatch-exceptions.

    Raises:
        FlatbootError: checkpatch itself failed.
    """
    if not files:
        return []
    script = tree / "scripts" / "checkpatch.pl"
    fixed = ("--strict", "--terse", "--show-types", "--no-summary")
    whole = [folder / file for file in files]
    # It leaves a list of the tree's CamelCase names in the folder that it runs in.
    with tempfile.TemporaryDirectory(prefix="flatboot-checkpatch-") as scratch:
        try:
            output = processes.run(
                ["perl", script, f"--root={tree}", *fixed, *options, *whole],
                what="checkpatch",
                cwd=Path(scratch),
            )
        except processes.CommandFailed as error:
            output = error.output
            if not _REPORT.search(output):
                raise
    reports = [
        Report(str(Path(match[1]).relative_to(folder)), int(match[2]), match[3], match[4], match[5])
        for match in _REPORT.finditer(output)
    ]
    excepted = exceptions()
    return [
        report
        for report in reports
        if not any(
            report.kind == kind and fnmatch.fnmatch(report.file, pattern)
            for kind, pattern in excepted
        )
    ]


def exceptions() -> list[tuple[str, str]]:
    """Return the kind and file pattern of each complaint that is let pass.

    Raises:
        FlatbootError: a line has no reason.
    """
    file = paths.kernel_dir() / "checkpatch-exceptions"
    found = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            words = line.split(None, 2)
            if len(words) < 3:
                raise FlatbootError(f"{file}:{number} must be KIND PATTERN REASON")
            found.append((words[0], words[1]))
    return found
