"""Debian packages of a kernel: made once, and the right one of them for a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.common.errors import FlatbootError
from flatboot.kernel import packages


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what the package target needs: here nothing of it is run."""
    monkeypatch.setattr(packages, "_TOOLS", ("make",))


def test_packages_are_made_once(checkout: Path, kernel_tree: Path, cache: Path) -> None:
    tree = str(kernel_tree)
    assert not packages.is_built(tree, "flatboot", "bench")
    made = packages.deb(tree, "flatboot", "bench")
    assert made.parent == cache / "packages"
    assert sorted(path.name for path in made.iterdir()) == [
        "linux-image-7.3.4-flatboot-dbg_7.3.4-1_amd64.deb",
        "linux-image-7.3.4-flatboot_7.3.4-1_amd64.deb",
        "linux-upstream_7.3.4-1_amd64.changes",
    ]
    assert packages.image(made).name == "linux-image-7.3.4-flatboot_7.3.4-1_amd64.deb"
    log = next((cache / "objects").glob("*/src/o.*/build.log"))
    log.unlink()
    assert packages.is_built(tree, "flatboot", "bench")
    assert packages.deb(tree, "flatboot", "bench") == made
    assert not log.exists()


def test_a_change_makes_them_anew_and_leaves_none_of_the_old(
    checkout: Path, kernel_tree: Path
) -> None:
    old = packages.deb(str(kernel_tree), "stock", "bench")
    (kernel_tree / "mm/b.c").write_text("edited\n")
    new = packages.deb(str(kernel_tree), "stock", "bench")
    assert "edited" in packages.image(new).read_text()
    assert "edited" not in packages.image(old).read_text()
    assert len(list(new.iterdir())) == 3


def test_a_build_that_fails_leaves_no_packages(
    checkout: Path, kernel_tree: Path, cache: Path
) -> None:
    (kernel_tree / "mm/b.c").write_text("BROKEN\n")
    with pytest.raises(FlatbootError, match="packages of linux, stock, bench"):
        packages.deb(str(kernel_tree), "stock", "bench")
    assert not (cache / "packages").exists()


def test_a_tool_that_is_missing_is_named(
    checkout: Path, kernel_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_TOOLS", ("make", "dpkg-no-tool"))
    with pytest.raises(FlatbootError, match="dpkg-no-tool is not there"):
        packages.deb(str(kernel_tree), "stock", "bench")
