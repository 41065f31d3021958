"""A seed determines its case, a case can be booted, and all kinds of cases come up."""

from __future__ import annotations

import re

import pytest

from flatboot.campaign import fuzz_draw
from flatboot.campaign.fuzz_draw import JOBS, LAYOUTS, PARAMETERS, Draws, draw
from flatboot.guest import initramfs

SEEDS = range(1000)
CASES = [draw(seed) for seed in SEEDS]
MIB = 1 << 20


def test_a_seed_determines_its_case() -> None:
    assert [draw(seed) for seed in SEEDS] == CASES
    assert len({str(case) for case in CASES}) == len(CASES)


def test_the_draws_do_not_hang_on_the_version_of_python() -> None:
    """These are what Mersenne Twister gives for the seed, and no method of Python's around it."""
    draws = Draws(1)
    assert [draws.number(0, 99) for _ in range(4)] == [13, 84, 76, 25]


def test_numbers_stay_within_their_ends_and_reach_them() -> None:
    draws = Draws(7)
    assert {draws.number(2, 4) for _ in range(100)} == {2, 3, 4}


@pytest.mark.parametrize("layout", sorted({place for _, place in LAYOUTS}))
@pytest.mark.parametrize("vendor", ["Intel", "AMD"])
def test_every_layout_comes_up(vendor: str, layout: str) -> None:
    wanted = (vendor, layout) != ("Intel", "above 1 TiB")
    assert any(case.layout == f"{vendor}, {layout}" for case in CASES) == wanted


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in PARAMETERS} - {"page_ext"}))
def test_every_parameter_comes_up(name: str) -> None:
    with_it = [case for case in CASES if any(word.startswith(name) for word in case.parameters)]
    assert len(with_it) >= 20


@pytest.mark.parametrize(
    "pattern",
    [
        r"memmap=\d+K\$\d+K",
        r"memmap=\d+K#\d+K",
        r"memmap=\d+K!\d+K",
        r"numa=fake=\d$",
        r"numa=fake=\dU",
        r"numa=fake=\d+M",
        r"movablecore=\d+%",
        r"movablecore=\d+M",
        "page_owner=on",
        "page_table_check=on",
    ],
)
def test_every_form_of_a_parameter_comes_up(pattern: str) -> None:
    assert any(re.search(pattern, word) for case in CASES for word in case.parameters)


@pytest.mark.parametrize("job", list(JOBS))
def test_every_job_comes_up_and_not_alone_only(job: str) -> None:
    loads = [command.split()[2:] for case in CASES for command in case.load]
    with_it = [load for load in loads if any(word.startswith(f"{job}:") for word in load)]
    assert any(len(load) > 1 for load in with_it)


def test_every_kind_of_machine_comes_up() -> None:
    nodes = [case.machine.nodes for case in CASES]
    others = [node for many in nodes for node in many[1:]]
    assert {case.machine.cpus for case in CASES} == {1, 2, 3, 4}
    assert {len(many) for many in nodes} == {0, 1, 2, 3, 4, 6}
    assert any(0 < node.memory_bytes < 8 * MIB for node in others)
    assert any(not node.memory_bytes and node.cpus for node in others)
    assert any(node.memory_bytes and not node.cpus for node in others)
    assert any(node.memory_bytes % (2 * MIB) for node in others)
    assert {case.mode for case in CASES} == {"lazy", "background"}


def test_guests_stay_small() -> None:
    sizes = [case.machine.memory_bytes // MIB for case in CASES]
    assert min(sizes) >= fuzz_draw.SMALLEST
    assert max(sizes) <= fuzz_draw.LARGEST


def test_the_kernel_has_room_below_4_gib_and_on_node_0() -> None:
    for case in CASES:
        low = re.search(r"max-ram-below-4g=(\d+)", " ".join(case.arguments))
        assert not low or 320 * MIB <= int(low[1]) < case.machine.memory_bytes
        assert not case.machine.nodes or case.machine.nodes[0].memory_bytes >= 320 * MIB


def test_holes_lie_in_memory_and_spare_what_boot_needs() -> None:
    starts = set()
    for case in CASES:
        low = re.search(r"max-ram-below-4g=(\d+)", " ".join(case.arguments))
        end = int(low[1]) if low else case.machine.memory_bytes
        high = {"4 GiB": 4 << 30, "1 TiB": 1 << 40}[case.layout.split(" ", 2)[2]]
        for size, at in re.findall(r"memmap=(\d+)K[$#!](\d+)K", " ".join(case.parameters)):
            start, stop = int(at) << 10, int(at) + int(size) << 10
            below = 192 * MIB <= start < stop <= end - 48 * MIB
            above = high <= start < stop <= high + case.machine.memory_bytes - end
            assert below or (low and above), case
            starts.add(start % (4 * MIB))
    # At block boundaries, and at odd pages.
    assert 0 in starts
    assert len(starts) > 100


def test_what_parameters_take_leaves_enough() -> None:
    for case in CASES:
        text = " ".join(case.parameters)
        taken = sum(int(size) for size in re.findall(r"memmap=(\d+)K", text)) >> 10
        taken += 2 * sum(int(count) for count in re.findall(r"hugepages=(\d+)", text))
        taken += sum(int(size) for size in re.findall(r"(?:crashkernel|cma)=(\d+)M", text))
        assert taken <= 0.4 * (case.machine.memory_bytes // MIB - 320) + 8


def test_a_load_uses_a_part_of_memory_and_runs_known_programs() -> None:
    for case in CASES:
        assert 1 <= len(case.load) <= 3
        for command in case.load:
            program, _, *jobs = command.split()
            assert program in initramfs.names()
            assert jobs
            fields = [job.split(":") for job in jobs]
            shares = [int(words[-1]) for words in fields if words[0] in ("4k", "thp", "file")]
            shares += [int(words[1]) for words in fields if words[0] == "huge"]
            assert sum(shares) <= 60
