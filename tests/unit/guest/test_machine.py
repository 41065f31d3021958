"""Machines that can be made, and those that cannot."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flatboot.common import arches
from flatboot.common.errors import UsageError
from flatboot.guest import qemu
from flatboot.guest.machine import Node, machine, parse_nodes

ABLE = qemu.Capabilities("/bin/q", "7.2.22", "pc-q35-7.2", 288, frozenset({"dtb-randomness"}), "")


def test_memory_and_cpus_are_spread_over_nodes() -> None:
    made = machine(memory="1000M", cpus=5, nodes=3)
    assert sum(node.memory_bytes for node in made.nodes) == 1000 << 20
    assert [node.cpus for node in made.nodes] == [2, 2, 1]
    assert all(node.memory_bytes % (1 << 20) == 0 for node in made.nodes)


def test_nodes_may_be_named_one_by_one() -> None:
    made = machine(nodes=parse_nodes("2G:2,0:1,6G"))
    assert made.nodes == (Node(2 << 30, 2), Node(0, 1), Node(6 << 30, 0))
    assert (made.memory_bytes, made.cpus) == (8 << 30, 3)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"arch": "z80"}, "unknown architecture 'z80'"),
        ({"memory": "lots"}, "is not a memory size"),
        ({"memory": "1M"}, "too little to boot"),
        ({"memory": "900T"}, "more than x86_64 takes"),
        ({"memory": (1 << 30) + 4096}, "not whole MiB"),
        ({"cpus": 0}, "0 CPUs cannot be emulated"),
        ({"cpus": 100_000}, "100000 CPUs cannot be emulated"),
        ({"nodes": 0}, "0 nodes cannot be made"),
        ({"memory": "8G", "nodes": 1000}, "1000 nodes are too many"),
        ({"nodes": [Node(0, 1), Node(1 << 30, 0)]}, "node 0 has no memory"),
    ],
)
def test_impossible_machines(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        machine(**asked)


@pytest.mark.parametrize("text", ["two", "2G:x", "2G,,1G"])
def test_bad_nodes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_nodes(text)


def arguments(**asked: Any) -> list[str]:
    made = machine(**asked)
    return qemu.machine_arguments(arches.load(made.arch), made, ABLE)


def values(words: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(words) if name == option]


def test_arguments_without_numa() -> None:
    words = arguments(memory="1T")
    assert values(words, "-M") == ["pc-q35-7.2,memory-backend=m0"]
    assert values(words, "-object") == [f"memory-backend-ram,id=m0,size={1 << 40},reserve=off"]
    assert "phys-bits=48" in values(words, "-cpu")[0]
    assert "-numa" not in words


def test_arguments_with_numa() -> None:
    words = arguments(nodes=parse_nodes("2G:2,0:1,6G"))
    assert values(words, "-numa") == [
        "node,nodeid=0,cpus=0-1,memdev=m0",
        "node,nodeid=1,cpus=2-2",
        "node,nodeid=2,memdev=m2",
    ]
    assert values(words, "-m") == ["8192M"]
    assert values(words, "-smp") == ["3"]


def test_large_memory_needs_more_address_bits() -> None:
    assert "phys-bits=52" in values(arguments(memory="16T"), "-cpu")[0]


def test_arm64_board_has_no_random_device_tree() -> None:
    words = arguments(arch="arm64")
    assert "dtb-randomness=off" in values(words, "-M")[0]


def test_more_cpus_than_this_qemu_takes() -> None:
    small = qemu.Capabilities("/bin/q", "7.2.22", "pc-q35-7.2", 8, frozenset(), "")
    with pytest.raises(UsageError, match="takes at most 8 CPUs"):
        qemu.machine_arguments(arches.load("x86_64"), machine(cpus=9), small)
