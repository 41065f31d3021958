"""What zeroed pages save where memory is cleared at another speed, and the published machine."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from prezero import WAYS, Way, a_page
from rich.table import Table

from flatboot.campaign.kept import Kept

PAGE = 4096
#: Instructions of stock that clear a page of 4 KiB, eight bytes each.
CLEARING = PAGE / 8
#: Creating a virtual machine of 64 GB and 32 CPUs with a device passed through, whose memory is
#: pinned first: seconds, three times each, without and with pages zeroed ahead. From linux-mm, 12
#: April 2020 (https://lkml.org/lkml/2020/4/12/42).
PUBLISHED_BYTES = 64 * 2**30
PUBLISHED = {
    "VFIO, 4 KiB": ((23.5, 24.7, 24.6), (10.2, 10.3, 11.2)),
    "VFIO, 2 MiB": ((17.9, 14.8, 14.9), (1.9, 1.8, 1.9)),
}
SMALL, HUGE = PUBLISHED
#: And seconds in which such a server cleared 1 GB, from its second version, December 2020.
PUBLISHED_CLEARING = 0.2
#: Bytes a second at which kernels since February 2026 clear a huge page on EPYC Genoa, which had
#: cleared 11.8 GB a second. From the pull request of the memory management tree of that month.
TODAY = 23.6e9
#: Bytes a second at which one CPU clears memory.
BANDWIDTHS = (2e9, 5e9, 10e9, TODAY, 40e9)


@dataclass(frozen=True)
class Model:
    """Time to create such a machine: what does not depend on pages, instructions, and clearing.

    Attributes:
        rest: seconds.
        instruction: seconds.
        bandwidth: bytes a second.
    """

    rest: float
    instruction: float
    bandwidth: float

    def seconds(self, instructions: float, *, clears: bool) -> float:
        """Return the time, with so many *instructions* a page apart from clearing it."""
        clearing = PUBLISHED_BYTES / self.bandwidth if clears else 0
        return self.rest + PUBLISHED_BYTES / PAGE * instructions * self.instruction + clearing


def _ways() -> dict[str, Way]:
    return {way.title: way for way in WAYS if way.title in PUBLISHED}


def _others(kept: Kept) -> dict[str, float]:
    """Return stock's instructions a page apart from clearing it."""
    return {title: a_page(kept, "stock", way) - CLEARING for title, way in _ways().items()}


def fitted(kept: Kept) -> Model:
    """Return the model of the published machine, of three of its four times.

    What is published takes from stock the clearing alone, so huge pages with it show the rest,
    4 KiB pages with it the time of an instruction, and 4 KiB pages without it the bandwidth.
    """
    others = _others(kept)
    small, huge = (mean(PUBLISHED[title][1]) for title in (SMALL, HUGE))
    pages = PUBLISHED_BYTES / PAGE
    instruction = (small - huge) / (pages * (others[SMALL] - others[HUGE]))
    rest = huge - pages * others[HUGE] * instruction
    bandwidth = PUBLISHED_BYTES / (mean(PUBLISHED[SMALL][0]) - small)
    return Model(rest, instruction, bandwidth)


def check(kept: Kept) -> Table:
    """Return the published times beside the model's, and what it expects of flatboot."""
    model, others = fitted(kept), _others(kept)
    made = Table(
        title="Creating a machine of 64 GB with a device passed through, seconds",
        caption=(
            f"the model: {model.rest:.1f} s of its own, {1 / model.instruction / 1e9:.1f}"
            f" instructions a ns, memory cleared at {model.bandwidth / 1e9:.1f} GB/s (published"
            f" apart from that: {1 / PUBLISHED_CLEARING:.1f} GB/s)"
        ),
    )
    made.add_column("memory")
    for title in ("published", "model", "published, zeroed ahead", "model", "model, flatboot"):
        made.add_column(title, justify="right")
    for title, way in _ways().items():
        without, ahead = (mean(times) for times in PUBLISHED[title])
        ours = a_page(kept, "prezero=on", way)
        made.add_row(
            title,
            f"{without:.1f}",
            f"{model.seconds(others[title], clears=True):.1f}",
            f"{ahead:.1f}",
            f"{model.seconds(others[title], clears=False):.1f}",
            f"{model.seconds(ours, clears=False):.1f}",
        )
    return made


def table(kept: Kept) -> Table:
    """Return how many times faster such a machine is created, by the speed of clearing."""
    published, others = fitted(kept), _others(kept)
    made = Table(
        title="How many times faster than stock a machine of 64 GB is created, by the model",
        caption=f"the published machine cleared {published.bandwidth / 1e9:.1f} GB a second",
    )
    made.add_column("memory cleared at")
    for title in PUBLISHED:
        made.add_column(title, justify="right")
    ours = {title: a_page(kept, "prezero=on", way) for title, way in _ways().items()}
    whose = {
        TODAY: ", a server with a kernel of today",
        published.bandwidth: ", the published machine",
    }
    for bandwidth in sorted((*BANDWIDTHS, published.bandwidth)):
        model = Model(published.rest, published.instruction, bandwidth)
        ratios = (
            model.seconds(others[title], clears=True) / model.seconds(ours[title], clears=False)
            for title in PUBLISHED
        )
        title = f"{bandwidth / 1e9:.1f} GB/s{whose.get(bandwidth, '')}"
        made.add_row(title, *(f"{ratio:.1f}" for ratio in ratios))
    return made
