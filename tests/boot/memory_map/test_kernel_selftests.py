"""The kernel's own tests find the same on our kernel as on stock."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from guests import BASE, kernel_of

from flatboot.guest import kernel_selftests, stored
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.record import splats
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("memory-map")

#: Of the base: kernel_selftests.toml.
TABLES = tomllib.loads(Path(__file__).with_name("kernel_selftests.toml").read_text())[BASE]
#: What one boot runs.
GROUPS: dict[str, list[str]] = TABLES["groups"]
#: Parameters of both kernels, and of ours, where a group is run once more with them: the pool of
#: boot is not built when the tests begin.
POOLS = {
    "hugetlb": (
        "hugepages=300 hugepagesz=1G hugepages=1",
        "deferred_init=lazy hugetlb_deferred=on",
    ),
}
#: The test that has tests of its own, by category.
VM_TESTS = "mm:run_vmtests.sh"
SHORT = "quick"
#: Results that differ between two boots of stock, as patterns of their names, and why.
LUCK = {
    r"transact_test Extra pages \d": "its name counts what other threads did meanwhile",
}
#: Seconds that each test may take, and a boot.
TEST_S, BOOT_S = 1800, 7200.0
MEMORY = "4G"


def run(flavour: str, group: str, mode: str = "") -> Record:
    """Boot the kernel of *flavour* and run the tests of *group*."""
    kernel = kernel_of(flavour, "users")
    folder = kernel_selftests.installed(BASE)
    return stored.boot(
        BootSpec(
            kernel,
            machine(memory=MEMORY, cpus=2, nodes=2),
            f"log_buf_len=8M {mode}".strip(),
            "wall",
            (
                f"selftests {TEST_S} {' '.join(GROUPS[group])}",
                "poke show printed /tmp/selftests",
                "poke show meminfo /proc/meminfo",
            ),
            tuple(kernel_selftests.files(folder, kernel.image().dotconfig).items()),
            timeout_s=BOOT_S,
        )
    )


def complaints(record: Record) -> set[str]:
    """Return the splats in the kernel's log, without the numbers in them."""
    return {splat.told for splat in splats.find(record.log)}


def by_chance(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in LUCK)


def differences(group: str, both: str = "", mode: str = "deferred_init=lazy") -> set[str]:
    """Return in what a boot of each kernel differs: results, and what ours alone complains of.

    Args:
        group: of GROUPS.
        both: parameters of both kernels.
        mode: parameters of ours besides.
    """
    ours = run("flatboot", group, f"{both} {mode}")
    stock = run("stock", group, both)
    assert ours.meminfo["Deferred"] > (1 << 20 if both else 2 << 20)
    wanted, found = (kernel_selftests.results(record.files["printed"]) for record in (stock, ours))
    assert len([name for name in wanted if name.startswith("selftests: ")]) >= len(GROUPS[group])
    assert "ok" in wanted.values()
    return {
        f"{name}: {wanted.get(name)} on stock, {found.get(name)} here"
        for name in wanted.keys() | found.keys()
        if wanted.get(name) != found.get(name) and not by_chance(name)
    } | (complaints(ours) - complaints(stock))


@pytest.mark.timeout(8 * BOOT_S)
@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=[] if name == SHORT else pytest.mark.long) for name in GROUPS],
)
def test_same_results_as_stock(group: str) -> None:
    """Some tests give up after a while, so what a second try does not show is luck."""
    found = differences(group)
    assert not found or not found & differences(group)


@pytest.mark.long
@pytest.mark.timeout(8 * BOOT_S)
@pytest.mark.parametrize("group", POOLS)
def test_same_results_with_a_pool_that_is_not_built(group: str) -> None:
    found = differences(group, *POOLS[group])
    assert not found or not found & differences(group, *POOLS[group])


def test_every_test_is_run_or_known_not_to_be() -> None:
    """A base that brings a new test asks for a look at it."""
    known = {*(test for tests in GROUPS.values() for test in tests), *TABLES["not_run"]}
    folder = kernel_selftests.installed(BASE)
    listed = set((folder / "kselftest-list.txt").read_text().split())
    if VM_TESTS in listed:
        script = (folder / "mm/run_vmtests.sh").read_text()
        listed.remove(VM_TESTS)
        listed |= {f"{VM_TESTS}={name}" for name in re.findall(r'CATEGORY="(\w+)"', script)}
    assert listed == known
