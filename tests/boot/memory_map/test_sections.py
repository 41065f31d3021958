"""Sections that nodes share, and holes and ends inside them: memory is what stock makes of it."""

from __future__ import annotations

import pytest
from guests import Guests, asked, meminfo, zones

from flatboot.guest.machine import Node, parse_nodes

pytestmark = pytest.mark.groups("sparse-ranges")

LAZY = pytest.param("lazy", marks=pytest.mark.groups("memory-map"))

#: Sections are 128 MiB: none of these sizes is a multiple of that but the last.
NODES = ("700M:1,748M:1,600M", "90M:1,1958M:1", "1G:1,0:1,1G")
#: With nodes without memory stock does not boot when asked for emulated nodes.
MACHINES = [(nodes, "") for nodes in NODES]
MACHINES += [(NODES[0], words) for words in ("numa=fake=300M", "memmap=5M$509M")]
#: What the kernel image of ours takes more, and what boot allocates on other nodes, in kB.
ELSEWHERE_KB = 4096


def machine_of(text: str) -> tuple[Node, ...]:
    nodes = parse_nodes(text)
    assert not isinstance(nodes, int)
    return tuple(nodes)


@pytest.mark.parametrize(("nodes", "parameters"), MACHINES)
@pytest.mark.parametrize("mode", [None, LAZY])
def test_every_zone_has_the_memory_that_stock_gives_it(
    guests: Guests, nodes: str, parameters: str, mode: str | None
) -> None:
    machine = machine_of(nodes)
    ours = guests(asked("flatboot", "2G", mode=mode, nodes=machine, cmdline=parameters))
    stock = guests(asked("stock", "2G", nodes=machine, cmdline=parameters))
    mine, theirs = zones(ours.files["/proc/zoneinfo"]), zones(stock.files["/proc/zoneinfo"])
    assert {key: zone.present for key, zone in mine.items()} == {
        key: zone.present for key, zone in theirs.items()
    }
    for path, text in stock.files.items():
        if path.startswith("/sys/devices/system/node/"):
            more = meminfo(text)["MemTotal"] - meminfo(ours.files[path])["MemTotal"]
            assert abs(more) <= ELSEWHERE_KB


@pytest.mark.parametrize("nodes", NODES)
def test_the_debug_kernel_finds_nothing(guests: Guests, nodes: str) -> None:
    guests(asked("flatboot", "2G", nodes=machine_of(nodes), config="debug"))
