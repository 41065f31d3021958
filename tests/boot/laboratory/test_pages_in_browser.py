"""Our pages as a browser shows them: headless Chromium without network, on a phone, in the dark."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flatboot.bootlog import bootlog, bootlog_advice, bootlog_way
from flatboot.common import paths
from flatboot.record import results
from flatboot.record.record import TRACE_FILE, Record
from flatboot.show import bootlog_page, report, web_page

REPORT = [
    "Boot cost against memory",
    "Boot cost against CPUs",
    "Phases",
    "Timeline",
    "CPU callbacks",
    "Comparison",
    "Host memory",
    "What was booted",
]
LOG = [
    "The answer",
    "From firmware to the end of the start",
    "Phases of the kernel",
    "What the boot waited for",
    "Largest gaps",
    "Units of systemd",
    "What would help",
    "Notes",
]
#: The sections of each page, and how many plots it has.
PAGES = {"report": (REPORT, 5), "log": (LOG, 1)}
DATA = Path(__file__).parents[2] / "data/bootlog"
PHONE, DESK = 390, 1280
TRACE = """\
       cpuhp/1-15      [001] .....   600: cpuhp_enter: cpu: 0001 target: 238 step: 8 (a_callback)
       cpuhp/1-15      [001] .....   700: cpuhp_exit:  cpu: 0001  state: 8 step: 8 ret: 0
"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
#: What a copy of the page, without its policy, tells of itself to the page that frames it: a window
#: of Chromium has a least width, a frame has none.
PROBE = """
<script>
const all = (what) => [...document.querySelectorAll(what)];
const style = (what, name) => getComputedStyle(document.querySelector(what))[name];
const fits = (element) => element.getBoundingClientRect().right <= innerWidth;
parent.postMessage({
  page: document.documentElement.scrollWidth,
  window: innerWidth,
  background: style("body", "backgroundColor"),
  ink: style("svg text", "fill"),
  line: style("svg path[style*='--series-1']", "stroke"),
  plots: all("figure svg").map(fits),
  boxes: all(".scroll").map(fits),
  scrolled: all(".scroll").filter((box) => box.scrollWidth > box.clientWidth).length,
}, "*");
</script>
"""
FRAME = """
<script>onmessage = (told) => { document.title = JSON.stringify(told.data); };</script>
<iframe src="copy.html" width="WIDTH" height="800" style="border: 0"></iframe>
"""

Browser = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """Opens a page and returns the DOM, and what was said on the console."""
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not there, which this test needs: run ./flatboot"

    def opened(page: Path, *flags: str) -> tuple[str, list[str]]:
        command = [
            chromium,
            "--headless",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1400,900",
            "--virtual-time-budget=2000",
            "--dump-dom",
            *flags,
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        said = done.stderr.decode(errors="replace").splitlines()
        return done.stdout.decode(), [line for line in said if "CONSOLE" in line]

    return opened


def records() -> list[Record]:
    """Return kept boots of both kernels, and more that fill the sections which those do not."""
    kept = results.read([paths.repo() / "bench" / "results" / "headline.json"])
    whole = next(record for record in kept if record.phases)
    cpus = dataclasses.replace(whole.machine, cpus=4)
    files = {**whole.files, TRACE_FILE: TRACE}
    note = "<script>console.log('run')</script>"
    return [*kept, dataclasses.replace(whole, machine=cpus, files=files, notes=[note])]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A page of either kind, named after it."""
    path = tmp_path / f"{request.param}.html"
    if request.param == "report":
        report.write(records(), path)
        return path
    way = bootlog_way.of_text((DATA / "systemd-analyze.txt").read_text())
    log = (DATA / "published-5.8.log").read_text()
    analysis = bootlog_way.added(bootlog.analyze(log), way)
    web_page.write(bootlog_page.page(analysis, bootlog_advice.advise(analysis), way), path)
    return path


def probed(browser: Browser, page: Path, width: int, *flags: str) -> dict[str, Any]:
    """Return what a copy of *page* tells of itself, *width* pixels wide."""
    text, removed = POLICY.subn("", page.read_text())
    assert removed == 1
    page.with_name("copy.html").write_text(text.replace("</body>", f"{PROBE}</body>"))
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    dom, said = browser(frame, *flags)
    assert not said
    title = re.search("<title>(.*)</title>", dom)
    assert title, dom
    found: dict[str, Any] = json.loads(html.unescape(title[1]))
    assert found["window"] == width
    return found


def test_every_section_is_there_and_nothing_complains(browser: Browser, page: Path) -> None:
    dom, said = browser(page)
    assert said == []
    sections, plots = PAGES[page.stem]
    assert re.findall(r"<h2>(.*?)</h2>", dom) == sections
    assert dom.count("<svg") == dom.count("<figure>") == plots
    assert dom.count('class="missing"') == 0


def test_a_page_that_would_run_something_complains(browser: Browser, page: Path) -> None:
    """What is not escaped would be seen: the policy forbids it, and the console says so."""
    bad = page.with_name("bad.html")
    bad.write_text(page.read_text().replace("</body>", "<script>alert(1)</script></body>"))
    assert browser(bad)[1]


def test_only_tables_scroll_on_a_phone(browser: Browser, page: Path) -> None:
    told = probed(browser, page, PHONE)
    assert told["page"] <= PHONE
    assert all(told["plots"]) and all(told["boxes"])
    assert told["scrolled"] > 0


def test_dark_differs_from_light_in_page_text_and_lines(browser: Browser, page: Path) -> None:
    light = probed(browser, page, DESK, "--blink-settings=preferredColorScheme=1")
    dark = probed(browser, page, DESK, "--blink-settings=preferredColorScheme=0")
    for what in ("background", "ink", "line"):
        assert light[what] != dark[what], what
    assert light["background"] == "rgb(255, 255, 255)"


def test_it_prints(browser: Browser, page: Path) -> None:
    printed = page.with_name("printed.pdf")
    browser(page, f"--print-to-pdf={printed}")
    assert printed.read_bytes().startswith(b"%PDF")
