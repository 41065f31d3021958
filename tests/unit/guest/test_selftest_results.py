"""What the kernel's own tests print, and what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.common.errors import FlatbootError
from flatboot.guest import kernel_selftests

PRINTED = """\
TAP version 13
1..3
# selftests: mm: ksft_madv_populate.sh
# TAP version 13
# # running ./madv_populate
# # TAP version 13
# # 1..3
# # ok 1 MADV_POPULATE_READ with PROT_READ
# # ok 2 pages at 0x7f0012345000 # SKIP no memory
# # not ok 3 - range is populated
# # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:1 error:0
# # ok 4 again
# # ok 5 again
# # ok 6 # SKIP huge zero page not enabled
# not ok 1 madv_populate -t 1 # exit=1
# ok 2 other # SKIP
# 1..2
not ok 1 selftests: mm: ksft_madv_populate.sh # exit=1
# selftests: damon: reclaim.sh
# it is ok 7 times
ok 2 selftests: damon: reclaim.sh
ok 3 selftests: damon: lru_sort.sh # SKIP
"""


def test_parts_come_before_the_whole_and_are_named_after_it() -> None:
    whole = "selftests: mm: ksft_madv_populate.sh"
    program = f"{whole} > madv_populate -t 1"
    assert kernel_selftests.results(PRINTED) == {
        f"{program} > MADV_POPULATE_READ with PROT_READ": "ok",
        f"{program} > pages at 0x": "SKIP",
        f"{program} > range is populated": "not ok",
        f"{program} > again": "ok",
        f"{program} > again (again 2)": "ok",
        f"{program} > huge zero page not enabled": "SKIP",
        program: "not ok",
        f"{whole} > other": "SKIP",
        whole: "not ok",
        "selftests: damon: reclaim.sh": "ok",
        "selftests: damon: lru_sort.sh": "SKIP",
    }


def test_nothing_ran() -> None:
    assert kernel_selftests.results("sh: not found\n") == {}


def test_a_missing_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_selftests, "_HEADER_DIR", tmp_path)
    with pytest.raises(FlatbootError, match=r"^liburing\.h is not there.*install liburing-dev$"):
        kernel_selftests.installed("7.3")
