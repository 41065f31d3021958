"""The web page of an analysed log: whole, the same each time, and safe whatever the log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.bootlog import bootlog, bootlog_advice, bootlog_way
from flatboot.bootlog.bootlog_way import WholeWay
from flatboot.show import bootlog_page

DATA = Path(__file__).parents[2] / "data/bootlog"
SECTIONS = ("answer", "way", "phases", "waits", "gaps", "units", "help", "notes")


def page(text: str, way: WholeWay | None = None) -> str:
    analysis = bootlog.analyze(text)
    known = way or WholeWay()
    advice = bootlog_advice.advise(analysis)
    return bootlog_page.page(bootlog_way.added(analysis, known), advice, known)


@pytest.mark.parametrize(
    "name", ["published-5.8.log", "dmesg-no-times.log", "public/T.log", "public/oops.log"]
)
def test_each_log_has_a_whole_page(name: str) -> None:
    text = (DATA / name).read_text()
    made = page(text)
    assert all(f'<section id="{key}">' in made for key in SECTIONS)
    assert made == page(text)
    assert "<script" not in made and "http://" not in made.replace("http://www.w3.org", "")


def test_what_the_page_says() -> None:
    made = page((DATA / "public/marked.log").read_text())
    for part in ("2.016 s (49% of 4.122 s)", "newer firmware", "3.311 s behind", "<svg"):
        assert part in made
    way = bootlog_way.of_text((DATA / "systemd-analyze.txt").read_text())
    whole = page((DATA / "published-5.8.log").read_text(), way)
    for part in ("62.500 s of 74.326 s in the user space", "boot loader", "docker.service"):
        assert part in whole


def test_a_log_puts_nothing_into_the_page() -> None:
    text = (DATA / "public/dhcp.log").read_text()
    hostile = text.replace("IP-Config: Complete:", "<script>alert(1)</script><svg onload=x>&")
    made = page(hostile.replace("192.0.2.1,", "<b>192.0.2.1</b>,"))
    assert "<script" not in made and "<b>" not in made and "onload=x>" not in made
