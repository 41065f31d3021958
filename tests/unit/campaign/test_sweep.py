"""The sweep on this machine, with boots that are made up: what is done, when, and what is kept."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import boots
import pytest
import sweeps
from rich.table import Table
from typer.testing import CliRunner

from flatboot.campaign import matrix, sweep
from flatboot.campaign.jobs import Job, Measure
from flatboot.campaign.jobs import ready as ready_here
from flatboot.cli import cli, sweep_cli
from flatboot.common import host
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import qemu
from flatboot.guest.boot_spec import BootSpec
from flatboot.record import results
from flatboot.record.record import Record
from flatboot.record.results import Results
from flatboot.show import sweep_tables


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can boot anything, on two cores."""

    async def ready(jobs: object) -> None:
        pass

    monkeypatch.setattr(sweep, "ready", ready)
    monkeypatch.setattr(host, "cores", lambda: 2)
    monkeypatch.setattr(host, "available_memory", lambda: 8_000_000_000)


def run(jobs: list[Job], path: Path, measure: Measure = sweeps.measure) -> list[Record]:
    with Results.open(path, create=True) as kept:
        sweep.run(jobs, kept, measure=measure)
        return kept.records()


def starts(folder: Path) -> list[str]:
    """Return kernel and memory of the boots that were started, in order."""
    notes = sorted(folder.glob("start-*"), key=lambda note: int(note.name.rpartition("-")[2]))
    return [note.name.removeprefix("start-").rpartition("-")[0] for note in notes]


def most_at_once(folder: Path) -> int:
    """Return how many boots ran at the same time, at most."""
    changes = [
        (float(note.read_text().split()[1]), 1 if note.name.startswith("start") else -1)
        for note in folder.iterdir()
    ]
    at_once = [sum(change for _, change in sorted(changes)[: n + 1]) for n in range(len(changes))]
    return max(at_once)


def noting(tmp_path: Path, words: str = "") -> tuple[Path, dict[str, str]]:
    """Return a folder that gets the boots' notes, and the command line that asks for that."""
    folder = tmp_path / "notes"
    folder.mkdir(exist_ok=True)
    return folder, {"noting": f"folder={folder} {words}".strip()}


def test_a_cell_is_booted_once(tmp_path: Path) -> None:
    notes, cmdline = noting(tmp_path)
    small = sweeps.jobs(tmp_path, "a", memory=["2G"], cmdline=cmdline)
    large = sweeps.jobs(tmp_path, "a", memory=["2G", "4G"], cmdline=cmdline)
    run(small, tmp_path / "r.sqlite")
    records = run(large, tmp_path / "r.sqlite")
    assert starts(notes) == ["a-2G", "a-4G"]
    assert [record.to_init for record in records] == [1000 + 2048, 1000 + 4096]
    run(large, tmp_path / "r.sqlite")
    assert len(starts(notes)) == 2


def test_what_makes_another_cell(tmp_path: Path) -> None:
    def keys(**more: Any) -> set[str]:
        return {job.key for job in sweeps.jobs(tmp_path, "a", **more)}

    variants: list[dict[str, Any]] = [
        {},
        {"memory": "4G"},
        {"cpus": 2},
        {"nodes": "1G:1,1G"},
        {"cmdline": {"x": "nosmp"}},
        {"clock": "wall"},
        {"phases": False},
        {"trace": True},
    ]
    assert len(set.union(*(keys(**variant) for variant in variants))) == len(variants)
    assert len(keys(repetitions=3)) == 3
    # The names in the matrix, and how long to wait, do not make another boot.
    assert keys(cmdline={"renamed": ""}, timeout=5) == keys()
    before = keys()
    sweeps.kernel(tmp_path, "a")
    (tmp_path / "a" / "vmlinux").write_text("built anew")
    again = matrix.parse({"kernels": {"a": {"kernel": str(tmp_path / "a")}}}, "", tmp_path)
    assert {job.key for job in sweep.plan(again)} != before


def test_kernels_take_turns(tmp_path: Path) -> None:
    notes, cmdline = noting(tmp_path)
    jobs = sweeps.jobs(
        tmp_path, "a", "b", memory=["2G", "4G"], cmdline=cmdline, repetitions=2, clock="wall"
    )
    run(jobs, tmp_path / "r.sqlite")
    assert starts(notes) == ["a-2G", "b-2G", "a-4G", "b-4G"] * 2


@pytest.mark.parametrize(
    ("clock", "memory", "at_once"),
    [("exact", "2G", 2), ("wall", "2G", 1), ("exact", "256G", 1), ("exact", "2T", 1)],
)
def test_as_many_at_once_as_fit(tmp_path: Path, clock: str, memory: str, at_once: int) -> None:
    notes, cmdline = noting(tmp_path, "seconds=0.05")
    jobs = sweeps.jobs(tmp_path, "a", memory=memory, cmdline=cmdline, repetitions=4, clock=clock)
    run(jobs, tmp_path / "r.sqlite")
    assert most_at_once(notes) == at_once


def test_a_failure_stops_nothing_and_is_tried_again(tmp_path: Path) -> None:
    notes, cmdline = noting(tmp_path, "fail=4G")
    jobs = sweeps.jobs(tmp_path, "a", memory=["2G", "4G", "8G"], cmdline=cmdline)
    assert len(run(jobs, tmp_path / "r.sqlite")) == 2
    with Results.open(tmp_path / "r.sqlite") as kept:
        ((key, reason),) = kept.failures().items()
        assert key == jobs[1].key
        assert reason.startswith("the guest panicked: no root; the end of its console:\n  line")
    run(jobs, tmp_path / "r.sqlite")
    assert starts(notes).count("a-4G") == 2

    async def well(boot: BootSpec) -> Record:
        return boots.record("own", "4G", 7)

    assert len(run(jobs, tmp_path / "r.sqlite", well)) == 3
    with Results.open(tmp_path / "r.sqlite") as kept:
        assert kept.failures() == {}


def test_a_trace_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    jobs = sweeps.jobs(tmp_path, "a", memory=["2G", "4G"], trace=True)

    async def traced(boot: BootSpec) -> Record:
        assert "trace_event=cpuhp:*" in boot.cmdline
        (program,) = boot.programs
        path = program.split()[-1]
        made = boots.record("own", "2G", 7)
        text = "# tracer: nop\n" + "1: cpuhp_enter: cpu: 0001\n" * (boot.machine.memory_bytes < 3e9)
        return dataclasses.replace(made, files={path: text})

    run(jobs, tmp_path / "r.sqlite", traced)
    with Results.open(tmp_path / "r.sqlite") as kept:
        assert kept.keys() == {jobs[0].key}
        assert kept.failures() == {
            jobs[1].key: "the kernel traced no callbacks of CPUs: it needs CONFIG_BOOTTIME_TRACING"
            " and a tracer"
        }


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    notes, cmdline = noting(tmp_path, "seconds=0.1")
    jobs = sweeps.jobs(tmp_path, "a", cmdline=cmdline, repetitions=100)

    def interrupt() -> None:
        while len(list(notes.glob("end-*"))) < 4:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(jobs, tmp_path / "r.sqlite")
    began, ended = len(starts(notes)), len(list(notes.glob("end-*")))
    assert len(list(notes.glob("cancelled-*"))) == began - ended
    records = results.read([tmp_path / "r.sqlite"])
    assert 4 <= ended < 100
    assert ended - 2 <= len(records) <= ended


def test_an_error_that_is_no_failed_boot_ends_the_sweep(tmp_path: Path) -> None:
    notes, cmdline = noting(tmp_path, "seconds=5")
    jobs = sweeps.jobs(tmp_path, "a", memory=["2G", "4G"], cmdline=cmdline)

    async def broken(boot: BootSpec) -> Record:
        if boot.machine.memory_bytes < 3e9:
            raise ZeroDivisionError
        return await sweeps.measure(boot)

    with pytest.raises(ZeroDivisionError):
        run(jobs, tmp_path / "r.sqlite", broken)
    assert len(list(notes.glob("cancelled-*"))) == 1


def test_plan_refuses(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(UsageError, match=r"kernel x: unknown kernel base|kernel x: .*'9.9'"):
        sweep.plan(matrix.parse({"kernels": {"x": {"base": "9.9"}}}, "", tmp_path))
    with pytest.raises(UsageError, match="kernel x: unknown flavour 'sweet'"):
        sweep.plan(matrix.parse({"kernels": {"x": {"flavour": "sweet"}}}, "", tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FlatbootError, match="empty holds no vmlinux for x86_64"):
        sweep.plan(matrix.parse({"kernels": {"x": {"kernel": "empty"}}}, "", tmp_path))
    with pytest.raises(UsageError, match=r"a, x86_64, 4 GiB, 2 CPUs.* are the same boot"):
        sweeps.jobs(tmp_path, "a", memory=["2G", "4G"], nodes="2G:1,2G:1")
    same = sweeps.kernel(tmp_path, "a")
    with pytest.raises(UsageError, match=r"^one, .* and two, .* are the same boot"):
        sweep.plan(matrix.parse({"kernels": {"one": same, "two": same}}, "", tmp_path))


def test_a_machine_that_this_qemu_cannot_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    async def capabilities(arch: object) -> qemu.Capabilities:
        return dataclasses.replace(boots.ABLE, max_cpus=8)

    monkeypatch.setattr(qemu, "capabilities", capabilities)
    with pytest.raises(UsageError, match=r"takes at most 8 CPUs .*: ask for fewer than 9"):
        asyncio.run(ready_here(sweeps.jobs(tmp_path, "a", cpus=9)))


def invoke(*words: str | Path) -> tuple[int, str]:
    """Run the command and return its exit status, and what it printed or raised."""
    done = CliRunner(env={"COLUMNS": "160"}).invoke(cli.application(), ["sweep", *map(str, words)])
    failed = isinstance(done.exception, FlatbootError)
    return done.exit_code, str(done.exception) if failed else done.output


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the command take made-up boots."""
    real = sweep.run
    monkeypatch.setattr(
        sweep, "run", lambda jobs, kept, scheduler: real(jobs, kept, measure=sweeps.measure)
    )


@pytest.mark.usefixtures("booted")
def test_command(tmp_path: Path) -> None:
    sweeps.kernel(tmp_path, "a")
    sweeps.kernel(tmp_path, "b")
    words: list[str | Path]
    words = ["--kernel", tmp_path / "a", "--memory", "2G,8G", "--output", tmp_path / "r.sqlite"]
    status, text = invoke(*words, "--cmdline", "", "--cmdline", "x=1", "--plot", tmp_path / "p.svg")
    assert status == 0
    assert "4 boots: 0 are in" in text
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    rows = [line.split() for line in text.splitlines() if "│" in line]
    # The exponent is ln(9192 / 3048) / ln(4).
    assert [[word for word in row if word != "│"] for row in rows] == [
        ["own", "1", "1", "2", "GiB", "3,048", "0.16", "GB", "1"],
        ["1", "1", "8", "GiB", "9,192", "3.02x", "0.80", "0.16", "GB", "1"],
        ["own", "x=1", "1", "1", "2", "GiB", "3,048", "0.16", "GB", "1"],
        ["1", "1", "8", "GiB", "9,192", "3.02x", "0.80", "0.16", "GB", "1"],
    ]
    assert "4 boots: 2 are in" in invoke(*words, "--cpus", "1,4")[1]
    file = tmp_path / "m.toml"
    file.write_text('memory = ["2G", "8G"]\n[kernels.a]\nkernel = "a"\n')
    assert "2 boots: 2 are in" in invoke(file, "--output", tmp_path / "r.sqlite")[1]


@pytest.mark.usefixtures("booted")
def test_command_that_fails_in_part(tmp_path: Path) -> None:
    sweeps.kernel(tmp_path, "a")
    words = ["--kernel", tmp_path / "a", "--memory", "2G,8G", "--cmdline", "fail=8G"]
    done = CliRunner().invoke(
        cli.application(), ["sweep", *map(str, words), "--output", str(tmp_path / "r.sqlite")]
    )
    assert "3,048" in done.output
    failed = [line for line in done.output.splitlines() if line.startswith("failed: ")]
    title = f"{tmp_path / 'a'} fail=8G, x86_64, 8 GiB, 1 CPU"
    assert failed == [f"failed: {title}: the guest panicked: no root"]
    assert str(done.exception).startswith("1 of 2 boots failed: run the same again")


def test_command_that_makes_no_sense(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text('memory = "2G"\n')
    output = ("--output", tmp_path / "r.sqlite")
    wrong: list[tuple[tuple[str | Path, ...], str]] = [
        ((tmp_path / "m.toml", "--cpus", "2"), "leave out the options for cpus"),
        (("--memory", "2G,"), "the options: '' is not a memory size"),
        (("--cpus", "1,x"), "--cpus: 'x' is not a number of CPUs"),
        (("--plot", "p.png"), "--plot draws SVG: name a file that ends in .svg, not p.png"),
        (("--kernel", tmp_path / "none"), "there is no"),
        (("--tree", tmp_path, "--base", "7.3"), "more than one of base, tree and kernel"),
    ]
    for words, sentence in wrong:
        status, text = invoke(*words, *output)
        assert status == 1
        assert sentence in text
    assert not (tmp_path / "r.sqlite").exists()


def test_options_that_name_kernels() -> None:
    def names(
        base: str | None = None, flavour: str | None = None, config: str | None = None
    ) -> list[str]:
        return list(sweep_cli._kernels(base, flavour, config, None, None, None) or {})

    assert names() == []
    assert names(flavour="stock,flatboot") == ["stock", "flatboot"]
    assert names(flavour="stock", config="debug") == ["stock"]
    assert names(base="6.12,7.3", flavour="stock", config="bench,size") == [
        "6.12 bench",
        "6.12 size",
        "7.3 bench",
        "7.3 size",
    ]


def test_nodes_by_options() -> None:
    assert sweep_cli._node_words("1,2,4") == ["1", "2", "4"]
    assert sweep_cli._node_words("2G:2,6G") == ["2G:2,6G"]


def on(record: Record, cpus: int = 1, clock: str = "exact", accelerator: str = "tcg") -> Record:
    machine = dataclasses.replace(record.machine, cpus=cpus, accelerator=accelerator)
    return dataclasses.replace(record, machine=machine, clock=clock)


def rows(table: Table) -> list[list[str]]:
    return [list(map(str, row)) for row in zip(*(c.cells for c in table.columns), strict=True)]


def test_a_table_over_cpus() -> None:
    boot = boots.record("stock", "2G", 1000)
    costs = ((1, 1000), (4, 1500), (4, 2500), (4, 2000), (16, 4000))
    records = [on(dataclasses.replace(boot, to_init=cost), cpus) for cpus, cost in costs]
    (table,) = sweep_tables.tables(records)
    assert rows(table) == [
        ["stock", "1", "1", "2 GiB", "1,000", "", "", "0.16 GB", "1"],
        ["", "1", "4", "2 GiB", "2,000", "2.00x", "", "0.16 GB", "3"],
        ["", "1", "16", "2 GiB", "4,000", "4.00x", "0.50", "0.16 GB", "1"],
    ]


def test_clocks_stand_apart(tmp_path: Path) -> None:
    boot = boots.record("stock", "2G", 2_000_000)
    records = [on(boot), on(boot, clock="wall"), on(boot, clock="wall", accelerator="kvm")]
    tables = sweep_tables.tables(records)
    assert [table.title for table in tables] == [
        "Exact clock: instructions from reset to /init",
        "Wall clock, TCG: ms from reset to /init",
        "Wall clock, KVM: ms from reset to /init",
    ]
    assert [rows(table)[0][4] for table in tables] == ["2,000,000", "2.0", "2.0"]
    with pytest.raises(FlatbootError, match="no plot holds boots of two clocks"):
        sweep_tables.draw(records, tmp_path / "p.svg")


def test_a_plot_over_cpus(tmp_path: Path) -> None:
    boot = boots.record("stock", "2G", 1000)
    records = [on(dataclasses.replace(boot, to_init=1000 * cpus), cpus) for cpus in (1, 4, 16)]
    sweep_tables.draw(records, tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for words in ("boot cost against CPUs", "stock, exponent 1.00", "virtual CPUs"):
        assert f"<!-- {words}" in text or f"{words} -->" in text
