"""``kernel check`` objects to what a compiler would: in a real tree, with nothing configured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flatboot.kernel import compiling, groups, sources, targets, tree
from flatboot.kernel.check import Robot
from flatboot.kernel.compiling import Attempt, Judgement, Tree
from flatboot.kernel.layer import File, Layer

BASE = "7.3"
FILE = "mm/util.c"
SIMULATOR = "tools/testing/memblock"


@pytest.fixture(scope="module")
def robot() -> Robot:
    source = sources.resolve(BASE)
    return Robot(source, groups.chosen(BASE), targets.every(), ("gcc",), range(0), long=False)


@pytest.fixture(scope="module")
def attempt(robot: Robot) -> Attempt:
    wanted = "allnoconfig, x86-64, gcc"
    return next(trial.attempt for trial in robot.trials() if trial.title == wanted)


def stock(robot: Robot) -> Tree:
    return Tree(robot.source, Layer(), "stock")


def verdict(robot: Robot, attempt: Attempt, added: str) -> Judgement:
    """Return what is found if nothing but *added* stands at the end of a file of the base."""
    text = (robot.source.directory() / FILE).read_text()
    ours = Tree(robot.source, Layer({FILE: File((text + added).encode())}), "check-part")
    return compiling.judge(ours, stock(robot), attempt, [FILE])


def test_what_stock_does_not_have_is_found(robot: Robot, attempt: Attempt) -> None:
    assert verdict(robot, attempt, "\n/* nothing */\n") == Judgement(1, (), base_fails=False)
    calls = (
        "int not_there(void);\nint calls_it(void);\nint calls_it(void) { return not_there(); }\n"
    )
    warned = '#warning "by itself"\n'
    assert verdict(robot, attempt, calls + warned).objections == (
        'mm/util.c: warning: #warning "by itself" [-Wcpp]',
        "not_there is used, and nothing defines it",
    )
    wrong = verdict(robot, attempt, "int wrong(void) { return 1 }\n")
    assert "mm/util.o: error: not made" in wrong.objections
    assert not wrong.base_fails


def test_a_file_that_is_not_configured_is_not_compiled(robot: Robot, attempt: Attempt) -> None:
    files = ["mm/util.c", "mm/hugetlb.c", "drivers/acpi/scan.c", "arch/arm64/mm/mmu.c"]
    files += ["kernel/sched/core.c", "arch/x86/kernel/setup.c", "arch/x86/kernel/smpboot.c"]
    # A folder that the architecture's Kbuild names, and one that its Makefile does.
    files += ["arch/x86/hyperv/hv_init.c", "arch/x86/lib/cmdline.c"]
    assert compiling.judge(stock(robot), stock(robot), attempt, files).files == 4


def test_memblock_compiles_in_its_simulator(robot: Robot, tmp_path: Path) -> None:
    """It has stubs of its own for what mm/memblock.c includes; the links are its Makefile's."""
    links = {
        "memblock.c": "mm/memblock.c",
        "linux/memblock.h": "include/linux/memblock.h",
        "asm/asm.h": "tools/arch/x86/include/asm/asm.h",
        "asm/cmpxchg.h": "tools/arch/x86/include/asm/cmpxchg.h",
    }
    with tree.work_tree(robot.source, "check-part", robot.ours) as root:
        for name, target in links.items():
            link = tmp_path / name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(root / target)
        includes = [
            f"-I{folder}" for folder in (tmp_path, root / SIMULATOR, root / "tools/include")
        ]
        words = ["-Wall", "-Werror", "-O2", "-DCONFIG_PHYS_ADDR_T_64BIT", "-c", "-omemblock.o"]
        done = subprocess.run(
            ["gcc", *includes, *words, "memblock.c"], cwd=tmp_path, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
