"""Boot logs in all their forms, and what is read from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatboot.bootlog import bootlog, bootlog_lines
from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_boots import NoBoot
from flatboot.common.errors import UsageError
from flatboot.record import phases
from flatboot.record.record import Phase

DATA = Path(__file__).parents[2] / "data/bootlog"
BOOTS = sorted((DATA / "boots").glob("*.json"))
MS, S = 1_000_000, 1_000_000_000
#: The same boot, in forms that tell microseconds.
EXACT_FORMS = {
    "dmesg.log": "dmesg",
    "dmesg-r.log": "dmesg",
    "dmesg-x.log": "dmesg",
    "dmesg-d.log": "dmesg",
    "dmesg-caller.log": "dmesg",
    "dmesg-H.log": "dmesg -H",
    "dmesg-iso.log": "dmesg --time-format=iso",
    "kmsg.log": "raw /dev/kmsg",
    "journal.json": "journalctl -o json",
    "journal-short-monotonic.log": "journalctl -o short-monotonic",
    "syslog.log": "dmesg",
    "syslog-iso.log": "dmesg",
    "replayed.log": "dmesg",
    "lost.log": "raw /dev/kmsg",
}


def read(name: str, boot: int | None = None) -> Analysis:
    return bootlog.analyze((DATA / name).read_text(), boot)


def lengths(analysis: Analysis) -> dict[str, int]:
    return phases.by_name(analysis.phases)


@pytest.mark.parametrize("name", EXACT_FORMS)
def test_each_form_tells_the_same(name: str) -> None:
    analysis, plain = read(name), read("dmesg.log")
    assert analysis.format == EXACT_FORMS[name]
    assert analysis.resolution_ns == 1000
    assert analysis.phases == plain.phases
    assert analysis.total == 8_190_034_000
    assert [gap.length for gap in analysis.gaps] == [gap.length for gap in plain.gaps]
    assert analysis.facts == plain.facts


@pytest.mark.parametrize(
    "who",
    [
        "[    T1]",
        "[  C003]",
        "[T1@2]",
        "[ 3]",
        "  (0)[1:swapper/0]",
        " [0:  swapper/0:    1]",
        " 001:",
    ],
)
def test_who_printed_may_stand_behind_the_stamp(who: str) -> None:
    text = (DATA / "dmesg.log").read_text()
    assert bootlog.analyze(text.replace("] ", f"]{who} ", 1)).facts == read("dmesg.log").facts
    each = "\n".join(line.replace("] ", f"]{who} ", 1) for line in text.splitlines())
    assert bootlog.analyze(each).phases == read("dmesg.log").phases


def test_phases_are_those_of_the_log() -> None:
    assert read("dmesg.log").phases == [
        Phase("early memory set-up", 0, 545_702_000),
        Phase("boot processor", 545_702_000, 107_168_000),
        Phase("SMP init", 652_870_000, 1_077_650_000),
        Phase("scheduler domains", 1_730_520_000, 80_810_000),
        Phase("waiting for the memory map", 1_811_330_000, 2_390_000_000),
        Phase("unattributed", 4_201_330_000, 58_788_000),
        Phase("initcalls", 4_260_118_000, 3_904_085_000),
        Phase("unattributed", 8_164_203_000, 25_831_000),
    ]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in DATA.glob("*.log") if path.name != "later.log")
)
def test_phases_add_up_without_gaps(name: str) -> None:
    analysis = read(name)
    ends = [phase.start + phase.length for phase in analysis.phases]
    starts = [phase.start for phase in analysis.phases]
    assert starts == [0, *ends][: len(starts)]
    assert sum(phase.length for phase in analysis.phases) == analysis.total


def test_facts() -> None:
    facts = read("dmesg.log").facts
    assert facts.version == "6.8.12-server"
    assert facts.arch == "x86"
    assert facts.memory_bytes == 512 << 30
    assert (facts.cpus, facts.nodes) == (64, 2)
    assert facts.cmdline.startswith("BOOT_IMAGE=")


@pytest.mark.parametrize("name", ["dmesg-T.log", "journal-short.log"])
def test_whole_seconds_say_so(name: str) -> None:
    analysis = read(name)
    assert analysis.resolution_ns == S
    assert analysis.total == 8 * S
    assert any("whole seconds" in note for note in analysis.notes)
    assert all(gap.length % S == 0 for gap in analysis.gaps)


def test_a_log_without_times_still_tells_of_machine_and_initcalls() -> None:
    analysis = read("dmesg-no-times.log")
    assert analysis.facts.cpus == 64
    assert (analysis.total, analysis.phases, analysis.gaps) == (0, [], [])
    assert any("printk.time=1" in note for note in analysis.notes)
    stamped = (DATA / "initcall-debug.log").read_text()
    bare = bootlog.analyze("\n".join(line.partition("] ")[2] for line in stamped.splitlines()))
    assert {call.function: call.length for call in bare.initcalls} == {
        call.function: call.length for call in bootlog.analyze(stamped).initcalls
    }


def test_a_boot_within_one_second_of_dmesg_t() -> None:
    lines = (DATA / "dmesg.log").read_text().splitlines()
    text = "\n".join(f"[Mon Jun 10 12:00:03 2024] {line.partition('] ')[2]}" for line in lines)
    analysis = bootlog.analyze(text)
    assert analysis.total == 0
    assert any("same time" in note for note in analysis.notes)


def test_fields_of_the_journal_that_come_twice_or_are_too_long() -> None:
    twice = json.dumps(
        {"MESSAGE": ["a", "b"], "PRIORITY": ["6", "4"], "__MONOTONIC_TIMESTAMP": ["2", "3"]}
    )
    line = next(bootlog_lines.parse([twice]))
    assert line is not None
    assert (line.text, line.at, line.level) == ("b", 3000, 4)
    bytewise = next(bootlog_lines.parse([json.dumps({"MESSAGE": [104, 105]})]))
    assert bytewise.text == "hi"
    none = next(bootlog_lines.parse([json.dumps({"MESSAGE": None})]))
    assert none.format is bootlog_lines.PLAIN


@pytest.mark.parametrize("name", ["serial.log", "journal.json"])
def test_boots_in_one_log(name: str) -> None:
    first, second, last = read(name, 1), read(name, 2), read(name)
    assert [item.boots for item in (first, second, last)] == [2, 2, 2]
    assert last == second
    assert second.total == 8_190_034_000
    assert first.total == 4_095_017_000
    with pytest.raises(UsageError, match="there is no boot 3: the log holds 2"):
        read(name, 3)


def test_a_serial_console_with_noise() -> None:
    analysis = read("serial.log")
    clean = read("dmesg.log")
    assert analysis.phases == clean.phases
    texts = [line.text for line in analysis.messages]
    # Two messages on one line, one behind a prompt, one in colour.
    assert "rcu: Preemptible hierarchical RCU implementation." in texts
    assert "ACPI: Interpreter enabled" in texts
    assert "NET: Registered PF_NETLINK/PF_ROUTE protocol family" in texts
    assert not any("\x1b" in text or "login" in text for text in texts)
    # A time with a wrong digit makes no gap of 90 s, and is told.
    assert any("cannot be right: 1" in note for note in analysis.notes)
    assert analysis.gaps[0].length < 3 * S


def test_a_wrong_digit_at_the_end_makes_no_gap() -> None:
    text = (DATA / "dmesg.log").read_text()
    wrong = text.replace("[    8.120665]", "[    0.120665]")
    assert bootlog.analyze(wrong).total == 8_190_034_000
    assert bootlog.analyze(wrong).boots == 1


def test_a_wrong_digit_before_the_next_boot_makes_no_boot() -> None:
    text = (DATA / "dmesg.log").read_text()
    both = f"{text}[    2.400118] systemd[1]: bye\n[    0.000000] microcode: updated early\n{text}"
    last = bootlog.analyze(both)
    assert last.boots == 2
    assert last.messages[0].text == "microcode: updated early"


def test_what_a_late_console_prints_again_counts_once() -> None:
    analysis = read("replayed.log")
    assert analysis.boots == 1
    assert any("came twice" in note and "25" in note for note in analysis.notes)


def test_the_same_kernel_booted_twice_is_two_boots() -> None:
    text = (DATA / "dmesg.log").read_text()
    assert bootlog.analyze(text + text).boots == 2
    short = "".join(text.splitlines(keepends=True)[:30])
    assert bootlog.analyze(short + text.replace(" 0.545702]", " 0.445702]")).boots == 2


def test_lost_messages() -> None:
    notes = read("lost.log").notes
    assert any("/dev/kmsg show: 37" in note for note in notes)
    assert any("too quickly: 12" in note for note in notes)
    assert read("kmsg.log").notes == []


def test_a_wrapped_ring_buffer() -> None:
    analysis = read("wrapped.log")
    assert (analysis.from_start, analysis.to_user_space) == (False, True)
    assert analysis.phases[0] == Phase("unattributed", 0, 4_262_007_000)
    assert any("log_buf_len" in note for note in analysis.notes)


def test_a_log_that_ends_too_soon() -> None:
    lines = (DATA / "dmesg.log").read_text().splitlines()
    analysis = bootlog.analyze("\n".join(lines[:40])[:-7])
    assert (analysis.from_start, analysis.to_user_space) == (True, False)
    assert any("start of user space" in note for note in analysis.notes)
    assert analysis.phases[-1].name == "initcalls"
    with pytest.raises(NoBoot, match="give all of it"):
        bootlog.analyze("\n".join(lines[:5]))


def test_published_gap_is_the_largest() -> None:
    good, bad = read("published-5.7.log"), read("published-5.8.log")
    gap = bad.gaps[0]
    assert gap.length == 2_001_575_000
    assert gap.before[-1] == "  Normal zone: 89391104 pages, LIFO batch:63"
    assert gap.after[0] == "ACPI: PM-Timer IO Port: 0x448"
    assert "PM-Timer" not in good.gaps[0].after[0]
    assert read("published-excerpt.log").gaps[0].length == gap.length


@pytest.mark.parametrize(
    ("name", "arch", "found"),
    [
        (
            "4.4-x86.log",
            "x86",
            {"boot processor": 82, "SMP init": 528, "scheduler domains": 8, "initcalls": 1284},
        ),
        (
            "4.19-arm64.log",
            "arm64",
            {"boot processor": 16, "SMP init": 12, "mounting the root file system": 1605},
        ),
        ("6.1-riscv.log", "riscv", {"boot processor": 33, "SMP init": 28, "initcalls": 840}),
    ],
)
def test_other_kernels_and_architectures(name: str, arch: str, found: dict[str, int]) -> None:
    analysis = read(name)
    assert analysis.facts.arch == arch
    rounded = {key: round(value / MS) for key, value in lengths(analysis).items()}
    assert found.items() <= rounded.items()


def test_a_missing_mark_leaves_no_false_phase() -> None:
    text = (DATA / "dmesg.log").read_text()
    kept = [line for line in text.splitlines() if "devtmpfs" not in line]
    found = lengths(bootlog.analyze("\n".join(kept)))
    assert found["initcalls"] == pytest.approx(3_904_085_000, abs=2 * MS)  # a later sign
    kept = [line for line in text.splitlines() if "Brought up" not in line and "Total" not in line]
    analysis = bootlog.analyze("\n".join(kept))
    assert {"SMP init", "scheduler domains"}.isdisjoint(lengths(analysis))
    assert any("scheduler domains: unattributed" in note for note in analysis.notes)


def test_initcalls_and_gaps_within_them() -> None:
    analysis = read("initcall-debug.log")
    slowest = max(analysis.initcalls, key=lambda call: call.length)
    assert (slowest.function, slowest.length) == ("kswapd_init", 53_876_000)
    inside = [gap for gap in analysis.gaps if gap.initcall == "kswapd_init"]
    assert [gap.length for gap in inside] == [53_885_000]


def test_the_clock_s_drift_is_taken_off_where_it_arose() -> None:
    analysis = read("initcall-debug.log")
    assert "103.6 ms ahead" in analysis.clock_fault
    assert analysis.total == (514_405 - 103_631) * 1000 - 41
    behind = (DATA / "dmesg.log").read_text().replace(", -9990000)", ", -1200000000)")
    analysis = bootlog.analyze(behind)
    assert analysis.total == 8_190_034_000
    assert "1.200 s behind" in analysis.clock_fault


def test_what_the_log_cannot_show() -> None:
    text = (DATA / "dmesg.log").read_text()
    more = text.replace(
        "] tsc: Fast",
        "] kvm-clock: using sched offset of 8391563436 cycles\n[    0.000000] tsc: Fast",
    )
    hidden = bootlog.analyze(more).hidden
    assert "8 messages with the time 0" in bootlog.analyze(text).hidden[0]
    assert any("8.392 s" in sentence for sentence in hidden)


def test_cost_of_a_serial_console() -> None:
    console = read("slow-serial.log").console
    assert console is not None
    assert (console.name, console.baud, console.bound) == ("ttyS0", 9600, True)
    assert console.most_ns == pytest.approx(console.characters * 10 * S / 9600, abs=1)
    assert read("dmesg.log").console is None
    quick = read("4.19-arm64.log").console
    assert quick is not None
    assert quick.baud == 1_500_000


def test_quiet_prints_nothing_on_a_serial_console() -> None:
    text = (DATA / "slow-serial.log").read_text()
    assert bootlog.analyze(text.replace(" hugepages", " quiet hugepages")).console is None


def test_a_serial_console_that_nobody_waited_for() -> None:
    text = (DATA / "dmesg.log").read_text().replace("console=tty0", "console=ttyS0,9600")
    at_once = "\n".join(line for line in text.splitlines() for _ in range(3))
    console = bootlog.analyze(at_once).console
    assert console is not None
    assert not console.bound


@pytest.mark.parametrize("truth", BOOTS, ids=[path.stem for path in BOOTS])
def test_phases_of_our_boots_are_within_two_per_cent(truth: Path) -> None:
    """The kernel's clock begins within the first phase of the log, so that one has no truth."""
    told = json.loads(truth.read_text())
    true = phases.by_name([Phase(*item) for item in told["phases"]])
    found = lengths(bootlog.analyze(truth.with_suffix(".log").read_text()))
    compared = set(true) - {"firmware", "early memory set-up", "user space"}
    assert {"boot processor", "initcalls"} <= compared
    for name in compared:
        assert abs(true[name] - found.get(name, 0)) <= 0.02 * told["to_init"], name
    assert set(found) <= set(true)


def test_our_boots_are_there() -> None:
    assert len(BOOTS) >= 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no message of a Linux kernel"),
        ("hello\nworld\n" * 100, "no message of a Linux kernel"),
        ("[  INFO ] 12:00 service started\n" * 50, "no message of a Linux kernel"),
        ("[    0.000000] Linux version 6.1.0 (a@b) #1 SMP\n", "give all of it"),
    ],
)
def test_no_boot(text: str, sentence: str) -> None:
    with pytest.raises(NoBoot, match=sentence):
        bootlog.analyze(text)


def test_messages_from_long_after_boot() -> None:
    with pytest.raises(NoBoot, match=r"86400\.118 s\), but none of its boot"):
        read("later.log")


def test_a_day_of_messages_after_boot_changes_nothing() -> None:
    text = (DATA / "dmesg.log").read_text() + (DATA / "later.log").read_text()
    assert bootlog.analyze(text).phases == read("dmesg.log").phases
    assert bootlog.analyze(text).gaps == read("dmesg.log").gaps
