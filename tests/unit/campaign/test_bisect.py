"""Bisection: a real git repository, with builds and boots that are made up."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from boots import record
from fakes import git, write

from flatboot.bootlog import log_gap
from flatboot.campaign import bisect, git_bisect
from flatboot.campaign.bisect import Above, Bisection, BisectionSpec, Culprit
from flatboot.campaign.bisect_state import State
from flatboot.campaign.git_bisect import SKIP
from flatboot.cli import bisect_cli
from flatboot.common import host
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.processes import CommandFailed
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import Image
from flatboot.guest.machine import Machine, machine
from flatboot.kernel.own_kernel import OwnKernel
from flatboot.record.record import Phase, Record

GIB = 1 << 30
SLOW = 9_000_000


@dataclass
class FakeLab:
    """Reads from the tree what its kernel would do; counts what it is asked for.

    The file ``mm.c`` holds "per_gib FROM COST": instructions for each GiB above a size. The word
    BROKEN in any file does not build, HANG does not boot.
    """

    built: list[str] = field(default_factory=list)
    booted: list[int] = field(default_factory=list)
    interrupt_at: int = 0

    def build(self, folder: Path) -> Image:
        self.built.append((folder / "number").read_text().strip())
        if len(self.built) == self.interrupt_at:
            raise KeyboardInterrupt
        text = (folder / "mm.c").read_text()
        if "BROKEN" in text:
            raise CommandFailed(
                "building", 2, "  CC mm.o\nmm.c:1:1: error: broken\nmake: 2\n", None
            )
        return OwnKernel(folder, text, "")

    def boot(self, image: Image, machine: Machine, timeout_s: float) -> Record:
        self.booted.append(machine.memory_bytes)
        if "HANG" in image.base:
            raise GuestFailed("hang", f"the guest was not done in {timeout_s:g} s", "last words\n")
        start, per_gib = map(int, image.base.split()[:2])
        extra = max(0, machine.memory_bytes // GIB - start) * per_gib
        boot = record("stock", f"{machine.memory_bytes}", 100_000_000)
        memory = boot.phases[-1]
        phases = [*boot.phases[:-1], Phase(memory.name, memory.start, memory.length + extra)]
        kernel = dataclasses.replace(boot.kernel, base="linux")
        log = f"[    0.001000] zone: 15 pages\n[    0.{2000 + extra // 1000:06d}] ACPI: timer\n"
        return dataclasses.replace(
            boot, kernel=kernel, to_init=boot.to_init + extra, phases=phases, log=log
        )


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., Path]:
    """Makes a tree of 13 commits, tagged c0 to c12; c0 is good."""

    def make(culprit: int = 8, words: dict[int, str] | None = None, start: int = 8) -> Path:
        root = tmp_path / "linux"
        root.mkdir()
        commits = []
        for number in range(13):
            cost = f"{start} {SLOW}" if number >= culprit else "0 0"
            files = {
                "Kconfig": "",
                "Makefile": MAKEFILE,
                "number": f"{number}\n",
                "mm.c": f"{cost} {(words or {}).get(number, '')}",
            }
            commits.append(imported(number, files))
        git(root, "init", "-q", "-b", "main")
        stream = "".join(commits).encode()
        subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=stream, check=True)
        git(root, "reset", "-q", "--hard")
        return root

    return make


MAKEFILE = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n"


def imported(number: int, files: dict[str, str]) -> str:
    """Return a commit with *files*, and a tag of it, as git fast-import reads them."""
    author = f"flatboot tests <tests@example.org> {1_700_000_000 + number} +0000"
    subject = f"change {number}"
    text = f"commit refs/heads/main\ncommitter {author}\ndata {len(subject)}\n{subject}\n"
    for name, content in files.items():
        text += f"M 644 inline {name}\ndata {len(content)}\n{content}\n"
    return f"{text}\nreset refs/tags/c{number}\nfrom refs/heads/main\n\n"


def bisection(tree: Path, lab: FakeLab, good: str = "c0", bad: str = "c12") -> Bisection:
    """Return a bisection as the command makes it."""
    ends = git_bisect.ends(tree, good, bad)
    machines = tuple(machine(memory=size) for size in ("2G", "16G", "64G"))
    folder = tree.parent / "clone" / "linux"
    git_bisect.clone(tree, folder, ends)
    state = State(tree.parent / "state", {"good": ends[0].hash, "bad": ends[1].hash})
    return Bisection(BisectionSpec(*ends, machines, None, 600), folder, lab, state)


def search(one: Bisection) -> Culprit:
    choice = bisect.choose(one.ends(), one.wanted.machines, one.wanted.above)
    assert choice is not None
    return one.search(choice, lambda step: None)


def numbers(found: Culprit) -> set[str]:
    return {commit.subject.removeprefix("change ") for commit in found.candidates}


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return time and content of every file of *folder*, git's own included."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("culprit", [1, 8, 12])
def test_culprit_is_found_in_at_most_six_builds(history: Callable[..., Path], culprit: int) -> None:
    lab = FakeLab()
    found = search(bisection(history(culprit), lab))
    assert numbers(found) == {str(culprit)}
    assert lab.built[:2] == ["0", "12"]
    assert len(set(lab.built)) <= 2 + 6
    assert found.cost is not None
    assert found.cost.before.subject == f"change {culprit - 1}"


def test_what_it_costs_and_where_the_log_shows_it(history: Callable[..., Path]) -> None:
    found = search(bisection(history(8), FakeLab()))
    assert found.choice.phase == "user space"
    assert found.choice.machine.memory_bytes == 16 * GIB
    assert found.choice.limit == (found.choice.good + found.choice.bad) / 2
    assert found.cost is not None
    assert found.cost.change.from_bytes == 16 * GIB
    assert found.cost.change.per_gib == pytest.approx(SLOW)
    gap = found.cost.gap
    assert gap is not None
    assert (gap.first, gap.then) == ("zone: 15 pages", "ACPI: timer")
    assert gap.after - gap.before == pytest.approx(56 * SLOW / 1e9)


def test_only_the_chosen_machine_is_booted_in_between(history: Callable[..., Path]) -> None:
    lab = FakeLab()
    found = search(bisection(history(8), lab))
    ladder = [2 * GIB, 16 * GIB, 64 * GIB]
    between = [16 * GIB] * len(found.steps)
    # In the end the culprit and the one before it, on what they were not booted on yet.
    rest = [2 * GIB, 64 * GIB] * 2
    assert lab.booted == [*ladder, *ladder, *between, *rest]


@pytest.mark.parametrize("broken", [5, 6, 9])
def test_a_commit_that_does_not_build_is_skipped(history: Callable[..., Path], broken: int) -> None:
    lab = FakeLab()
    one = bisection(history(8, {broken: "BROKEN"}), lab)
    found = search(one)
    assert numbers(found) == {"8"}
    assert len(set(lab.built)) <= 2 + 6
    skipped = [step for step in found.steps if step.verdict == SKIP]
    assert [step.commit.subject for step in skipped] in ([], [f"change {broken}"])
    for step in skipped:
        assert step.cost is None


@pytest.mark.parametrize("culprit", [2, 8, 12])
def test_next_to_one_that_does_not_build_both_are_named(
    history: Callable[..., Path], culprit: int
) -> None:
    lab = FakeLab()
    found = search(bisection(history(culprit, {culprit - 1: "BROKEN"}), lab))
    assert numbers(found) == {str(culprit - 1), str(culprit)}
    assert len(set(lab.built)) <= 2 + 6
    assert found.cost is not None
    assert found.cost.before.subject == f"change {culprit - 2}"
    assert found.cost.after.subject == f"change {culprit}"
    assert found.cost.change.per_gib == pytest.approx(SLOW)


def test_why_a_commit_was_skipped_is_kept(history: Callable[..., Path]) -> None:
    one = bisection(history(8, {6: "BROKEN"}), FakeLab())
    tree = one.wanted.good
    found = search(one)
    commit = next(step.commit for step in found.steps if step.verdict == SKIP)
    state = State(Path(one._state.folder), {"good": tree.hash, "bad": one.wanted.bad.hash})
    assert state.failure(commit.hash) == "does not build (mm.c:1:1: error: broken)"
    assert "CC mm.o" in state.log_file(commit.hash).read_text()


def test_a_commit_that_hangs_in_boot_is_skipped(history: Callable[..., Path]) -> None:
    one = bisection(history(8, {6: "HANG"}), FakeLab())
    found = search(one)
    assert numbers(found) == {"8"}
    commit = next(step.commit for step in found.steps if step.verdict == SKIP)
    # The ends took 4.5 s each.
    assert one._state.failure(commit.hash) == "does not boot (the guest was not done in 75 s)"
    assert "last words" in one._state.log_file(commit.hash).read_text()


@pytest.mark.parametrize("at", [2, 4, 6])
def test_an_interruption_loses_at_most_one_step(history: Callable[..., Path], at: int) -> None:
    tree = history(8, {7: "BROKEN"})
    whole = FakeLab()
    expected = search(bisection(tree, whole))
    other = tree.parent / "again"
    other.mkdir()
    tree.rename(other / "linux")
    first, second = FakeLab(interrupt_at=at), FakeLab()
    with pytest.raises(KeyboardInterrupt):
        search(bisection(other / "linux", first))
    found = search(bisection(other / "linux", second))
    assert found.candidates == expected.candidates
    assert first.built[:-1] + second.built == whole.built
    third = FakeLab()
    assert search(bisection(other / "linux", third)).candidates == expected.candidates
    assert (third.built, third.booted) == ([], [])


def test_users_tree_is_untouched(history: Callable[..., Path]) -> None:
    tree = history(8, {6: "BROKEN"})
    git(tree, "checkout", "-q", "-b", "work", "c3")
    write(tree, {"notes": "not in git\n"})
    before = everything(tree)
    with pytest.raises(KeyboardInterrupt):
        search(bisection(tree, FakeLab(interrupt_at=4)))
    assert everything(tree) == before
    search(bisection(tree, FakeLab()))
    assert everything(tree) == before


def test_clone_is_made_anew_if_it_is_no_good(history: Callable[..., Path]) -> None:
    tree = history(8)
    clone = tree.parent / "clone" / "linux"
    write(clone, {"half": "made\n"})
    assert numbers(search(bisection(tree, FakeLab()))) == {"8"}
    write(clone, {".git/index.lock": ""})
    (tree.parent / "state/state.json").unlink()
    (tree.parent / "state/records.sqlite").unlink()
    assert numbers(search(bisection(tree, FakeLab()))) == {"8"}


def test_full_disk_is_no_reason_to_skip(
    history: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bisection(history(8), FakeLab())
    one.ends()

    def full(self: FakeLab, folder: Path) -> Image:
        raise CommandFailed("building", 2, "cc1: error: No space left on device\n", None)

    monkeypatch.setattr(FakeLab, "build", full)
    with pytest.raises(FlatbootError, match="the disk is full"):
        search(one)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("BROKEN", r"the good end \w{12} change 0 does not build \(mm.c:1:1: error: broken\)"),
        ("HANG", r"the good end \w{12} change 0 does not boot \(the guest was not done in 600 s\)"),
    ],
)
def test_end_that_fails_is_tried_again(
    history: Callable[..., Path], word: str, sentence: str
) -> None:
    lab = FakeLab()
    one = bisection(history(8, {0: word}), lab)
    for _ in range(2):
        with pytest.raises(FlatbootError, match=sentence):
            one.ends()
    assert lab.built == ["0", "0"]


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ("c3", "c3", "are the same commit"),
        ("c0", "nothing", "git knows no commit 'nothing'"),
        ("c0..c2", "c3", "git knows no commit 'c0..c2'"),
        ("--all", "c3", "git knows no commit '--all'"),
        ("c5", "c2", "the other way round"),
        ("c5", "side", "no ancestor of side"),
    ],
)
def test_bad_ends(history: Callable[..., Path], good: str, bad: str, sentence: str) -> None:
    tree = history()
    git(tree, "checkout", "-q", "-b", "side", "c2")
    user = ("-c", "user.name=flatboot tests", "-c", "user.email=tests@example.org")
    git(tree, *user, "commit", "-q", "--allow-empty", "-m", "aside")
    with pytest.raises(UsageError, match=sentence):
        git_bisect.ends(tree, good, bad)


def test_uncommitted_changes_and_no_repository(
    history: Callable[..., Path], tmp_path: Path
) -> None:
    tree = history()
    write(tree, {"mm.c": "changed\n"})
    with pytest.raises(UsageError, match=r"uncommitted changes \(1 files, first mm.c\)"):
        git_bisect.ends(tree, "c0", "c12")
    with pytest.raises(UsageError, match="is no git tree"):
        git_bisect.ends(tmp_path, "c0", "c12")


def test_no_size_shows_a_regression(history: Callable[..., Path]) -> None:
    one = bisection(history(8, start=64), FakeLab())
    with pytest.raises(UsageError, match=r"slower in .* with 2G, 16G, 64G: try larger machines"):
        bisect_cli.run(one, one._state)


def test_what_is_printed(history: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    one = bisection(history(8, {6: "BROKEN", 7: "HANG"}), FakeLab())
    bisect_cli.run(one, one._state)
    printed = capsys.readouterr()
    output = " ".join(printed.out.split())
    for part in (
        "a commit is bad if user space takes over 41.0 M instructions on x86_64, 16 GiB, 1 CPU",
        "The first bad commit is one of these",
        "change 8 flatboot tests <tests@example.org>, 2023-11-14T22:13:28+00:00",
        "change 7 flatboot tests",
        "It costs 9.0 M instructions (9 ms) for each GiB, from 16 GiB on (user space).",
        "In the log of 64 GiB, 505.000 ms lie between these lines, in place of 1.000 ms:",
        "zone: 15 pages ACPI: timer",
    ):
        assert part in output
    assert "skipped; the end of the log is" in printed.err


def test_limit_above_the_good_end(history: Callable[..., Path]) -> None:
    one = bisection(history(8, start=2), FakeLab())
    ends = one.ends()
    large = one.wanted.machines[2]
    extra = 62 * SLOW
    choice = bisect.choose(ends, one.wanted.machines, Above(extra - 1, share=False))
    assert choice is not None
    assert choice.machine == large
    assert choice.limit == choice.good + extra - 1
    assert bisect.choose(ends, one.wanted.machines, Above(extra, share=False)) is None


@pytest.mark.parametrize(
    ("text", "good", "limit"), [("5%", 200, 210), ("20M", 5, 20_000_005), ("0.5k", 0, 500)]
)
def test_limits(text: str, good: float, limit: float) -> None:
    assert bisect.parse_above(text).limit(good) == pytest.approx(limit)


@pytest.mark.parametrize("text", ["", "much", "-5%", "5 %", "3T"])
def test_no_limits(text: str) -> None:
    with pytest.raises(UsageError, match="is no limit"):
        bisect.parse_above(text)


def test_state_of_another_bisection(tmp_path: Path) -> None:
    State(tmp_path, {"good": "a", "bad": "b"})
    with pytest.raises(UsageError, match=r"another bisection \(its bad differ\)"):
        State(tmp_path, {"good": "a", "bad": "c"})
    State.forget(tmp_path)
    State(tmp_path, {"good": "a", "bad": "c"})
    (tmp_path / "state.json").write_text(json.dumps({"schema": 9, "settings": {}}))
    with pytest.raises(FlatbootError, match="newer flatboot"):
        State(tmp_path, {})
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(FlatbootError, match="not the state of a bisection"):
        State(tmp_path, {})


def test_machines_are_sorted_and_checked() -> None:
    made = bisect_cli.machines("x86_64", "16G,2G,16G", "4,1")
    assert [(one.memory_bytes // GIB, one.cpus) for one in made] == [
        (2, 1),
        (2, 4),
        (16, 1),
        (16, 4),
    ]
    for memory, cpus, sentence in (
        ("2G,lots", "1", "not a memory size"),
        ("2G", "1,two", "'two' is no number of CPUs"),
        ("2G", "0", "0 CPUs cannot be emulated"),
    ):
        with pytest.raises(UsageError, match=sentence):
            bisect_cli.machines("x86_64", memory, cpus)


def test_default_machines_fit_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, sizes in ((100e9, [2, 16, 64]), (1e9, [2, 16]), (0.1e9, [2])):
        monkeypatch.setattr(host, "available_memory", lambda available=available: available)
        made = bisect_cli.machines("x86_64", None, "1")
        assert [one.memory_bytes // GIB for one in made] == sizes


def test_log_gap_passes_over_lines_of_one_log_only() -> None:
    before = (
        "[    0.001] Memory: 5 kB at 0xff\n[    0.003] old line\n[    0.004] ACPI: 1\n[    0.9] end"
    )
    after = (
        "[    0.001] new line\n[    0.002] Memory: 7 kB at 0xee\n[    2.5] ACPI: 1\n[    3.4] end"
    )
    gap = log_gap.growth(before, after)
    assert gap is not None
    assert (gap.first, gap.then) == ("Memory: 7 kB at 0xee", "ACPI: 1")
    assert (gap.before, gap.after) == pytest.approx((0.003, 2.498))


@pytest.mark.parametrize("log", ["", "no time stamps\nat all\n", "[    0.5] one line"])
def test_logs_without_a_gap(log: str) -> None:
    assert log_gap.growth(log, log) is None
