"""Builds: cached, incremental, reproducible in name, and nothing half-made after a failure."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import build

BUILDER = """
import sys
from pathlib import Path
from flatboot.common import paths
from flatboot.kernel import build
paths.repo = lambda: Path(sys.argv[1])
build.kernel(sys.argv[2], "stock", "bench")
"""


def compiled(cache: Path) -> list[str]:
    """Return what the last build compiled."""
    logs = sorted((cache / "objects").glob("*/src/o.*/build.log"), key=lambda f: f.stat().st_mtime)
    return [line.split()[1] for line in logs[-1].read_text().splitlines() if "  CC " in line]


def kernels(cache: Path) -> list[Path]:
    folder = cache / "kernels"
    return list(folder.iterdir()) if folder.is_dir() else []


def test_image_and_its_description(checkout: Path, kernel_tree: Path, cache: Path) -> None:
    image = build.kernel(str(kernel_tree), "flatboot", "bench")
    assert image.directory.parent == cache / "kernels"
    assert (image.base, image.version, image.flavour) == ("linux", "7.3.4", "flatboot")
    assert (image.config, image.arch) == ("bench", "x86_64")
    assert "gcc" in image.compiler
    assert image.image.name == "bzImage"
    assert image.vmlinux.read_text() == image.image.read_text()
    assert "line three\n" in image.vmlinux.read_text()
    assert "new\n" in image.vmlinux.read_text()
    assert image.system_map.read_text() == "map\n"
    assert "CONFIG_NEW=y" in image.dotconfig.read_text()
    assert build.load(image.directory) == image


def test_stock_has_neither_hooks_nor_overlay(checkout: Path, kernel_tree: Path) -> None:
    image = build.kernel(str(kernel_tree), "stock", "bench")
    assert "three" not in image.vmlinux.read_text()
    assert "new" not in image.vmlinux.read_text()
    assert "CONFIG_NEW" not in image.dotconfig.read_text()


def test_nothing_is_built_twice(checkout: Path, kernel_tree: Path, cache: Path) -> None:
    image = build.kernel(str(kernel_tree), "flatboot", "bench")
    log = next((cache / "objects").glob("*/src/o.*/build.log"))
    log.unlink()
    assert build.kernel(str(kernel_tree), "flatboot", "bench") == image
    assert not log.exists()


def test_hooks_and_overlay_do_not_touch_stock(checkout: Path, kernel_tree: Path) -> None:
    stock = build.kernel(str(kernel_tree), "stock", "bench")
    ours = build.kernel(str(kernel_tree), "flatboot", "bench")
    (checkout / "kernel/first/overlay/mm/new.c").write_text("newer\n")
    assert build.kernel(str(kernel_tree), "stock", "bench").key == stock.key
    assert build.kernel(str(kernel_tree), "flatboot", "bench").key != ours.key


def test_every_input_makes_another_key(
    checkout: Path, kernel_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {build.kernel(str(kernel_tree), "stock", "bench").key}
    fragment = checkout / "kernel/configs/x86_64.config"
    fragment.write_text("CONFIG_X=9\n")
    keys.add(build.kernel(str(kernel_tree), "stock", "bench").key)
    (kernel_tree / "mm/b.c").write_text("edited\n")
    keys.add(build.kernel(str(kernel_tree), "stock", "bench").key)
    compiler = tmp_path / "my-gcc"
    compiler.write_text("#!/bin/sh\necho my-gcc 1.0\n")
    compiler.chmod(0o755)
    mine = build.kernel(str(kernel_tree), "stock", "bench", cc=str(compiler))
    assert mine.compiler == "my-gcc 1.0"
    keys.add(mine.key)
    assert len(keys) == 4


def test_changed_hook_compiles_only_what_it_changes(
    checkout: Path, kernel_tree: Path, cache: Path
) -> None:
    build.kernel(str(kernel_tree), "flatboot", "bench")
    assert sorted(compiled(cache)) == ["mm/a.o", "mm/b.o", "mm/new.o"]
    hook = checkout / "kernel/first/hooks/7.3/change-a.patch"
    hook.write_text(hook.read_text().replace("line three", "line THREE"))
    image = build.kernel(str(kernel_tree), "flatboot", "bench")
    assert compiled(cache) == ["mm/a.o"]
    assert "line THREE\n" in image.vmlinux.read_text()


def test_compiler_error_shows_the_log(checkout: Path, kernel_tree: Path, cache: Path) -> None:
    (kernel_tree / "mm/b.c").write_text("BROKEN\n")
    with pytest.raises(FlatbootError) as caught:
        build.kernel(str(kernel_tree), "stock", "bench")
    text = str(caught.value)
    log = next((cache / "objects").glob("*/src/o.*/build.log"))
    assert text.startswith("building linux, stock, bench, x86_64 failed (exit status 2)")
    assert str(log) in text
    assert "mm/b.c:1: error: broken" in text
    assert kernels(cache) == []
    (kernel_tree / "mm/b.c").write_text("mended\n")
    assert "mended" in build.kernel(str(kernel_tree), "stock", "bench").vmlinux.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_build_leaves_nothing(
    checkout: Path, kernel_tree: Path, cache: Path, number: signal.Signals
) -> None:
    (kernel_tree / "mm/slow.c").write_text("SLOW\n")
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(checkout), str(kernel_tree)], stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 20
    while not list((cache / "objects").glob("*/src/o.*/started")):
        assert builder.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    builder.send_signal(number)
    assert builder.wait(10) != 0
    assert kernels(cache) == []
    where = next((cache / "objects").glob("*/src"))
    assert [p for p in Path("/proc").glob("[0-9]*/cwd") if _below(p, where)] == []
    (kernel_tree / "mm/slow.c").unlink()
    assert build.kernel(str(kernel_tree), "stock", "bench").vmlinux.is_file()


def _below(link: Path, folder: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False


def test_unknown_flavour_and_architecture(checkout: Path) -> None:
    with pytest.raises(UsageError, match="unknown flavour 'mint': choose one of stock, flatboot"):
        build.kernel("7.3", "mint", "bench")
    with pytest.raises(UsageError, match="unknown architecture 'vax'"):
        build.kernel("7.3", "stock", "bench", "vax")


def test_missing_compiler(checkout: Path, kernel_tree: Path) -> None:
    with pytest.raises(FlatbootError, match="the compiler gcc-1 is not there"):
        build.kernel(str(kernel_tree), "stock", "bench", cc="gcc-1")
