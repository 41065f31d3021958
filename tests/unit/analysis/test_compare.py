"""What is told of two kernels from their boots."""

from __future__ import annotations

import csv
import dataclasses
import math
import random
from pathlib import Path
from typing import Any

import boots
import pytest
import scipy
from compared import COSTS, Change, boot, sizes, wall, with_phases

from flatboot.analysis import layout_noise, verdict
from flatboot.analysis.compare import (
    IMPROVEMENT,
    REGRESSION,
    SAME,
    THRESHOLD,
    TOTAL,
    UNDECIDED,
    Comparison,
    PhaseChange,
    compare,
)
from flatboot.common.errors import UsageError
from flatboot.record import excerpts, phases
from flatboot.record.record import Record

GIB = 1 << 30
ALPHA = 0.05
DATA = Path(__file__).parents[2] / "data" / "compare"
LAYOUT = Path(__file__).parents[3] / "bench" / "results" / "layout.json"
BIG = ("2G", "64G", "256G", "512G", "1T", "2T")


def slower(percent: float) -> Change:
    return lambda cost, gib, cpus: cost * (1 + percent / 100)


def phase(comparison: Comparison, name: str) -> PhaseChange:
    return next(phase for phase in comparison.phases if phase.name == name)


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {phase.name: phase.verdict for phase in comparison.phases}


def recorded() -> list[dict[str, int]]:
    """Return the phases of 60 wall-clock boots of one kernel, by same_kernel.py of bench."""
    return [lengths(row) for row in read_csv("same-kernel.csv")]


def measured(name: str, **which: str) -> list[Record]:
    """Return the boots of the file *name* that have these values in these columns."""
    return [
        with_phases(boots.record("stock", row["memory"], 0), lengths(row))
        for row in read_csv(name)
        if which.items() <= row.items()
    ]


def laid_out(name: str) -> list[Record]:
    """Return the boots of "stock" or "stock-control" on 2 to 64 GiB that layout.py keeps."""
    kept = excerpts.load(LAYOUT)
    return [
        with_phases(
            boots.record("stock", size, 0), phases.by_name(kept[f"{name}-{size}"].record.phases)
        )
        for size in ("2G", "16G", "64G")
    ]


def read_csv(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def lengths(row: dict[str, str]) -> dict[str, int]:
    return {name: int(length) for name, length in row.items() if length.isdigit()}


def with_kernel(records: list[Record], **fields: Any) -> list[Record]:
    return [
        dataclasses.replace(record, kernel=dataclasses.replace(record.kernel, **fields))
        for record in records
    ]


def with_machine(records: list[Record], **fields: Any) -> list[Record]:
    return [
        dataclasses.replace(record, machine=dataclasses.replace(record.machine, **fields))
        for record in records
    ]


# The exact clock.


def test_a_kernel_is_the_same_as_itself() -> None:
    comparison = compare(sizes("2G", "64G"), sizes("2G", "64G"))
    assert comparison.verdict == SAME
    assert comparison.exit_status == 0
    assert [phase.name for phase in comparison.phases] == [TOTAL, *COSTS]
    assert {phase.verdict for phase in comparison.phases} == {SAME}
    assert {phase.from_bytes for phase in comparison.phases} == {None}
    assert verdict.sentence(comparison).startswith("same: ")


@pytest.mark.parametrize(
    "name", [name for name, costs in COSTS.items() if costs[0] + 64 * costs[1] > 5e6]
)
def test_one_per_cent_of_one_phase_at_64_gib_is_found(name: str) -> None:
    changes = {name.partition(" ")[0]: slower(1)}
    comparison = compare(sizes("64G"), sizes("64G", **changes))
    assert comparison.exit_status == 1
    found = phase(comparison, name)
    assert (found.verdict, found.from_bytes) == (REGRESSION, 64 * GIB)
    assert found.fixed == pytest.approx(found.sizes[0].before / 100, abs=1)
    others = {other for other in COSTS if other != name}
    assert all(verdicts(comparison)[other] == SAME for other in others)
    faster = compare(sizes("64G", **changes), sizes("64G"))
    assert (faster.verdict, faster.exit_status) == (IMPROVEMENT, 0)


def test_less_than_the_threshold_is_the_same_and_the_threshold_can_be_set() -> None:
    before, after = sizes("64G"), sizes("64G", initcalls=slower(0.4))
    assert compare(before, after).verdict == SAME
    assert compare(before, after, threshold=0.003).verdict == REGRESSION
    # Without a control, code layout may have done less than 0.2%.
    little = sizes("64G", initcalls=slower(0.15))
    assert compare(before, little, threshold=0).verdict == SAME


def test_a_few_timer_interrupts_more_are_no_change() -> None:
    after = sizes("64G", user=lambda cost, gib, cpus: cost + 45_000)
    assert compare(sizes("64G"), after).verdict == SAME
    after = sizes("64G", user=lambda cost, gib, cpus: cost + 55_000)
    assert verdicts(compare(sizes("64G"), after))["user space"] == REGRESSION


def test_the_threshold_is_far_above_the_noise_that_was_seen() -> None:
    assert 10 * layout_noise.seen().long_phase_share <= THRESHOLD


def test_the_most_that_layout_moved_phases_by() -> None:
    small = {TOTAL: 10_000_000, "initcalls": 8_000_000, "user": 400, phases.UNATTRIBUTED: 50}
    moved = {TOTAL: 10_000_900, "initcalls": 7_999_920, "user": 490, phases.UNATTRIBUTED: 900}
    same = {TOTAL: 20_000_000, "initcalls": 9_000_000, "user": 400}
    noise = layout_noise.of([(small, moved), (same, same)])
    assert noise == layout_noise.LayoutNoise(0.00009, 90, 0.00001)
    assert "\nwhole_share = 0.000090\nphase_instructions = 90\n" in layout_noise.text(noise)


def test_a_kernel_whose_code_lies_elsewhere_is_the_same() -> None:
    before, control = laid_out("stock"), laid_out("stock-control")
    assert compare(before, control).verdict == SAME
    assert compare(before, control, control=control).verdict == SAME


@pytest.mark.parametrize(
    "name",
    [
        "firmware",
        "early memory set-up",
        "boot processor",
        "waiting for the memory map",
        "initcalls",
    ],
)
def test_one_per_cent_is_found_in_boots_that_were_measured_and_with_their_control(
    name: str,
) -> None:
    before, control = laid_out("stock"), laid_out("stock-control")
    after = []
    for record in control:
        took = {one.name: one.length for one in record.phases}
        took[name] += round(took[name] * 0.01) if record.machine.memory_bytes == 64 * GIB else 0
        after.append(with_phases(record, took))
    comparison = compare(before, after, control=control)
    changed = [one for one in comparison.phases if one.verdict == REGRESSION]
    assert [one.name for one in changed] == [name]
    assert changed[0].from_bytes == 64 * GIB
    assert comparison.exit_status == 1


def test_pages_freed_behind_the_code_are_no_change_of_what_is_unattributed() -> None:
    """What the same code at other addresses did, measured: stock 7.3.4 on 2 GiB."""
    after = sizes("2G", unattributed=lambda cost, gib, cpus: cost + 435_228)
    assert compare(sizes("2G"), after).verdict == SAME
    assert compare(sizes("2G"), after, control=after).verdict == SAME
    after = sizes("2G", unattributed=lambda cost, gib, cpus: cost + 2_100_000)
    assert verdicts(compare(sizes("2G"), after))["unattributed"] == REGRESSION


def test_the_published_regression_is_told_with_phase_size_and_ms_per_gib() -> None:
    def lost(cost: float, gib: float, cpus: int) -> float:
        return cost + 3_400_000 * gib if gib >= 1024 else cost

    comparison = compare(sizes(*BIG), sizes(*BIG, early=lost))
    found = phase(comparison, "early memory set-up")
    assert found.verdict == REGRESSION
    assert found.from_bytes == 1024 * GIB
    assert found.per_gib == pytest.approx(3_400_000)
    assert found.fixed == pytest.approx(0, abs=100)
    said = verdict.sentence(comparison)
    assert said.startswith("regression: B boots slower than A: total, reset to /init")
    assert (
        "early memory set-up +6,963.2 ms (+821.91%) on 2 TiB, seen from 1 TiB on"
        " (+3.400 ms per GiB)" in said
    )
    assert verdicts(comparison)["waiting for the memory map"] == SAME


def test_one_size_that_shows_a_change_tells_what_each_of_its_gib_costs() -> None:
    after = sizes("2G", "64G", waiting=lambda cost, gib, cpus: cost + 1e6 * gib * (gib > 2))
    found = phase(compare(sizes("2G", "64G"), after), "waiting for the memory map")
    assert found.from_bytes == 64 * GIB
    assert "+64.000 ms" in verdict.describe(found)
    assert "+1.000 ms for each GiB of it" in verdict.describe(found)


def test_a_change_that_the_largest_size_does_not_show_has_no_beginning() -> None:
    after = [*sizes("2G", initcalls=slower(5)), *sizes("64G")]
    found = phase(compare(sizes("2G", "64G"), after), "initcalls")
    assert (found.verdict, found.from_bytes) == (REGRESSION, None)


def test_a_lost_deferral_is_told_from_its_parent() -> None:
    """The boots are of a commit after which zones of over 10 GiB are set up early, and its parent.

    The commit is tests/data/bisect/lose-deferral.patch, the boots are those of
    tests/boot/laboratory/test_bisecting.py.
    """
    parent, lost = (measured("lost-deferral.csv", kernel=name) for name in ("parent", "lost"))
    found = compare(parent, lost, control=laid_out("stock-control")[:2])
    assert found.exit_status == 1
    early = phase(found, "early memory set-up")
    assert (early.verdict, early.from_bytes) == (REGRESSION, 16 * GIB)
    # A struct page is set up by 42 instructions there; a GiB has 262,144.
    assert early.per_gib == pytest.approx(11.0e6, rel=0.02)
    assert phase(found, "waiting for the memory map").verdict == IMPROVEMENT
    assert {name for name, told in verdicts(found).items() if told == REGRESSION} == {
        TOTAL,
        "early memory set-up",
    }
    sentence = verdict.sentence(found)
    assert "early memory set-up +263.2 ms" in sentence.replace(",", "")
    assert "from 16 GiB on" in sentence


def test_one_per_cent_of_one_phase_is_found_at_64_gib() -> None:
    """The boot is of stock 7.3.4 with tests/data/compare/one-per-cent.patch."""
    before, control = laid_out("stock")[2:], laid_out("stock-control")[2:]
    found = compare(before, measured("one-per-cent.csv"), control=control)
    assert found.exit_status == 1
    regressed = [name for name, told in verdicts(found).items() if told == REGRESSION]
    assert regressed == ["early memory set-up"]
    (size,) = phase(found, "early memory set-up").sizes
    assert size.after / size.before == pytest.approx(1.01, abs=0.0005)


def test_several_cpus_wait_for_each_other_and_that_is_no_change() -> None:
    def judged(cpus: int) -> str:
        before, after = boot("2G", cpus), boot("2G", cpus, unattributed=slower(100))
        return compare([before], [after]).verdict

    assert (judged(1), judged(4)) == (REGRESSION, SAME)


def test_a_cost_per_cpu_is_told_from_the_cpus_on_which_it_shows() -> None:
    machines = [(memory, cpus) for memory in ("2G", "64G") for cpus in (1, 4, 16, 64)]

    def grown(cost: float, gib: float, cpus: int) -> float:
        return cost + 500_000 * cpus if cpus >= 16 else cost

    before = [boot(*one) for one in machines]
    comparison = compare(before, [boot(*one, initcalls=grown) for one in machines])
    found = phase(comparison, "initcalls")
    assert (found.from_bytes, found.from_cpus) == (2 * GIB, 16)
    assert found.per_cpu == pytest.approx(500_000)
    assert found.per_gib == pytest.approx(0, abs=1)
    assert found.before.per_cpu == pytest.approx(900_000)
    assert "on 64 GiB, 64 CPUs, seen from 16 CPUs on (+0.500 ms per CPU)" in verdict.describe(found)


def test_fixed_cost_and_cost_per_gib_of_either_kernel_are_fitted() -> None:
    comparison = compare(sizes(*BIG), sizes(*BIG, early=slower(10)))
    found = phase(comparison, "early memory set-up")
    assert found.before.fixed == pytest.approx(28_000_000, rel=1e-6)
    assert found.before.per_gib == pytest.approx(400_000, rel=1e-6)
    assert found.after.per_gib == pytest.approx(440_000, rel=1e-6)
    assert [found.fixed, found.per_gib] == pytest.approx([2_800_000, 40_000], rel=1e-4)


def test_a_change_must_be_three_times_what_the_control_moved_the_phase_by() -> None:
    before, control = sizes("64G"), sizes("64G", initcalls=slower(1))
    assert compare(before, sizes("64G", initcalls=slower(2.9)), control=control).verdict == SAME
    comparison = compare(before, sizes("64G", initcalls=slower(3.1)), control=control)
    assert verdicts(comparison)["initcalls"] == REGRESSION
    size = phase(comparison, "initcalls").sizes[0]
    assert size.smallest == pytest.approx(0.03 * size.before, rel=1e-4)
    # Another phase is judged by what the control did to it.
    comparison = compare(before, sizes("64G", early=slower(1)), control=control)
    assert verdicts(comparison)["early memory set-up"] == REGRESSION
    assert not comparison.notes


def test_a_control_counts_on_larger_machines_and_where_it_has_no_boots_the_default_does() -> None:
    before = sizes("2G", "64G")
    after = [*sizes("2G"), *sizes("64G", initcalls=lambda cost, gib, cpus: cost + 2_000_000)]
    moved = [*sizes("2G", initcalls=slower(1)), *sizes("64G")]
    assert compare(before, after, control=moved).verdict == SAME
    comparison = compare(before, after, control=sizes("2G"))
    assert comparison.verdict == REGRESSION
    assert any("the control has no boots of 64 GiB" in note for note in comparison.notes)


def test_runs_that_differ_on_the_exact_clock_hide_a_change_of_their_size() -> None:
    before = [*sizes("64G"), *sizes("64G", initcalls=slower(1))]
    assert compare(before, sizes("64G", initcalls=slower(1.4))).verdict == SAME
    assert compare(before, sizes("64G", initcalls=slower(2.5))).verdict == REGRESSION


def test_a_phase_may_get_slower_where_the_whole_boot_gets_faster() -> None:
    changes = {"waiting": lambda cost, gib, cpus: 80_000, "user": slower(50)}
    comparison = compare(sizes("2G", "64G"), sizes("2G", "64G", **changes))
    assert verdicts(comparison)["user space"] == REGRESSION
    assert (comparison.verdict, comparison.exit_status) == (IMPROVEMENT, 0)
    assert "slower only where the whole boot got faster: user space" in comparison.notes
    # On 2G nothing pays for it.
    after = [boot("2G", user=slower(50)), boot("64G", **changes)]
    assert compare(sizes("2G", "64G"), after).verdict == REGRESSION


# What cannot be compared, or only in part.


@pytest.mark.parametrize(
    ("before", "after", "control", "said"),
    [
        (sizes("2G"), wall([{"initcalls": 5}], "2G"), [], "differ in the clock"),
        (sizes("2G"), with_machine(sizes("2G"), arch="arm64"), [], "differ in the architecture"),
        (sizes("2G"), sizes("4G"), [], "no size of machine in common"),
        (sizes("2G"), [boot("2G", 4)], [], "no size of machine in common"),
        ([], sizes("2G"), [], "A has no boots"),
        (sizes("2G"), [], [], "B has no boots"),
        (sizes("2G"), [*sizes("2G"), boot("4G", 1, "flatboot")], [], "boots of 2 kernels"),
        (sizes("2G"), sizes("2G"), [boot("2G", 1, "flatboot")], "the control is flatboot"),
        (wall([{"a": 5}]), wall([{"a": 5}]), sizes("512M"), "control is for the exact clock"),
        (
            wall([{"a": 5}]),
            with_machine(wall([{"a": 5}]), host="another"),
            [],
            "differ in host: x86_64, Linux 6.1 and another: times are comparable on one host",
        ),
    ],
)
def test_boots_that_cannot_be_compared_are_refused(
    before: list[Record], after: list[Record], control: list[Record], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        compare(before, after, control=control)


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1}, {"threshold": -0.1}])
def test_impossible_levels_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must lie between"):
        compare(sizes("2G"), sizes("2G"), **wrong)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (with_kernel(sizes("2G"), config="size"), "the configs differ: bench"),
        (with_kernel(sizes("2G"), config_hash="fff"), "the configs differ: bench"),
        (with_kernel(sizes("2G"), compiler="clang"), "the compilers differ: gcc 12 and clang"),
        (with_machine(sizes("2G"), qemu="9.0"), "the machines differ in qemu: 7.2.22 and 9.0"),
        (sizes("2G", "4G"), "only one kernel booted, and left out: 4 GiB"),
        (
            [dataclasses.replace(one, cmdline=f"{one.cmdline} mem=1G") for one in sizes("2G")],
            "the kernel parameters differ: none and mem=1G",
        ),
        (
            [dataclasses.replace(one, phases=[]) for one in sizes("2G")],
            "without phases on both sides only the whole boot is compared",
        ),
    ],
)
def test_other_differences_are_noted(after: list[Record], said: str) -> None:
    comparison = compare(sizes("2G"), after)
    assert comparison.verdict == SAME
    assert [note for note in comparison.notes if note.startswith(said)]


def test_the_options_of_two_flavours_may_differ_and_so_may_hosts_of_the_exact_clock() -> None:
    after = with_kernel(sizes("2G"), flavour="flatboot", config_hash="fff")
    comparison = compare(sizes("2G"), with_machine(after, host="another"))
    assert [note for note in comparison.notes if not note.startswith("there is no control")] == []


def test_a_phase_whose_mark_one_kernel_lacks_is_left_out_with_what_is_unattributed() -> None:
    def without_mark(record: Record) -> Record:
        phases = [
            dataclasses.replace(one, name="unattributed") if one.name == "initcalls" else one
            for one in record.phases
        ]
        return dataclasses.replace(record, phases=phases)

    comparison = compare(sizes("2G"), [without_mark(one) for one in sizes("2G")])
    assert comparison.verdict == SAME
    assert not {"initcalls", "unattributed"} & set(verdicts(comparison))
    assert any("along with what is unattributed: initcalls" in note for note in comparison.notes)


def test_time_in_which_nothing_ran_is_a_phase_that_may_be_missing() -> None:
    idle = [
        dataclasses.replace(
            record,
            to_init=record.to_init + 10**7,
            phases=[
                *record.phases,
                dataclasses.replace(record.phases[0], name="idle", length=10**7),
            ],
        )
        for record in sizes("2G")
    ]
    found = phase(compare(sizes("2G"), idle), "idle")
    assert (found.verdict, found.sizes[0].before) == (REGRESSION, 0)
    assert "(new)" in verdict.describe(found)


# The wall clock.


def test_a_kernel_against_itself_is_flagged_no_more_often_than_stated() -> None:
    runs = wall(recorded())
    assert len(runs) == 60
    rng = random.Random(60)
    flagged = 0
    for _ in range(1000):
        drawn = rng.sample(runs, len(runs))
        comparison = compare(drawn[:30], drawn[30:], alpha=ALPHA)
        assert comparison.verdict != UNDECIDED
        flagged += comparison.verdict != SAME
    # The 1,000 draws are independent, so the count is binomial: it is above this in one run of
    # 1,000 of a comparison that is wrong just as often as it says. And it is not blind.
    assert 5 <= flagged <= scipy.stats.binom.ppf(0.999, 1000, ALPHA)


@pytest.mark.parametrize("name", ["initcalls", "waiting for the memory map"])
def test_a_planted_effect_is_found_as_often_as_stated(name: str) -> None:
    rng = random.Random(7)
    rows = recorded()
    found = 0
    for _ in range(60):
        drawn = rng.sample(rows, len(rows))
        same = compare(wall(drawn[:30]), wall(drawn[30:]))
        planted = phase(same, name).sizes[0].smallest
        after = [
            {**row, name: row[name] + round(planted)} if name in row else row for row in drawn[30:]
        ]
        found += phase(compare(wall(drawn[:30]), wall(after)), name).verdict == REGRESSION
    # 80% is stated; of 60 that is 48, less three standard deviations of 3.1.
    assert found >= 38


def test_a_phase_that_doubles_is_found_and_told_with_its_interval() -> None:
    rows = recorded()
    after = [{**row, "initcalls": 2 * row.get("initcalls", 10**9)} for row in rows[1::2]]
    comparison = compare(wall(rows[::2]), wall(after, since=1))
    assert comparison.exit_status == 1
    found = phase(comparison, "initcalls").sizes[0]
    assert found.verdict == REGRESSION
    assert 0 < found.low < found.after - found.before < found.high
    assert found.p is not None and found.p < 1e-6
    assert verdicts(comparison)["SMP init"] == SAME
    assert not comparison.notes


def test_too_few_runs_leave_it_undecided_and_say_how_many_it_takes() -> None:
    rows = recorded()
    few = compare(wall(rows[:10:2]), wall(rows[1:10:2], since=1))
    assert (few.verdict, few.exit_status) == (UNDECIDED, 2)
    assert {phase.verdict for phase in few.phases} == {UNDECIDED}
    assert {size.smallest for phase in few.phases for size in phase.sizes} == {math.inf}
    assert any("at least 6 of each are needed" in note for note in few.notes)
    enough = compare(wall(rows[:12:2]), wall(rows[1:12:2], since=1))
    assert enough.verdict == SAME
    # However large the change is.
    tripled = [{name: 3 * length for name, length in row.items()} for row in rows[1:10:2]]
    assert compare(wall(rows[:10:2]), wall(tripled, since=1)).verdict == UNDECIDED


def test_a_sure_change_below_the_threshold_is_none() -> None:
    before = [{"initcalls": 10**9 + run} for run in range(30)]
    after = [{"initcalls": 10**9 + 10**6 + run} for run in range(30)]
    comparison = compare(wall(before), wall(after, since=1))
    assert comparison.verdict == SAME
    p = phase(comparison, "initcalls").sizes[0].p
    assert p is not None and p < 1e-6
    assert compare(wall(before), wall(after, since=1), threshold=0.0005).verdict == REGRESSION


def test_boots_that_were_not_interleaved_are_noted() -> None:
    rows = recorded()
    later = compare(wall(rows[:30]), wall(rows[30:], since=1000))
    assert any("not interleaved" in note for note in later.notes)
    turns = compare(wall(rows[:30]), wall(rows[30:], since=1))
    assert not any("not interleaved" in note for note in turns.notes)


def test_a_run_that_lacks_a_phase_has_no_say_in_it() -> None:
    rows = [{"initcalls": 10**9 + run, "SMP init": 10**8 + run} for run in range(20)]
    missed = [dict(row) for row in rows]
    del missed[3]["SMP init"]
    found = phase(compare(wall(rows), wall(missed, since=1)), "SMP init").sizes[0]
    assert found.verdict == SAME
    assert found.after == pytest.approx(10**8, rel=1e-6)
