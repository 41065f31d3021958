"""Configs: names, fragments, and lines that do not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import write

from flatboot.common import arches
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import groups, kconfig
from flatboot.kernel.make import Make


def maker(tree: Path) -> Make:
    return Make(tree, tree / "o.test", arches.load("x86_64"), "gcc")


def test_fragments_in_order_and_by_flavour(checkout: Path) -> None:
    arch = arches.load("x86_64")
    stock = kconfig.resolve("bench", (), arch)
    ours = kconfig.resolve("bench", groups.every(), arch)
    assert [file.name for file in stock.files] == ["bench.config", "x86_64.config"]
    assert [file.name for file in ours.files] == [
        "bench.config",
        "x86_64.config",
        "options.config",
    ]
    assert stock.digest != ours.digest


def test_fragments_of_an_architecture(checkout: Path) -> None:
    table = checkout / "kernel/configs/configs.toml"
    table.write_text(table.read_text() + 'arm64 = ["less.config"]\n')
    (checkout / "kernel/configs/less.config").write_text("CONFIG_A=n\n")
    (checkout / "kernel/configs/arm64.config").write_text("CONFIG_X=9\n")
    (checkout / "kernel/first/options-arm64.config").write_text("CONFIG_ELSEWHERE=y\n")
    there = {
        name: [
            file.name for file in kconfig.resolve("bench", groups.every(), arches.load(name)).files
        ]
        for name in ("arm64", "x86_64")
    }
    of_groups = ["options.config", "options-arm64.config"]
    assert there["arm64"] == ["bench.config", "arm64.config", "less.config", *of_groups]
    assert there["x86_64"] == ["bench.config", "x86_64.config", "options.config"]
    [first] = [group for group in groups.every() if group.name == "first"]
    assert {"NEW", "ELSEWHERE"} <= {*kconfig.options(first)}


def test_unknown_config_lists_what_there_is(checkout: Path) -> None:
    with pytest.raises(UsageError, match="unknown config 'fast': choose one of bench, or give"):
        kconfig.resolve("fast", (), arches.load("x86_64"))


def test_missing_fragment_is_named(checkout: Path) -> None:
    (checkout / "kernel/configs/bench.config").unlink()
    with pytest.raises(FlatbootError, match=r"'bench' needs .*/bench\.config, which is not there"):
        kconfig.resolve("bench", (), arches.load("x86_64"))


def test_all_lines_take(checkout: Path, kernel_tree: Path) -> None:
    config = kconfig.resolve("bench", (), arches.load("x86_64"))
    dotconfig = kconfig.configure(maker(kernel_tree), config)
    assert kconfig.settings(dotconfig) == {"A": "y", "X": "8"}


def test_line_that_did_not_take_is_named_with_what_it_needs(
    checkout: Path, kernel_tree: Path
) -> None:
    (checkout / "kernel/configs/bench.config").write_text("CONFIG_A=y\n\nCONFIG_LOST=y\n")
    config = kconfig.resolve("bench", (), arches.load("x86_64"))
    with pytest.raises(FlatbootError) as caught:
        kconfig.configure(maker(kernel_tree), config)
    lines = str(caught.value).splitlines()
    assert lines[0] == "1 options of the config bench did not take:"
    assert lines[1] == (
        "  CONFIG_LOST=y (bench.config:3): it is not set; see Kconfig:9, depends on A || B"
    )
    kconfig.configure(maker(kernel_tree), config, check=False)


def test_missed_lines(tmp_path: Path, kernel_tree: Path) -> None:
    write(
        tmp_path,
        {
            "one": 'CONFIG_S="x y"\nCONFIG_OVERRIDDEN=y\nCONFIG_WRONG=7\n# CONFIG_ON is not set\n',
            "two": "CONFIG_OVERRIDDEN=n\nCONFIG_HIDDEN=y\nCONFIG_OFF=n\n",
            "dotconfig": 'CONFIG_S="x y"\nCONFIG_WRONG=8\nCONFIG_ON=y\n# CONFIG_OFF is not set\n',
        },
    )
    lost = kconfig.missed([tmp_path / "one", tmp_path / "two"], tmp_path / "dotconfig", kernel_tree)
    assert [(m.line, m.file.name, m.number) for m in lost] == [
        ("CONFIG_WRONG=7", "one", 3),
        ("CONFIG_ON=n", "one", 4),
        ("CONFIG_HIDDEN=y", "two", 2),
    ]
    assert lost[0].reason == "this tree has no such option"
    assert lost[2].reason == "it is not set; see Kconfig:18"


def test_full_config_loses_certificates_that_are_not_there(
    checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    full = tmp_path / "distribution.config"
    full.write_text(
        'CONFIG_LOST=y\nCONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/key.pem"\n'
        'CONFIG_SYSTEM_REVOCATION_KEYS=""\n'
    )
    config = kconfig.resolve(str(full), groups.every(), arches.load("x86_64"))
    assert config.full
    dotconfig = kconfig.configure(maker(kernel_tree), config)
    assert dotconfig.read_text().splitlines() == [
        'CONFIG_SYSTEM_TRUSTED_KEYS=""',
        'CONFIG_SYSTEM_REVOCATION_KEYS=""',
    ]
