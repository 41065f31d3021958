"""A guest that fills its memory finds all of it, as early and as cheap as on stock."""

from __future__ import annotations

import itertools

import pytest
from guests import QUIET, Guests, asked, results

from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

#: A step of the fill near its end, in pages: one of the program's, or a huge page.
STEP = {"4k": 32, "thp": 512}
#: What a CPU may fill before kswapd, which it has woken, gets to run: the tick comes after 4 ms at
#: most, and a huge page takes 0.27 ms. Pages of 4 KiB are counted every 32, and kswapd runs then.
LATE = {"4k": 0, "thp": 15 * 512}
#: With QUIET lists a CPU takes a few batches of 63 pages at once.
BATCH = 63 * 4
#: The guests of the long tests: sizes, NUMA nodes, CPUs, and what they fill their memory with.
MEMORY = ("512M", "4G", "16G")
NODES = (1, 2)
CPUS = (1, 2)
SIZES = ("4k", "thp")
#: The same; one of them takes minutes.
ONE_SIZE = [pytest.param("4k", marks=pytest.mark.long), "thp"]
#: What a kernel may use more at one time than at another, in kB.
NOISE_KB = 2048


def check(record: Record, once: bool = False) -> dict[str, int]:
    """Check one guest's fill by itself, and its refill unless it fills *once*; return the fill."""
    fill = results(record, "fill.")
    assert fill["bad_words"] == 0
    if not once:
        again = results(record, "refill.")
        assert again["bad_words"] == 0
        assert "vm.pageoutrun" not in again
    assert fill["reclaim"] == 1
    assert fill["free_after"] >= fill["free_before"] - NOISE_KB
    assert "vm.oom_kill" not in fill
    assert fill["short_deferred"] == 0, "reclaim began while memory was left to initialise"
    return fill


def headroom(fill: dict[str, int]) -> int:
    """Return the free pages above the low watermarks when reclaim began, before it freed any."""
    stolen = fill.get("vm.pgsteal_kswapd", 0) + fill.get("vm.pgsteal_direct", 0)
    return fill["left"] + fill["listed"] - stolen


def compare(ours: dict[str, int], reference: dict[str, int], slack: int, late: int) -> None:
    """Check that reclaim began no earlier than in the reference.

    It began with no more memory left, within twice *slack* pages (a step just done, and one that
    did not fit into what was left), and with no fewer pages filled, within *slack* and *late*,
    those that were filled before kswapd got to run. Nobody reclaims by himself who does not in the
    reference, but for each huge page more of those.
    """
    assert headroom(ours) <= max(headroom(reference), 0) + 2 * slack
    at_start = max(reference["free_before"] - ours["free_before"], 0) // 4
    assert at_start <= NOISE_KB / 4
    point, its_point = (fill["clean_pages"] + fill["listed"] for fill in (ours, reference))
    assert point >= its_point - at_start - slack - late
    stalls = {event for event in ours if event.startswith("vm.allocstall")}
    ahead = max(point - its_point, 0) // STEP["thp"] if late else 0
    assert sum(ours[event] for event in stalls - set(reference)) <= ahead


def fill_both(
    guests: Guests,
    memory: str,
    nodes: int,
    cpus: int,
    size: str,
    mode: str,
    config: str = "users",
    once: bool = False,
) -> None:
    """Fill a guest, and one that waited: of stock, or of the same kernel for the debug config."""
    programs = (*QUIET, f"fill {size} {cpus}{' once' * once}")
    other: tuple[str, str | None] = ("flatboot", "wait") if config == "debug" else ("stock", None)
    ours, reference = (
        asked(flavour, memory, programs, which, cpus, nodes, config, clock="exact")
        for flavour, which in (("flatboot", mode), other)
    )
    slack = (STEP[size] + BATCH) * cpus
    mine = check(guests(ours), once)
    compare(mine, check(guests(reference), once), slack, LATE[size] * cpus)
    assert mine["still_deferred"] == 0


#: Each size, mode and number of CPUs with each other one; the rest runs with the long tests.
PAIRS = {("4k", "lazy", 1), ("thp", "background", 1), ("4k", "background", 2), ("thp", "lazy", 2)}


@pytest.mark.parametrize(
    ("size", "mode", "cpus"),
    [
        pytest.param(*each, marks=[] if each in PAIRS else pytest.mark.long)
        for each in itertools.product(SIZES, ("lazy", "background"), CPUS)
    ],
)
def test_512m(guests: Guests, cpus: int, size: str, mode: str) -> None:
    fill_both(guests, f"{256 * (1 + cpus)}M", cpus, cpus, size, mode)


def fill_once_on_debug(guests: Guests, memory: str, nodes: int, cpus: int, size: str) -> None:
    """Fill a guest of the debug kernel, which is slow, once."""
    programs = (*QUIET, f"fill {size} {cpus} once")
    fill = asked("flatboot", memory, programs, "lazy", cpus, nodes, config="debug")
    assert check(guests(fill), once=True)["still_deferred"] == 0


def test_debug_512m_once(guests: Guests) -> None:
    fill_once_on_debug(guests, "768M", 2, 2, "thp")


@pytest.mark.parametrize("size", ONE_SIZE)
def test_on_both_sides_of_4_gib(guests: Guests, size: str) -> None:
    """A third of the memory lies behind the addresses of devices, on the second node."""
    fill_both(guests, "3G", 2, 2, size, "lazy", once=True)


@pytest.mark.parametrize("size", SIZES)
def test_with_lists_and_boosts_as_they_are(guests: Guests, size: str) -> None:
    check(guests(asked("flatboot", "768M", (f"fill {size} 2",), "lazy", cpus=2, nodes=2)))


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_debug_512m_two_nodes(guests: Guests, size: str) -> None:
    fill_both(guests, "768M", 2, 2, size, "lazy", "debug")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cpus", CPUS)
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("memory", MEMORY)
def test_matrix(guests: Guests, memory: str, nodes: int, cpus: int, size: str) -> None:
    fill_both(guests, memory, nodes, cpus, size, "lazy")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cpus", CPUS)
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("memory", MEMORY)
def test_debug_matrix(guests: Guests, memory: str, nodes: int, cpus: int, size: str) -> None:
    fill_once_on_debug(guests, memory, nodes, cpus, size)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", SIZES)
def test_background_16g(guests: Guests, size: str) -> None:
    fill_both(guests, "16G", 2, 2, size, "background")
