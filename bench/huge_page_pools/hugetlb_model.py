"""Why more threads stop to help when a pool of huge pages grows, and what the kernel would pick."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

import numpy as np
from rich.table import Table
from scipy.optimize import minimize

from flatboot.campaign.kept import Kept
from flatboot.common import paths
from flatboot.guest import cprogram

#: Seconds in which so many threads allocate 1 TiB of pages of 2 MiB, and CPUs: from the commit
#: message of hugepage_alloc_threads=, linux-mm, 27 February 2025.
PUBLISHED: dict[str, dict[int, float]] = {
    "Skylake, 144 CPUs": {8: 44, 16: 22, 32: 16, 64: 19, 128: 20},
    "Cascade Lake, 192 CPUs": {8: 39, 16: 20, 32: 11, 64: 10, 128: 9},
}
CPUS = {"Skylake, 144 CPUs": 144, "Cascade Lake, 192 CPUs": 192}
#: So many waiting CPUs add half of what waiting CPUs can add to how long the lock is held.
HALF = 4.0
#: Length of a round that tries something, in seconds, and how many times as long others are
#: (mm/hugetlb_grow.c, mm/hugetlb_tune.h), and with how many threads it begins.
ROUND, STAY, BEGIN = 0.008, 8, 2
_STARTS = ((350.0, 10.0, 8.0), (350.0, 5.0, 15.0))


@dataclass(frozen=True)
class Machine:
    """What it takes to allocate all pages of a pool; everything in seconds of one CPU.

    Attributes:
        alone: what threads do side by side.
        locked: what they do one at a time, under a lock that nobody else wants.
        waited: by how much that takes longer when very many wait for the lock.
    """

    alone: float
    locked: float
    waited: float

    def seconds(self, threads: int) -> float:
        """Return how long *threads* threads take: a closed queue with one server.

        The mean number at the lock is Reiser's mean value analysis. What the lock's holder takes
        and how many wait for it depend on each other, so that is found by iteration.
        """
        held = self.locked
        for _ in range(200):
            queue = rate = 0.0
            for customers in range(1, threads + 1):
                stay = held * (1 + queue)
                rate = customers / (self.alone + stay)
                queue = rate * stay
            waiting = max(0.0, queue - rate * held)
            longer = self.locked + self.waited * waiting / (waiting + HALF)
            if abs(longer - held) < 1e-9:
                break
            held = 0.7 * held + 0.3 * longer
        return 1 / rate


@cache
def fitted(name: str) -> Machine:
    """Return the machine whose times are nearest to the published ones, by squares of ratios."""
    published = PUBLISHED[name]

    def far(logs: np.ndarray) -> float:
        machine = Machine(*map(float, np.exp(logs)))
        return sum(log(machine.seconds(n) / seconds) ** 2 for n, seconds in published.items())

    found = [
        minimize(far, np.log(start), method="Nelder-Mead", options={"maxiter": 2000})
        for start in _STARTS
    ]
    return Machine(*map(float, np.exp(min(found, key=lambda one: one.fun).x)))


def search(rates: Sequence[float], rounds: int, idle: bool) -> list[tuple[int, bool]]:
    """Run the kernel's own search on a machine.

    Args:
        rates: what 1, 2, 3, … threads get done in a unit of time.
        rounds: how many rounds.
        idle: whether nobody else wants the CPUs, as at boot.

    Returns:
        The threads of each round, and whether the search stayed with them.
    """
    header = paths.kernel_dir() / "huge-page-pools" / "overlay" / "mm" / "hugetlb_tune.h"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror"]
    source = Path(__file__).parent / "hugetlb_tune.c"
    program = cprogram.compiled("bench/hugetlb_tune", "gcc", flags, source, [header])
    units = [str(round(rate * 1e9)) for rate in rates]
    done = subprocess.run(
        [program, str(BEGIN), str(int(idle)), str(rounds), *units],
        capture_output=True,
        text=True,
        check=True,
    )
    words = [line.split() for line in done.stdout.splitlines()]
    return [(int(threads), stays == "1") for threads, stays in words]


def auto(seconds: Mapping[int, float]) -> tuple[int, float]:
    """Return the threads that the search stays with first, and how long all of it takes.

    Args:
        seconds: how long 1, 2, 3, … threads take for all of it.
    """
    rates = [1 / seconds[threads] for threads in sorted(seconds)]
    left, elapsed, chosen = 1.0, 0.0, 0
    rounds = search(rates, round(2 * max(seconds.values()) / ROUND), idle=True)
    for threads, stays in rounds:
        length = ROUND * (STAY if stays else 1)
        done = min(left, length / seconds[threads])
        elapsed += done * seconds[threads]
        left -= done
        if stays and not chosen:
            chosen = threads
        if left <= 0:
            break
    return chosen, elapsed


def table(kept: Kept) -> Table:
    """Return the published times beside those of the model, and what the search does there."""
    made = Table(
        title="1 TiB of 2 MiB pages: seconds",
        caption="auto: the kernel's own search, compiled for this program, on the model; best: the"
        " fewest threads in the least time, to a tenth of a second; threads of all nodes together",
    )
    made.add_column("threads", justify="right")
    for name in PUBLISHED:
        made.add_column(name, justify="right")
        made.add_column("model", justify="right")
    machines = {name: fitted(name) for name in PUBLISHED}
    for threads in next(iter(PUBLISHED.values())):
        cells = []
        for name, published in PUBLISHED.items():
            cells += [f"{published[threads]:g}", f"{machines[name].seconds(threads):.1f}"]
        made.add_row(str(threads), *cells, end_section=threads == 128)
    cells = []
    for name, machine in machines.items():
        chosen, elapsed = auto({n: machine.seconds(n) for n in range(1, CPUS[name] + 1)})
        cells += [f"picks {chosen}", f"{elapsed:.1f}"]
    made.add_row("auto", *cells)
    cells = []
    for name, machine in machines.items():
        # By the time that is shown: beyond it the fit of each host would choose another one.
        shown = {n: round(machine.seconds(n), 1) for n in range(1, CPUS[name] + 1)}
        best = min(shown, key=shown.__getitem__)
        cells += [f"{best} threads", f"{machine.seconds(best):.1f}"]
    made.add_row("best", *cells)
    return made
