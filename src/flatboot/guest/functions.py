"""Which kernel functions a boot spends its instructions in, counted by a plugin of QEMU.

The guest runs the same with the plugin, plugin/functions.c, as without. With one CPU the counts add
up to the instructions to /init, to within a few (3 for stock on 2 GiB). With several, time in which
all of them wait is no instruction: 17,193 of 406,432,801 for stock on 2 GiB with two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError
from flatboot.guest import cprogram
from flatboot.guest.qemu import Capabilities
from flatboot.record import marks
from flatboot.record.marks import Symbols

#: The name of all that lies outside the kernel.
FIRMWARE = "firmware"
#: Functions that do nothing but wait for a time to pass.
DELAYS = ("delay_tsc", "delay_loop", "__delay")
#: The folder of their sources.
PLUGINS = Path(__file__).parent / "plugin"
_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
# The first QEMU that refuses plugins of version 1.
_VERSION_2_SINCE = 9


@dataclass(frozen=True)
class Difference:
    """A function, or several together, and their instructions in a small and a large boot."""

    name: str
    small: int
    large: int

    @property
    def grown(self) -> int:
        """How many more there are in the large boot."""
        return self.large - self.small


def plugin(able: Capabilities, name: str) -> Path:
    """Return the plugin *name* for the installed QEMU, compiled at most once.

    Raises:
        FlatbootError: the compiler is missing or refuses it.
    """
    version = 2 if int(able.version.partition(".")[0]) >= _VERSION_2_SINCE else 1
    flags = [*_FLAGS, f"-DAPI_VERSION={version}"]
    return cprogram.compiled(f"plugin/{name}", "gcc", flags, PLUGINS / f"{name}.c")


def sources(name: str) -> list[Path]:
    """Return the files that the plugin *name* is made of: its own, and the headers of all."""
    return [PLUGINS / f"{name}.c", *sorted(PLUGINS.glob("*.h"))]


def read(counts: str, symbols: Symbols, arch: Arch) -> dict[str, int]:
    """Return the instructions of each function, most first, from what the plugin wrote.

    Addresses at which the kernel runs before it maps itself count for the function that lies
    there. Functions of one name are one, and those that count nothing are left out.

    Raises:
        FlatbootError: the symbol table does not say where the kernel begins and ends.
    """
    begin, end = symbols.address("_text"), symbols.address("_end")
    if begin is None or end is None:
        raise FlatbootError("System.map has no _text and _end, so functions cannot be told")
    early = marks.physical(begin, arch, symbols)
    found: Counter[str] = Counter()
    for line in counts.splitlines():
        words = line.split()
        address, count = int(words[0], 16), int(words[1])
        if early is not None and early <= address < early + end - begin:
            address += begin - early
        found[symbols.name(address) if begin <= address < end else FIRMWARE] += count
    return dict((+found).most_common())


def work(found: Mapping[str, int]) -> int:
    """Return the instructions of all functions together, without delay loops."""
    return sum(found.values()) - sum(found.get(name, 0) for name in DELAYS)


def differences(small: Mapping[str, int], large: Mapping[str, int]) -> list[Difference]:
    """Return all functions of two boots, the one that grew most first."""
    names = sorted(small.keys() | large.keys())
    rows = [Difference(name, small.get(name, 0), large.get(name, 0)) for name in names]
    return sorted(rows, key=lambda row: -row.grown)


def most_grown(rows: list[Difference], share: float, most: int) -> list[Difference]:
    """Return the first of *rows* that make up *share* of all growth, *most* of them at most.

    *rows* are sorted, as ``differences`` returns them; what shrank is no growth.
    """
    wanted = share * sum(max(row.grown, 0) for row in rows)
    first: list[Difference] = []
    for row in rows[:most]:
        if row.grown <= 0 or sum(chosen.grown for chosen in first) >= wanted:
            break
        first.append(row)
    return first


def together(name: str, rows: list[Difference]) -> Difference:
    """Return the sum of *rows* as one row."""
    return Difference(name, sum(row.small for row in rows), sum(row.large for row in rows))
