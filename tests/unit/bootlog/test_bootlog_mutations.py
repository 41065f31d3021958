"""Logs that were cut, doubled, mixed up and damaged: nothing crashes, and nothing is made up."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from flatboot.bootlog import bootlog, bootlog_advice, bootlog_input, bootlog_lines
from flatboot.bootlog.bootlog import Analysis
from flatboot.common.errors import FlatbootError

LOGS = Path(__file__).parents[2] / "data/bootlog/public"
ANSWERS = tomllib.loads((LOGS / "answers.toml").read_text())
#: Mutations of each log, in the default tests and in the long ones.
SHORT, LONG = 40, 200
NOISE = [b"login: ", b"\x1b[2J\x1b[1;31mGRUB", b"{", b"}", b"[  OK  ] Started.", b"", b"__CURSOR="]


def dropped(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines if chance.random() > 0.1]


def doubled(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines for _ in range(1 + (chance.random() < 0.1))]


def cut(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Keep the beginning, the end, or the middle, and cut a line in two."""
    first, last = sorted(chance.randrange(len(lines) + 1) for _ in range(2))
    kept = lines[first:last] or lines[:1]
    return [*kept[:-1], kept[-1][: chance.randrange(len(kept[-1]) + 1)]]


def swapped(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Let lines change places with their neighbours, as CPUs do that print at once."""
    mixed = list(lines)
    for index in range(len(mixed) - 1):
        if chance.random() < 0.1:
            mixed[index : index + 2] = reversed(mixed[index : index + 2])
    return mixed


def flipped(lines: list[bytes], chance: random.Random) -> list[bytes]:
    data = bytearray(b"\n".join(lines))
    for _ in range(1 + len(data) // 500):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data).split(b"\n")


def mixed(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Let other programs write between the lines."""
    return [
        part
        for line in lines
        for part in ([chance.choice(NOISE), line] if chance.random() < 0.1 else [line])
    ]


MUTATIONS: list[Callable[[list[bytes], random.Random], list[bytes]]] = [
    dropped,
    doubled,
    cut,
    swapped,
    flipped,
    mixed,
]


def analyzed(data: bytes) -> Analysis | None:
    """Return what the log *data* tells, None if it is refused in a sentence."""
    try:
        return bootlog.analyze_lines(bootlog_lines.parse(bootlog_lines.split([data])))
    except FlatbootError as error:
        assert str(error)
        return None


@pytest.mark.parametrize("count", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [*ANSWERS, "../debian-13/dmesg.log"])
def test_mutations(name: str, count: int) -> None:
    whole = (LOGS / name).read_bytes()
    original = analyzed(whole)
    certain = {cause.name for cause in original.causes} if original else set()
    for seed in range(count):
        chance = random.Random(f"{name} {seed}")
        mutate = MUTATIONS[seed % len(MUTATIONS)]
        found = analyzed(b"\n".join(mutate(whole.split(b"\n"), chance)))
        if found is None:
            continue
        where = f"{name}, seed {seed}, {mutate.__name__}"
        lengths = [phase.length for phase in found.phases]
        assert min(lengths, default=0) >= 0, where
        assert sum(lengths) == (found.total if lengths else 0), where
        waits = [gap.length for gap in found.gaps] + [cause.length for cause in found.causes]
        assert all(0 <= length <= found.total for length in waits), where
        # What the whole log does not say for certain, a damaged one does not either.
        made_up = {cause.name for cause in found.causes if cause.name and cause.sure == "certain"}
        assert made_up <= certain, where
        bootlog_advice.advise(found)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    text = (LOGS / "dhcp.log").read_text()
    path = tmp_path / "log"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + text).encode(encoding))
    assert bootlog_input.analyze(str(path)) == bootlog_input.analyze(str(LOGS / "dhcp.log"))
