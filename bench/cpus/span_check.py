"""How long the check of scheduler domains' spans takes on this machine, by its own clock.

    .venv/bin/python bench/cpus/span_check.py

keeps the times in bench/span-check.json. The projection counts instructions of machines with up to
240 CPUs; here the masks are as wide as those of the machines that figures were published for.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from rich.table import Table

from flatboot.analysis import projection_rules
from flatboot.campaign.kept import Kept
from flatboot.common import atomic, paths, processes, typed
from flatboot.guest import cprogram
from flatboot.show.report_tables import add, table

_RUNS = 9
#: CPUs and nodes: the largest of our own boots, and the machines that were published.
_MACHINES = ((240, 1), (1780, 16), (1792, 28))
#: As the kernel is compiled.
_FLAGS = ("-O2", "-fno-tree-vectorize", "-mindirect-branch=thunk-inline")


def _path() -> Path:
    return paths.repo() / "bench/span-check.json"


def measure(cpus: int, nodes: int) -> tuple[int, float]:
    """Return how many pairs of masks one check compares, and the median of its ns."""
    program = cprogram.compiled("bench/span-check", "gcc", _FLAGS, Path(__file__).with_suffix(".c"))
    command = [str(program), str(cpus), str(nodes)]
    ran = [processes.run(command, what="the check of spans").split() for _ in range(_RUNS)]
    return int(ran[0][0]), statistics.median(float(ns) for _, ns in ran)


def spans(kept: Kept) -> Table:
    """Return what a pair takes, of the last run, beside what was published; no boot is made."""
    found = typed.load(_path(), dict[str, tuple[int, float]])
    made = table(
        "The check of scheduler domains' spans, by the wall clock",
        ["CPUs", "nodes"],
        ["millions of pairs", "seconds", "ns a pair", "published", "ns a pair there"],
    )
    made.caption = f"medians of {_RUNS}; published: what a kernel without the check saved"
    saved = {
        (row.cpus, row.nodes): row.before - row.after
        for row in projection_rules.published()
        if row.phases == ("scheduler domains",) and row.before and row.after
    }
    for cpus, nodes in _MACHINES:
        pairs, ns = found[f"{cpus}/{nodes}"]
        figures = [f"{pairs / 1e6:.2f}", f"{ns / 1e9:.2f}", f"{ns / pairs:.0f}"]
        if (cpus, nodes) in saved:
            told = saved[cpus, nodes]
            figures += [f"{told:.2f}", f"{told * 1e9 / pairs:.0f}"]
        add(made, f"{cpus:,}", str(nodes), *figures)
    return made


if __name__ == "__main__":
    measured = {f"{cpus}/{nodes}": measure(cpus, nodes) for cpus, nodes in _MACHINES}
    with atomic.new_file(_path()) as temporary:
        temporary.write_text(json.dumps(measured, indent=1) + "\n")
