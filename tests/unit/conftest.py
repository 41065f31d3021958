"""A tiny checkout and a tiny kernel tree, with a real git and make around them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import BASES, CONFIGS, GROUP, HOOK, KCONFIG, MAKEFILE, MERGE_CONFIG, git, write

from flatboot.common import paths
from flatboot.guest import stored
from flatboot.kernel import build


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, so that no test touches the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return paths.cache()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one base, one config, and a group with a hook and an overlay file, in git."""
    root = tmp_path / "checkout"
    write(
        root,
        {
            "kernel/bases.toml": BASES,
            "kernel/configs/configs.toml": CONFIGS,
            "kernel/configs/bench.config": "CONFIG_A=y\nCONFIG_B=n\n",
            "kernel/configs/x86_64.config": "CONFIG_X=8\n",
            "kernel/checkpatch-exceptions": "# none\n",
            "kernel/groups.toml": 'groups = ["first", "second"]\n',
            "kernel/first/group.toml": GROUP.format("what is first", ""),
            "kernel/first/options.config": "CONFIG_NEW=y\n",
            "kernel/first/hooks/7.3/series": "change-a.patch\n",
            "kernel/first/hooks/7.3/change-a.patch": HOOK,
            "kernel/first/overlay.toml": '[topics]\n"change-a" = ["mm/new.c"]\n',
            "kernel/first/overlay/mm/new.c": "new\n",
            "kernel/second/group.toml": GROUP.format("what needs it", '"first"'),
            "kernel/second/hooks/7.3/series": "",
        },
    )
    git(root, "init", "-q")
    git(root, "config", "user.name", "flatboot tests")
    git(root, "config", "user.email", "tests@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    monkeypatch.setattr(paths, "repo", lambda: root)
    return root


@pytest.fixture
def kernel_tree(tmp_path: Path) -> Path:
    """A folder that passes for a kernel tree and builds in no time."""
    root = tmp_path / "linux"
    write(
        root,
        {
            "Makefile": MAKEFILE,
            "Kconfig": KCONFIG,
            ".gitignore": "*.o\n",
            "mm/a.c": "".join(f"line {number}\n" for number in range(1, 11)),
            "mm/b.c": "b\n",
            "scripts/kconfig/merge_config.sh": MERGE_CONFIG,
        },
    )
    (root / "scripts/kconfig/merge_config.sh").chmod(0o755)
    return root


@pytest.fixture(autouse=True)
def own_tallies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boots and builds that are made up are not those of the run."""
    monkeypatch.setattr(stored, "tally", stored.BootTally())
    monkeypatch.setattr(build, "tally", build.BuildTally())
