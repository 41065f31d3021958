"""`flatboot bench`: what it finds in README and docs, what it rewrites, which boots it makes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from boots import record
from fakes import write
from rich.table import Table

from flatboot.campaign import kept
from flatboot.campaign.kept import Kept, Wanted
from flatboot.cli import bench_cli
from flatboot.common import host, paths
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.record import excerpts
from flatboot.record.excerpts import NOTHING, Reads
from flatboot.show.plain_table import plain

REPO = paths.repo()
TABLES = """
[costs]
makes = "memory_map/shown_costs:table"
[curve]
makes = "memory_map/shown_costs:draw"
file = "docs/curve.svg"
"""
MODULE = """
from rich.table import Table
from flatboot.campaign.kept import Wanted

def table(kept):
    made = Table("kernel", "cost", title="what it costs")
    made.add_row("stock", f"{kept(Wanted('costs', 'stock', '2G')).to_init:,}")
    return made

def draw(kept, path):
    path.write_text(f"<svg>{kept(Wanted('costs', 'stock', '2G')).to_init}</svg>")
"""
README = """\
# Costs

<!-- bench: costs -->

What it costs.

| kernel | cost |
| --- | --- |
| stock | 1,000 |

<!-- end -->

<!-- bench: curve -->

![the curve](docs/curve.svg)

<!-- end -->

More.
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with a table, a plot, and the record that both were made of."""
    write(
        tmp_path,
        {
            "README.md": README,
            "docs/costs.md": "no mark\n",
            "docs/curve.svg": "<svg>1000</svg>",
            "bench/tables.toml": TABLES,
            "bench/memory_map/shown_costs.py": MODULE,
        },
    )
    whole = record("stock", "2G", 1000)
    excerpts.add(
        tmp_path / "bench/results/costs.json", "stock-2G", excerpts.excerpt(whole, NOTHING)
    )
    monkeypatch.setattr(paths, "repo", lambda: tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("shown_costs", None)


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """The boots that are made; each costs 2,000 instructions."""
    made: list[Wanted] = []

    def booted(wanted: Wanted) -> object:
        made.append(wanted)
        return record(wanted.flavour, wanted.memory, 2000)

    monkeypatch.setattr(kept, "_booted", booted)
    return made


def shown(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text() for name in ("README.md", "docs/curve.svg")}


def test_nothing_changes_where_the_figures_are_the_same(
    repo: Path, boots: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(repo)
    bench_cli.bench(kept=True, check=True, name=None)
    bench_cli.bench(kept=True, check=False, name=None)
    assert shown(repo) == before
    assert not boots
    assert "changed" not in capsys.readouterr().out


def test_figures_that_changed_are_rewritten_and_told(
    repo: Path, boots: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    bench_cli.bench(kept=False, check=False, name=None)
    assert shown(repo)["README.md"] == README.replace("1,000", "2,000")
    assert shown(repo)["docs/curve.svg"] == "<svg>2000</svg>"
    out = capsys.readouterr().out
    assert "stock, cost: 1,000 → 2,000" in out
    assert "the plot differs" in out
    assert len(boots) == 1
    bench_cli.bench(kept=True, check=True, name=None)
    assert len(boots) == 1


def test_a_check_writes_nothing_and_fails(repo: Path, boots: list[Wanted]) -> None:
    before = shown(repo)
    with pytest.raises(typer.Exit) as ended:
        bench_cli.bench(kept=False, check=True, name=None)
    assert ended.value.exit_code == 1
    assert shown(repo) == before
    assert boots
    bench_cli.bench(kept=True, check=True, name=None)


def test_one_table_alone(repo: Path, boots: list[Wanted]) -> None:
    bench_cli.bench(kept=False, check=False, name="costs")
    assert shown(repo)["docs/curve.svg"] == "<svg>1000</svg>"
    assert "2,000" in shown(repo)["README.md"]
    with pytest.raises(UsageError, match=r"unknown table 'cost': choose one of costs, curve"):
        bench_cli.bench(kept=True, check=False, name="cost")


def test_figures_that_the_laboratory_reads_stand_nowhere(
    repo: Path, boots: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        repo,
        {
            "bench/tables.toml": f"""{TABLES}
[noise]
makes = "memory_map/shown_costs:noise"
file = "src/noise.toml"
""",
            "bench/memory_map/shown_costs.py": f"""{MODULE}
def noise(kept, path):
    path.write_text(f"most = {{kept(Wanted('costs', 'stock', '2G')).to_init}}\\n")
""",
            "src/noise.toml": "most = 5\n",
        },
    )
    bench_cli.bench(kept=True, check=False, name=None)
    assert (repo / "src/noise.toml").read_text() == "most = 1000\n"
    assert "most = 5 → most = 1000" in capsys.readouterr().out
    bench_cli.bench(kept=True, check=True, name=None)


def test_a_table_of_another_shape_replaces_the_old_one(repo: Path) -> None:
    old = README.replace("| stock | 1,000 |\n", "")
    (repo / "README.md").write_text(old)
    bench_cli.bench(kept=True, check=False, name="costs")
    assert shown(repo)["README.md"] == README


def test_a_table_may_stand_in_two_places(repo: Path) -> None:
    (repo / "docs/costs.md").write_text("<!-- bench: costs -->\n<!-- end -->\nbelow\n")
    bench_cli.bench(kept=True, check=False, name=None)
    text = (repo / "docs/costs.md").read_text()
    assert text.endswith("| stock | 1,000 |\n\n<!-- end -->\nbelow\n")


def test_an_indented_mark_is_an_example(repo: Path) -> None:
    (repo / "docs/costs.md").write_text("    <!-- bench: any -->\n    <!-- end -->\n")
    bench_cli.bench(kept=True, check=True, name=None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (README.replace("<!-- end -->", "", 1), "README.md: <!-- bench: costs --> has no <!-- end"),
        (README.replace("bench: costs", "bench: cost"), "README.md shows 'cost'"),
        ("nothing\n", "costs of bench/tables.toml stands nowhere"),
    ],
)
def test_marks_that_are_wrong(repo: Path, text: str, sentence: str) -> None:
    (repo / "README.md").write_text(text)
    with pytest.raises(FlatbootError, match=sentence):
        bench_cli.bench(kept=True, check=False, name=None)
    assert (repo / "README.md").read_text() == text


def test_a_boot_is_made_once_and_kept(tmp_path: Path, boots: list[Wanted]) -> None:
    one = Wanted("a", "stock", "2G")
    two = dataclasses.replace(one, nodes=2, cpus=2, programs=("poke x", "fill 4k 2"))
    first = Kept(tmp_path, again=False)
    assert first(one) is first(one)
    first(two)
    assert boots == [one, two]
    assert set(excerpts.load(tmp_path / "a.json")) == {"stock-2G", "stock-2G-2n2c-fill-4k-2"}
    assert Kept(tmp_path, again=False)(one).to_init == first(one).to_init == 2000
    assert len(boots) == 2
    Kept(tmp_path, again=True, save=False)(one)
    assert len(boots) == 3
    Kept(tmp_path / "none", again=True, save=False)(one)
    assert not (tmp_path / "none").exists()


def test_a_kept_record_of_another_boot_is_refused(tmp_path: Path, boots: list[Wanted]) -> None:
    """The boots made up here have one CPU, whatever is wanted."""
    wanted = Wanted("a", "stock", "2G", cpus=2)
    Kept(tmp_path, again=False)(wanted)
    with pytest.raises(FlatbootError, match=r"a.json: .* a/stock-2G-1n2c is of another boot"):
        Kept(tmp_path, again=False)(wanted)


def test_a_boot_whose_kernel_complains_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splat = "4,18,0,-;WARNING: arch/arm64/mm/mmu.c:1845 at vmemmap_populate+0x3c/0x54"
    made = dataclasses.replace(record("flatboot", "2G", 2000), console=f"before\n{splat}\nafter\n")
    wanted = Wanted("a", "flatboot", "2G")
    monkeypatch.setattr(kept, "_booted", lambda wanted: made)
    with pytest.raises(FlatbootError, match=r"a/flatboot-2G complains.*\nbefore\n4,18.*\nafter"):
        Kept(tmp_path, again=False)(wanted)
    assert not list(tmp_path.glob("a*"))


def test_what_a_table_reads_is_kept_and_nothing_else(tmp_path: Path, boots: list[Wanted]) -> None:
    reads = Reads(results=("mark",), files=(("/proc/meminfo", ("MemFree:*",)),))
    wanted = Wanted("a", "stock", "2G", reads=reads)
    for kept_ones in (Kept(tmp_path, again=False), Kept(tmp_path, again=False)):
        found = kept_ones(wanted)
        assert found.results["mark"] == "2000"
        assert found.meminfo == {"MemFree": 2039672}
        with pytest.raises(FlatbootError, match=r"a table reads phases of a/stock-2G and does"):
            print(found.phases)
        with pytest.raises(FlatbootError, match=r"reads /proc/vmstat of a/stock-2G"):
            found.files.get("/proc/vmstat", "")
    text = (tmp_path / "a.json").read_text()
    assert "flatboot: complete" not in text and "MemTotal" not in text
    assert len(boots) == 1


def test_what_is_kept_for_less_is_refused(tmp_path: Path, boots: list[Wanted]) -> None:
    wanted = Wanted("a", "stock", "2G", reads=Reads(results=("mark", "pool.*")))
    Kept(tmp_path, again=False)(wanted)
    less = dataclasses.replace(wanted, reads=Reads(results=("mark",)))
    assert Kept(tmp_path, again=False)(less).results["mark"] == "2000"
    more = dataclasses.replace(wanted, phases=True)
    with pytest.raises(FlatbootError, match=r"a.json: .* a/stock-2G lacks phases that its table"):
        Kept(tmp_path, again=False)(more)
    assert len(boots) == 1


def test_a_damaged_file_is_told_before_the_boot(tmp_path: Path, boots: list[Wanted]) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(FlatbootError, match="not a whole file"):
        Kept(tmp_path, again=True)(Wanted("a", "stock", "2G"))
    assert not boots


def test_a_boot_that_this_machine_has_no_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 8_000_000_000)
    with pytest.raises(FlatbootError, match=r"a/stock-1T may take 17.91 GB .* 8.00 GB is free"):
        Kept(tmp_path, again=False)(Wanted("a", "stock", "1T"))
    with pytest.raises(FlatbootError, match="may take"):
        Kept(tmp_path, again=False)(Wanted("a", "flatboot", "16G", programs=("fill 4k 1",)))


def test_whether_a_boot_is_possible(
    tmp_path: Path, boots: list[Wanted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 8_000_000_000)
    kept = Kept(tmp_path, again=False)
    large = Wanted("a", "stock", "1T")
    lazy = Wanted("a", "flatboot", "1T", "deferred_init=lazy")
    assert not kept.can(large)
    assert not kept.can(dataclasses.replace(lazy, cmdline="deferred_init=wait"))
    assert kept.can(lazy)
    # Who has a record needs no memory.
    kept(large)
    assert kept.can(large)
    assert not Kept(tmp_path, again=True).can(large)


@pytest.mark.parametrize(("fills", "possible"), [(True, False), (False, True)])
def test_programs_may_take_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fills: bool, possible: bool
) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 8_000_000_000)
    wanted = Wanted("a", "stock", "64G", programs=("ready",), fills=fills)
    assert Kept(tmp_path, again=False).can(wanted) == possible


def test_a_terminal_table_as_markdown() -> None:
    table = Table(title="what|who", caption="in [b]all[/]", show_footer=True)
    table.add_column("name", footer="total")
    table.add_column("n", justify="right", footer="3")
    table.add_column("")
    table.add_row("a|b", "1", "bar")
    table.add_row("[red]c[/]", "2", "bar")
    assert plain(table).markdown() == (
        "What|who.\n\n| name | n |\n| --- | ---: |\n| a\\|b | 1 |\n| c | 2 |\n| total | 3 |\n\n"
        "In all.\n"
    )


def test_every_table_of_this_checkout_has_a_function_and_a_place() -> None:
    entries = bench_cli._entries(REPO / "bench/tables.toml")
    for name, places in bench_cli._places(REPO, entries).items():
        assert callable(bench_cli._function(entries[name].makes, REPO / "bench"))
        assert all(place.text for place in places)


@pytest.mark.parametrize(
    "name",
    [
        "headline",
        "boot-cost",
        "growth-ledger",
        "wait-cost",
        "latency",
        "layout",
        "layout-noise",
        "fill",
        "memory-sweep",
        "curve",
        "curve-plot",
        "arm64",
        "arm64-growth",
        "first-process",
        "page-cost",
        "growth-latency",
        "cpu-project",
        "cpu-project-published",
        "cpu-project-asked",
        "cpu-project-check",
        "cpu-project-terms",
        "cpu-project-dearest",
    ],
)
def test_docs_show_what_the_kept_records_say(name: str, boots: list[Wanted]) -> None:
    bench_cli.bench(kept=True, check=True, name=name)
    assert not boots
