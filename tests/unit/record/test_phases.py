"""From marks to phases."""

from __future__ import annotations

from flatboot.record import marks, phases
from flatboot.record.marks import Hit, MarkSpec
from flatboot.record.record import Call, Phase

ENTRY, CLOCK, SMP, WAIT, CALLS, USER = (
    MarkSpec(("entry",), True, "early", None, None, False),
    MarkSpec(("time_init",), False, "boot processor", None, None, False),
    MarkSpec(("smp_init",), False, None, "SMP init", "unattributed", False),
    MarkSpec(("late",), False, None, "waiting", None, False),
    MarkSpec(("do_one_initcall",), False, None, None, None, True),
    MarkSpec(("run_init",), False, "user space", None, None, False),
)
SPECS = (ENTRY, CLOCK, SMP, WAIT, CALLS, USER)


def enter(at: int, spec: MarkSpec, callee: str = "") -> Hit:
    return Hit(at, spec, False, callee)


def leave(at: int, spec: MarkSpec, callee: str = "") -> Hit:
    return Hit(at, spec, True, callee)


HITS = [
    enter(10, ENTRY),
    enter(30, CLOCK),
    enter(35, CALLS, "early_call"),
    leave(38, CALLS, "early_call"),
    enter(40, SMP),
    leave(60, SMP),
    enter(65, WAIT),
    leave(85, WAIT),
    enter(88, CALLS, "acpi_init"),
    leave(93, CALLS, "acpi_init"),
    enter(95, USER),
]


def test_phases_follow_each_other_without_gaps() -> None:
    broken = phases.breakdown(SPECS, HITS, 100, 100)
    assert broken.phases == [
        Phase("firmware", 0, 10),
        Phase("early", 10, 20),
        Phase("boot processor", 30, 10),
        Phase("SMP init", 40, 20),
        Phase("unattributed", 60, 5),
        Phase("waiting", 65, 20),
        Phase("unattributed", 85, 10),
        Phase("user space", 95, 5),
    ]
    assert broken.calls == [Call("early_call", 35, 3), Call("acpi_init", 88, 5)]
    assert broken.notes == []
    assert phases.by_name(broken.phases)["unattributed"] == 15


def test_time_without_work_is_a_phase() -> None:
    broken = phases.breakdown(SPECS, HITS, 100, 130)
    assert broken.phases[-1] == Phase("idle", 100, 30)
    assert sum(phase.length for phase in broken.phases) == 130


def test_a_missing_beginning_makes_two_phases_unattributed() -> None:
    broken = phases.breakdown(SPECS, [h for h in HITS if h.spec is not CLOCK], 100, 100)
    assert broken.phases[:3] == [
        Phase("firmware", 0, 10),
        Phase("unattributed", 10, 30),
        Phase("SMP init", 40, 20),
    ]
    assert sum(phase.length for phase in broken.phases) == 100
    assert broken.notes == [
        "the kernel never passed time_init, so these count as unattributed: boot processor, early"
    ]


def test_a_missing_span_goes_to_the_phase_around_it() -> None:
    broken = phases.breakdown(SPECS, [h for h in HITS if h.spec is not WAIT], 100, 100)
    assert Phase("unattributed", 60, 35) in broken.phases
    assert "waiting" in broken.notes[0]


def test_no_marks_at_all() -> None:
    broken = phases.breakdown(SPECS, [], 100, 100)
    assert broken.phases == [Phase("unattributed", 0, 100)]


def test_the_table_names_every_phase_of_a_boot() -> None:
    names = {spec.begins or spec.during for spec in marks.table()}
    assert {
        "early memory set-up",
        "boot processor",
        "SMP init",
        "scheduler domains",
        "waiting for the memory map",
        "initcalls",
        "user space",
    } <= names
