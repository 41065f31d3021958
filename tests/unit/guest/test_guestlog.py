"""What /init prints, taken apart again."""

from __future__ import annotations

import pytest

from flatboot.guest import guestlog

CONSOLE = """\
flatboot: mark=12345\r
flatboot: begin /proc/meminfo\r
MemTotal:        2051220 kB\r
MemFree:         2039672 kB\r
\r
flatboot: end /proc/meminfo 56\r
flatboot: run fill\r
flatboot: pages=7\r
flatboot: pages=8\r
flatboot: exit.fill=0\r
flatboot: begin dmesg\r
6,0,0,-;Linux version 7.3.4\r
 SUBSYSTEM=none\r
4,1,1234567,-;a=b; c\r
\r
flatboot: end dmesg 65\r
flatboot: complete\r
"""


def test_parts() -> None:
    log = guestlog.parse(CONSOLE)
    assert log.results == {"mark": "12345", "pages": "8", "exit.fill": "0"}
    assert log.files == {
        "/proc/meminfo": "MemTotal:        2051220 kB\nMemFree:         2039672 kB\n"
    }
    assert log.log == "[    0.000000] Linux version 7.3.4\n[    1.234567] a=b; c"
    assert log.complete
    assert log.panic == ""


def test_messages_of_the_kernel_in_a_line_of_a_program() -> None:
    said = "[    7.997086] page: refcount:1\n[    8.000582] flags: 0x5=b\n"
    torn = CONSOLE.replace("exit.fill=0\r\n", f"exit.fill=0{said}\r\n")
    assert guestlog.parse(torn).results == guestlog.parse(CONSOLE).results
    torn = CONSOLE.replace("exit.fill=0\r\n", f"exit.f{said}ill=0\r\n")
    torn = torn.replace("complete\r\n", f"comp{said}lete\r\n")
    assert guestlog.parse(torn).complete
    assert guestlog.parse(torn).results == guestlog.parse(CONSOLE).results


def test_each_exit_status_is_kept() -> None:
    log = guestlog.parse("flatboot: exit.poke=139\nflatboot: exit.poke=0\n")
    assert log.exits == [("poke", "139"), ("poke", "0")]


@pytest.mark.parametrize("before", ["MemTotal:", "2039672 kB", "flatboot: end /proc/meminfo"])
def test_messages_of_the_kernel_in_a_file(before: str) -> None:
    """At its beginning, within a line, behind it; the length tells that nothing else fell in."""
    said = "[    5.506908] Freeing unused kernel image\r\n[    5.510651] Run /init\r\n"
    log = guestlog.parse(CONSOLE.replace(before, said + before))
    assert log.files == guestlog.parse(CONSOLE).files
    assert log.torn == []
    torn = guestlog.parse(CONSOLE.replace(before, said + "x\r\n" + before))
    assert torn.torn == ["/proc/meminfo"]


def test_torn_file() -> None:
    torn = CONSOLE.replace("MemFree:  ", "MemFree:[ 1.0] boo  ")
    assert guestlog.parse(torn).torn == ["/proc/meminfo"]


def test_panic() -> None:
    log = guestlog.parse("Kernel panic - not syncing: No working init found.  Try passing\n")
    assert log.panic == "No working init found.  Try passing"
    assert not log.complete


def test_nothing() -> None:
    log = guestlog.parse("")
    assert (log.results, log.files, log.log, log.complete) == ({}, {}, "", False)
