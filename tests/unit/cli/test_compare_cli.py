"""The command line of comparisons: what it reads, prints, writes and boots."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from compared import boot, sizes, wall

from flatboot.analysis import junit
from flatboot.analysis.compare import compare
from flatboot.campaign import compare_boots, sweep
from flatboot.campaign.compare_boots import Named
from flatboot.campaign.jobs import Job, Measure
from flatboot.cli import cli, compare_cli
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record
from flatboot.record.results import Results

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
LAZY = "deferred_init=lazy"


def slower(cost: float, gib: float, cpus: int) -> float:
    return cost * 1.05


def save(folder: Path, records: list[Record]) -> str:
    for number, record in enumerate(records):
        record.save(folder / f"{number}.json")
    return str(folder)


def results(path: Path, records: list[Record]) -> str:
    with Results.open(path, create=True) as kept:
        for number, record in enumerate(records):
            kept.add(str(number), record)
    return str(path)


def version(record: Record, number: int, created: int) -> Record:
    kernel = dataclasses.replace(record.kernel, version=f"7.3.{number}")
    return dataclasses.replace(record, kernel=kernel, created=f"2026-01-{created:02}T00:00:00")


def flatboot(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the command line and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["flatboot", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture
def kernels(tmp_path: Path) -> dict[str, str]:
    """Folders of records: a kernel, one that is slower, one that was booted too rarely."""
    few = wall([{"initcalls": 10**9 + run} for run in range(2)], "2G")
    return {
        "a": save(tmp_path / "a", sizes("2G", "64G")),
        "slow": save(tmp_path / "slow", sizes("2G", "64G", initcalls=slower)),
        "few": save(tmp_path / "few", few),
    }


@pytest.mark.parametrize(
    ("before", "after", "status", "said"),
    [
        ("a", "a", 0, "same: no change of B against A was found"),
        ("slow", "a", 0, "improvement: B boots faster than A"),
        ("a", "slow", 1, "regression: B boots slower than A"),
        ("few", "few", 2, "undecided: there are too few boots"),
    ],
)
def test_the_exit_status_is_the_verdict_which_is_said_first(
    kernels: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    status: int,
    said: str,
) -> None:
    assert flatboot(monkeypatch, "compare", kernels[before], kernels[after]) == status
    assert capsys.readouterr().out.startswith(said)


def test_the_tables_show_phases_then_sizes_where_something_changed(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flatboot(monkeypatch, "compare", kernels["a"], kernels["slow"])
    out = capsys.readouterr().out
    places = [
        out.index(text)
        for text in (
            "Phases on the largest machine, 64 GiB",
            "What each phase is made of",
            "total, reset to /init, in virtual ms",
            "initcalls, in virtual ms",
            "note: there is no control",
        )
    ]
    assert places == sorted(places)
    assert "firmware, in virtual ms" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_json_says_all_of_it_and_nothing_else_is_printed(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flatboot(monkeypatch, "compare", "--json", kernels["a"], kernels["slow"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["exit_status"], data["clock"]) == ("regression", 1, "exact")
    assert data["sentence"].startswith("regression: ")
    changed = [phase for phase in data["phases"] if phase["verdict"] == "regression"]
    assert [phase["name"] for phase in changed] == ["total, reset to /init", "initcalls"]
    assert changed[1]["from_bytes"] == 2 << 30
    assert changed[1]["before"]["fixed"] == pytest.approx(144_900_000)
    assert changed[1]["sizes"][0]["p"] is None


def test_json_has_null_for_what_is_not_known(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flatboot(monkeypatch, "compare", "--json", kernels["few"], kernels["few"]) == 2

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(capsys.readouterr().out, parse_constant=refuse)
    size = data["phases"][0]["sizes"][0]
    assert (size["low"], size["high"], size["smallest"]) == (None, None, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{a}"], "name two kernels"),
        (["{a}", "{few}"], "differ in the clock"),
        (["{a}", "/nonexistent.json"], "cannot read /nonexistent.json"),
        (["{a}", "{a}", "--history", "{a}"], "leave out B"),
        (["{a}", "{a}", "--boot", "--control", "{a}"], "leave out --control and --history"),
        (["7.3:stock", "--boot"], "name two kernels to boot"),
        (["stock", "7.3:stock", "--boot"], "neither a built kernel nor SOURCE:FLAVOUR"),
        (["7.3:stock", "7.3:flatboot", "--boot", "--cpus", "four"], "are no numbers"),
        (["7.3:stock", "7.3:flatboot", "--boot", "--cpus", "\u00b2"], "are no numbers"),
        (["", "7.3:stock", "--boot"], "a kernel without a name"),
        (["7.3:stock", "7.3:flatboot", "--boot", "--memory", "much"], "not a memory size"),
        (["{a}", "{a}", "--junit", "/proc/none/file.xml"], "cannot write /proc/none/file.xml"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_2(
    kernels: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    filled = [word.format(**kernels) for word in words]
    assert flatboot(monkeypatch, "compare", *filled) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.startswith("flatboot: ")
    assert len(captured.err.splitlines()) == 1
    assert not captured.out


def test_the_control_is_read_like_the_kernels(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", kernels["a"], kernels["slow"], "--control", kernels["slow"]]
    assert flatboot(monkeypatch, *words) == 0
    assert "there is no control" not in capsys.readouterr().out


# Which boots of a file.


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    plain, stock = boot("2G", 1, "flatboot"), boot("2G")
    lazy = dataclasses.replace(plain, cmdline=f"{plain.cmdline} {LAZY}")
    return results(tmp_path / "mixed.sqlite", [stock, plain, lazy])


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("stock", [0]),
        ("flatboot", [1, 2]),
        (f"flatboot {LAZY}", [2]),
        (f"flatboot,-{LAZY}", [1]),
        ("7.3.4,x86_64,exact,bench", [0, 1, 2]),
    ],
)
def test_words_after_the_file_choose_boots_in_it(mixed: str, words: str, kept: list[int]) -> None:
    every = compare_cli.read(mixed)
    assert compare_cli.read(f"{mixed}#{words}") == [every[index] for index in kept]


def test_words_that_choose_nothing_are_told_what_there_is(mixed: str) -> None:
    with pytest.raises(UsageError, match="has no boots of 'own': it has those of stock, flatboot"):
        compare_cli.read(f"{mixed}#own")


def test_a_file_may_have_a_number_sign_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run#2.json"
    boot("2G").save(path)
    assert compare_cli.read(str(path)) == [boot("2G")]


# A kernel against its history.


@pytest.fixture
def past(tmp_path: Path) -> str:
    """Four kernels, of which the third is slow and the last fast again, and two strangers."""
    kept = [
        *(version(one, 1, 1) for one in sizes("2G", "64G")),
        *(version(one, 3, 3) for one in sizes("2G", "64G", initcalls=slower)),
        *(version(one, 2, 2) for one in sizes("2G", "64G")),
        *(version(one, 4, 4) for one in sizes("2G", "64G")),
        version(boot("2G", 1, "flatboot", initcalls=slower), 3, 3),
        version(boot("8G", initcalls=slower), 3, 3),
    ]
    return results(tmp_path / "history.sqlite", kept)


def test_a_kernel_is_compared_with_the_last_one_before_it(
    past: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", f"{past}#7.3.4", "--history", past]
    assert flatboot(monkeypatch, *words, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["before"], data["after"]) == (
        "improvement",
        "stock 7.3.3",
        "stock 7.3.4",
    )
    note = next(note for note in data["notes"] if note.startswith("in 3 earlier kernels: "))
    assert "initcalls 145.668 to 152.951 ms on 64 GiB, now 145.668" in note

    assert flatboot(monkeypatch, "compare", f"{past}#7.3.3,stock", "--history", past) == 1
    assert flatboot(monkeypatch, "compare", f"{past}#7.3.2", "--history", past) == 0


def test_a_kernel_without_a_past_is_undecided(
    past: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flatboot(monkeypatch, "compare", f"{past}#7.3.1", "--history", past) == 2
    assert "no boots of a kernel older than 7.3.1" in capsys.readouterr().err


# JUnit XML, by the rules of Jenkins' junit-10.xsd: attributes that an element may and must have.

MAY: dict[str, set[str]] = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        *("name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp"),
        *("hostname", "id", "package", "file", "log", "url"),
    },
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}
MUST = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "property": {"name", "value"},
    "testcase": {"name"},
}


def read_junit(text: str) -> xml.Element:
    root = xml.fromstring(text)
    for element in root.iter():
        assert set(element.keys()) <= MAY[element.tag]
        assert set(element.keys()) >= MUST.get(element.tag, set())
    return root


def test_junit_has_a_test_case_a_phase_and_fails_what_regressed(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "report.xml"
    words = ["compare", kernels["a"], kernels["slow"], "--junit", str(file)]
    assert flatboot(monkeypatch, *words) == 1
    root = read_junit(file.read_text())
    (suite,) = root
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    assert len(cases) == int(suite.attrib["tests"]) == 7
    failed = [name for name, case in cases.items() if case.find("failure") is not None]
    assert failed == ["total, reset to /init", "initcalls"]
    assert int(suite.attrib["failures"]) == 2
    (failure,) = cases["initcalls"]
    assert failure.attrib["message"].startswith("initcalls +7.283 ms (+5.00%) on 64 GiB")
    assert float(cases["initcalls"].attrib["time"]) == pytest.approx(0.152951, abs=1e-6)
    assert {item.get("name"): item.get("value") for item in suite.iter("property")}["clock"] == (
        "exact"
    )


def test_junit_skips_what_is_undecided_and_escapes_names() -> None:
    few = wall([{'a <b> & "c"': 10**9 + run} for run in range(2)])
    root = read_junit(junit.text(compare(few, few), NOW))
    (suite,) = root
    assert suite.get("skipped") == suite.get("tests") == "2"
    assert suite.get("timestamp") == "2026-01-02T03:04:05"
    assert [case.get("name") for case in suite.iter("testcase")][1] == 'a <b> & "c"'


def test_junit_fails_nothing_where_the_whole_is_no_regression() -> None:
    changes = {"waiting": lambda cost, gib, cpus: 80_000, "user": lambda cost, gib, cpus: cost * 2}
    comparison = compare(sizes("64G"), sizes("64G", **changes))
    root = read_junit(junit.text(comparison, NOW))
    assert root.get("failures") == "0"
    assert "user space +0.181 ms" in xml.tostring(root, encoding="unicode")


# Kernels that are booted for it.


@pytest.mark.parametrize(
    ("text", "table", "cmdline"),
    [
        ("7.3:stock", {"base": "7.3", "flavour": "stock"}, ""),
        ("7.3:stock:size", {"base": "7.3", "flavour": "stock", "config": "size"}, ""),
        (f"7.3:flatboot {LAZY} quiet", {"base": "7.3", "flavour": "flatboot"}, f"{LAZY} quiet"),
        ("/src/linux:stock", {"tree": "/src/linux", "flavour": "stock"}, ""),
        ("/", {"kernel": "/"}, ""),
    ],
)
def test_a_kernel_to_boot_is_named_in_one_word(
    text: str, table: dict[str, str], cmdline: str
) -> None:
    named = compare_boots.named(text, "x86_64")
    assert named == Named({**table, "arch": "x86_64"}, cmdline)


def test_the_control_is_the_same_kernel_laid_out_otherwise_where_it_can_be_built() -> None:
    control = compare_boots.control_of(compare_boots.named(f"7.3:stock {LAZY}", "arm64"))
    assert control == Named(
        {"base": "7.3", "flavour": "stock", "config": "control", "arch": "arm64"}, LAZY
    )
    assert compare_boots.control_of(compare_boots.named("7.3:stock:size", "x86_64")) is None
    assert compare_boots.control_of(compare_boots.named("/", "x86_64")) is None


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Named]:
    """Two built kernels that cannot really boot, on a machine that need not be able to."""

    async def able(jobs: list[Job]) -> None:
        pass

    monkeypatch.setattr(sweep, "ready", able)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vmlinux").write_text(name)
    return [Named({"kernel": str(tmp_path / name)}, "") for name in ("old", "new")]


def booting(done: list[tuple[str, int]]) -> Measure:
    async def measure(wanted: BootSpec) -> Record:
        done.append((Path(wanted.image.base).name, wanted.machine.memory_bytes >> 30))
        record = boot(f"{wanted.machine.memory_bytes >> 30}G")
        kernel = dataclasses.replace(record.kernel, base=wanted.image.base)
        return dataclasses.replace(record, kernel=kernel)

    return measure


def test_kernels_take_turns_and_are_not_booted_again(tmp_path: Path, built: list[Named]) -> None:
    machines = {"memory": ["2G", "4G"], "cpus": [1], "clock": "wall", "repetitions": 2}
    done: list[tuple[str, int]] = []
    path = tmp_path / "boots.sqlite"
    before, after = compare_boots.run(built, machines, path, booting(done))
    once = [("old", 2), ("new", 2), ("old", 4), ("new", 4)]
    assert done == once * 2
    assert {Path(record.kernel.base).name for record in before} == {"old"}
    assert [record.machine.memory_bytes >> 30 for record in after] == [2, 4, 2, 4]
    assert compare_boots.run(built, machines, path, booting(done)) == [before, after]
    assert len(done) == 8


def test_a_boot_that_fails_leaves_nothing_to_compare_and_says_so(
    tmp_path: Path, built: list[Named]
) -> None:
    async def panic(wanted: BootSpec) -> Record:
        raise GuestFailed("panic", "the guest panicked: no memory", "")

    machines = {"memory": ["2G"], "cpus": [1], "clock": "exact"}
    with pytest.raises(FlatbootError, match="nothing to compare: the guest panicked: no memory"):
        compare_boots.run(built, machines, tmp_path / "boots.sqlite", panic)


def test_a_kernel_is_not_booted_against_itself(tmp_path: Path, built: list[Named]) -> None:
    machines = {"memory": ["2G"], "cpus": [1], "clock": "exact"}
    with pytest.raises(UsageError, match="are the same boot"):
        compare_boots.run([built[0], built[0]], machines, tmp_path / "boots.sqlite", booting([]))
